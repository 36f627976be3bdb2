package figures

import (
	"math"
	"net"
	"slices"
	"strings"

	"volley/volleydebug"
)

// A listening is what the listeners of one key have, but for their counters.
type listening struct {
	known                   uint64
	conns                   int
	memory, limit           int64
	readBuffer, writeBuffer int
}

// unlimited is what a MaxMemory is at least that is no limit; there may be several.
const unlimited = math.MaxInt32 << 20

func (g *listening) add(l *volleydebug.Listener) {
	g.known |= l.Known
	g.conns += l.Conns
	g.memory += l.Memory
	if l.MaxMemory < unlimited {
		g.limit += l.MaxMemory
	}
	g.readBuffer, g.writeBuffer = l.SocketReadBuffer, l.SocketWriteBuffer
}

// A group is the state of the connections of one key.
type group struct {
	known                           uint64
	conns                           int
	rtt, jitter, loss               []float64 // of those that know
	sendRate, receiveRate, ackRate  float64   // bytes a second
	readQueue, sendQueue            int
	inFlightBytes, inFlightMessages int
	bytes, messages                 bool // which of the two is known
	memory                          int
}

func (g *group) add(c *volleydebug.Conn) {
	g.known |= c.Known
	g.conns++
	if c.Knows("RTT") {
		g.rtt = append(g.rtt, c.RTT.Seconds())
	}
	if c.Knows("Jitter") {
		g.jitter = append(g.jitter, c.Jitter.Seconds())
	}
	if c.Knows("Loss") {
		g.loss = append(g.loss, c.Loss)
	}
	g.sendRate += c.SendRate
	g.receiveRate += c.ReceiveRate
	g.ackRate += c.AckedRate
	g.readQueue += c.ReadQueue
	g.sendQueue += c.SendQueue
	g.memory += c.Memory
	if c.Knows("InFlight") {
		if c.Unit == "bytes" {
			g.inFlightBytes, g.bytes = g.inFlightBytes+c.InFlight, true
		} else {
			g.inFlightMessages, g.messages = g.inFlightMessages+c.InFlight, true
		}
	}
}

// countsOf returns what a connection has counted.
func countsOf(c *volleydebug.Conn) counts {
	return counts{
		messagesSent: c.MessagesSent, messagesReceived: c.MessagesReceived,
		messagesDelivered: c.MessagesDelivered, messagesLost: c.MessagesLost, messagesResent: c.MessagesResent,
		bytesSent: c.BytesSent, bytesReceived: c.BytesReceived,
		packetsSent: c.PacketsSent, packetsReceived: c.PacketsReceived, packetsInvalid: c.PacketsInvalid,
		missedNetwork: c.MissedNetwork, missedSocket: c.MissedSocket, missedInbox: c.MissedInbox,
	}
}

// countsOfEnded returns what connections have counted that have ended.
func countsOfEnded(t *volleydebug.Totals) counts {
	return counts{
		ended:        t.Conns,
		messagesSent: t.MessagesSent, messagesReceived: t.MessagesReceived,
		messagesDelivered: t.MessagesDelivered, messagesLost: t.MessagesLost, messagesResent: t.MessagesResent,
		bytesSent: t.BytesSent, bytesReceived: t.BytesReceived,
		packetsSent: t.PacketsSent, packetsReceived: t.PacketsReceived, packetsInvalid: t.PacketsInvalid,
		missedNetwork: t.MissedNetwork, missedSocket: t.MissedSocket, missedInbox: t.MissedInbox,
	}
}

// countsOfListener returns what a listener itself has counted.
func countsOfListener(l *volleydebug.Listener) counts {
	return counts{
		accepted: l.Accepted, refused: l.Refused, filtered: l.Filtered, unknown: l.Unknown, invalid: l.Invalid,
		socketDrops: l.SocketDrops, readErrors: l.ReadErrors, writeErrors: l.WriteErrors,
		readCalls: l.ReadCalls, sendCalls: l.SendCalls,
	}
}

// lowest returns the protocol on the socket of a connection.
func lowest(c *volleydebug.Conn) string {
	if c.Over != "" {
		return c.Over
	}
	return c.Protocol
}

// address returns the address of a listener as a label.
func address(a net.Addr) string {
	if a == nil {
		return ""
	}
	return strings.ToValidUTF8(a.String(), "?") // of a Unix socket it may be anything
}

// percentiles are those shown of what connections have.
var percentiles = []struct {
	label string
	share float64
}{{"50", 0.50}, {"90", 0.90}, {"99", 0.99}, {"100", 1}}

// eachPercentile sorts values, at least one, and calls f with each percentile, by
// nearest rank.
func eachPercentile(values []float64, f func(label string, v float64)) {
	slices.Sort(values)
	for _, p := range percentiles {
		rank := math.Ceil(p.share * float64(len(values)))
		f(p.label, values[int(rank)-1])
	}
}
