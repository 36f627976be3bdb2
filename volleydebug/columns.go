package volleydebug

import (
	"math"
	"strconv"
	"time"
)

// A column is a figure of connections as JSON and the page have it.
type column struct {
	name   string // with the unit, where there is one
	figure Figure // 0: always known
	value  func(*Conn) float64
}

// columns are those of all connections. The page finds them by name.
var columns = []column{
	{"rtt_ms", RTT, func(c *Conn) float64 { return millis(c.RTT) }},
	{"rtt_min_ms", RTT, func(c *Conn) float64 { return millis(c.RTTMin) }},
	{"jitter_ms", Jitter, func(c *Conn) float64 { return millis(c.Jitter) }},
	{"loss", Loss, func(c *Conn) float64 { return math.Round(c.Loss*1e6) / 1e6 }},
	{"send_bps", Rates, func(c *Conn) float64 { return math.Round(c.SendRate) }},
	{"receive_bps", Rates, func(c *Conn) float64 { return math.Round(c.ReceiveRate) }},
	{"acked_bps", Rates, func(c *Conn) float64 { return math.Round(c.AckedRate) }},
	{"messages_sent", Messages, func(c *Conn) float64 { return float64(c.MessagesSent) }},
	{"messages_received", 0, func(c *Conn) float64 { return float64(c.MessagesReceived) }},
	{"messages_delivered", Fates, func(c *Conn) float64 { return float64(c.MessagesDelivered) }},
	{"messages_lost", Fates, func(c *Conn) float64 { return float64(c.MessagesLost) }},
	{"messages_resent", Resent, func(c *Conn) float64 { return float64(c.MessagesResent) }},
	{"bytes_sent", Bytes, func(c *Conn) float64 { return float64(c.BytesSent) }},
	{"bytes_received", Bytes, func(c *Conn) float64 { return float64(c.BytesReceived) }},
	{"packets_sent", Packets, func(c *Conn) float64 { return float64(c.PacketsSent) }},
	{"packets_received", Packets, func(c *Conn) float64 { return float64(c.PacketsReceived) }},
	{"packets_invalid", Invalid, func(c *Conn) float64 { return float64(c.PacketsInvalid) }},
	{"missed_network", MissedNetwork, func(c *Conn) float64 { return float64(c.MissedNetwork) }},
	{"missed_socket", MissedSocket, func(c *Conn) float64 { return float64(c.MissedSocket) }},
	{"missed_inbox", MissedInbox, func(c *Conn) float64 { return float64(c.MissedInbox) }},
	{"window", Window, func(c *Conn) float64 { return float64(c.Window) }},
	{"in_flight", InFlight, func(c *Conn) float64 { return float64(c.InFlight) }},
	{"send_queue_bytes", SendQueue, func(c *Conn) float64 { return float64(c.SendQueue) }},
	{"read_queue_bytes", ReadQueue, func(c *Conn) float64 { return float64(c.ReadQueue) }},
	{"read_buffer_bytes", ReadQueue, func(c *Conn) float64 { return float64(c.ReadBuffer) }},
	{"memory_bytes", Memory, func(c *Conn) float64 { return float64(c.Memory) }},
}

// millis returns a duration in milliseconds, in steps of a microsecond.
func millis(d time.Duration) float64 {
	return float64(d.Round(time.Microsecond)/time.Microsecond) / 1000
}

// figures appends the values of all columns to dst, NaN for what is not known.
func figures(dst []float64, c *Conn) []float64 {
	for i := range columns {
		if col := &columns[i]; c.Knows(col.figure) {
			dst = append(dst, col.value(c))
		} else {
			dst = append(dst, math.NaN())
		}
	}
	return dst
}

// appendNumber appends a number as JSON, null if it is none.
func appendNumber(b []byte, v float64) []byte {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return append(b, "null"...)
	}
	return strconv.AppendFloat(b, v, 'f', -1, 64)
}
