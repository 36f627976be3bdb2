package figures

import (
	"math"
	"net"
	"slices"
	"strings"
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

func (g *listening) add(l *listener) {
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
	known   uint64
	conns   int
	spreads [][]float64 // of connSpreads: the values of those that know
	sums    []float64   // of connSums, NaN for what none tells
}

func newGroup() *group {
	g := &group{spreads: make([][]float64, len(connSpreads)), sums: make([]float64, len(connSums))}
	for i := range g.sums {
		g.sums[i] = math.NaN()
	}
	return g
}

func (g *group) add(c *conn) {
	g.known |= c.Known
	g.conns++
	for i, f := range connSpreads {
		if c.Knows(f.field) {
			g.spreads[i] = append(g.spreads[i], f.of(c))
		}
	}
	for i, f := range connSums {
		other := f.metric == inFlightBytes && c.Unit != "bytes" || f.metric == inFlightMessages && c.Unit == "bytes"
		if other || !c.Knows(f.field) {
			continue
		}
		if math.IsNaN(g.sums[i]) {
			g.sums[i] = 0
		}
		g.sums[i] += f.of(c)
	}
}

// totalsOf returns what a connection has counted that has not ended.
func totalsOf(c *conn) *totals {
	return &totals{
		MessagesSent: c.MessagesSent, MessagesReceived: c.MessagesReceived,
		MessagesDelivered: c.MessagesDelivered, MessagesLost: c.MessagesLost, MessagesResent: c.MessagesResent,
		BytesSent: c.BytesSent, BytesReceived: c.BytesReceived,
		PacketsSent: c.PacketsSent, PacketsReceived: c.PacketsReceived, PacketsInvalid: c.PacketsInvalid,
		MissedNetwork: c.MissedNetwork, MissedSocket: c.MissedSocket, MissedInbox: c.MissedInbox,
	}
}

// countsOf returns the values of counters.
func countsOf[T any](counters []figure[T, uint64], t *T) counts {
	c := make(counts, len(counters))
	for i, f := range counters {
		c[i] = f.of(t)
	}
	return c
}

// lowest returns the protocol on the socket of a connection.
func lowest(c *conn) string {
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

// eachPercentile sorts values, at least one, and calls f with percentiles by nearest rank.
func eachPercentile(values []float64, f func(label string, v float64)) {
	slices.Sort(values)
	for _, p := range percentiles {
		rank := math.Ceil(p.share * float64(len(values)))
		f(p.label, values[int(rank)-1])
	}
}
