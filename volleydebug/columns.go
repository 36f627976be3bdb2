package volleydebug

import (
	"math"
	"strconv"
	"time"

	"volley/internal/registry"
)

// A column is a figure of connections as JSON and the page have it.
type column struct {
	name  string // with the unit
	known uint64 // bits of Conn.Known; 0: all protocols tell it
	value func(*Conn) float64
}

// columns are those of all connections. The page finds them by name.
var columns = []column{
	{"rtt_ms", registry.RTT, func(c *Conn) float64 { return millis(c.RTT) }},
	{"rtt_min_ms", registry.RTT, func(c *Conn) float64 { return millis(c.RTTMin) }},
	{"jitter_ms", registry.Jitter, func(c *Conn) float64 { return millis(c.Jitter) }},
	{"loss", registry.Loss, func(c *Conn) float64 { return math.Round(c.Loss*1e6) / 1e6 }},
	{"send_bytes_per_second", registry.Rates, func(c *Conn) float64 { return math.Round(c.SendRate) }},
	{"receive_bytes_per_second", registry.Rates, func(c *Conn) float64 { return math.Round(c.ReceiveRate) }},
	{"acked_bytes_per_second", registry.Rates, func(c *Conn) float64 { return math.Round(c.AckedRate) }},
	{"messages_sent", registry.Messages, func(c *Conn) float64 { return float64(c.MessagesSent) }},
	{"messages_received", 0, func(c *Conn) float64 { return float64(c.MessagesReceived) }},
	{"messages_delivered", registry.Fates, func(c *Conn) float64 { return float64(c.MessagesDelivered) }},
	{"messages_lost", registry.Fates, func(c *Conn) float64 { return float64(c.MessagesLost) }},
	{"messages_resent", registry.Resent, func(c *Conn) float64 { return float64(c.MessagesResent) }},
	{"bytes_sent", registry.Bytes, func(c *Conn) float64 { return float64(c.BytesSent) }},
	{"bytes_received", registry.Bytes, func(c *Conn) float64 { return float64(c.BytesReceived) }},
	{"packets_sent", registry.Packets, func(c *Conn) float64 { return float64(c.PacketsSent) }},
	{"packets_received", registry.Packets, func(c *Conn) float64 { return float64(c.PacketsReceived) }},
	{"packets_invalid", registry.Invalid, func(c *Conn) float64 { return float64(c.PacketsInvalid) }},
	{"missed_network", registry.MissedNetwork, func(c *Conn) float64 { return float64(c.MissedNetwork) }},
	{"missed_socket", registry.MissedSocket, func(c *Conn) float64 { return float64(c.MissedSocket) }},
	{"missed_inbox", registry.MissedInbox, func(c *Conn) float64 { return float64(c.MissedInbox) }},
	{"window", registry.Window, func(c *Conn) float64 { return float64(c.Window) }},
	{"in_flight", registry.InFlight, func(c *Conn) float64 { return float64(c.InFlight) }},
	{"send_queue_bytes", registry.SendQueue, func(c *Conn) float64 { return float64(c.SendQueue) }},
	{"read_queue_bytes", registry.ReadQueue, func(c *Conn) float64 { return float64(c.ReadQueue) }},
	{"read_buffer_bytes", registry.ReadQueue, func(c *Conn) float64 { return float64(c.ReadBuffer) }},
	{"memory_bytes", registry.Memory, func(c *Conn) float64 { return float64(c.Memory) }},
}

// millis returns a duration in milliseconds, in steps of a microsecond.
func millis(d time.Duration) float64 {
	return float64(d.Round(time.Microsecond)/time.Microsecond) / 1000
}

// figures appends the values of all columns to dst, NaN for what is not known.
func figures(dst []float64, c *Conn) []float64 {
	for i := range columns {
		if col := &columns[i]; c.Known&col.known == col.known {
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
