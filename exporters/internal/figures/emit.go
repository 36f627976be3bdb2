package figures

import (
	"cmp"
	"maps"
	"slices"

	"volley/volleydebug"
)

// An emitter takes a value with those of its labels.
type emitter func(m *Metric, value float64, labels ...string)

// emit hands out all figures, in an order of its own that is the same each time.
func (v *view) emit(f emitter) {
	for _, k := range sorted(v.listeners) {
		v.listeners[k].emit(f, k)
		sum := v.listenerSum[k]
		for i, c := range listenerCounted {
			if sum.tells(i, c.figure) {
				f(c.metric, float64(sum.counts[i]), k.protocol, k.listener, k.role)
			}
		}
	}
	for _, k := range sorted(v.groups) {
		v.groups[k].emit(f, k)
		sum := v.groupSum[k]
		for i, m := range groupCounted {
			if m != nil && sum.tells(i, countFigures[i]) {
				f(m, float64(sum.counts[i]), k.protocol, k.listener, k.role)
			}
		}
		for _, w := range missedWhere {
			if sum.tells(w.count, countFigures[w.count]) {
				f(missed, float64(sum.counts[w.count]), k.protocol, k.listener, k.role, w.label)
			}
		}
	}
}

// tells reports whether a count means something: figures that no protocol of these
// connections tells are left out, and not shown as zero.
func (s *sum) tells(count int, f volleydebug.Figure) bool {
	return s.counts[count] > 0 || s.known&f == f
}

// listenerCounted are the counters of listeners, by their places in counts.
var listenerCounted = map[int]struct {
	metric *Metric
	figure volleydebug.Figure
}{
	accepted: {listenerAccepted, 0}, refused: {listenerRefused, 0}, filtered: {listenerFiltered, 0},
	unknown: {listenerUnknown, volleydebug.Socket}, invalid: {listenerInvalid, volleydebug.Invalid},
	socketDrops: {listenerDrops, volleydebug.Socket},
	readErrors:  {listenerReadErr, volleydebug.Socket}, writeErrors: {listenerWriteErr, volleydebug.Socket},
	readCalls: {listenerReads, volleydebug.Socket}, sendCalls: {listenerSends, volleydebug.Socket},
}

// countFigures say which figure a count of connections is; 0: all tell it.
var countFigures = [numCounts]volleydebug.Figure{
	messagesSent:      volleydebug.Messages,
	messagesDelivered: volleydebug.Fates, messagesLost: volleydebug.Fates, messagesResent: volleydebug.Resent,
	bytesSent: volleydebug.Bytes, bytesReceived: volleydebug.Bytes,
	packetsSent: volleydebug.Packets, packetsReceived: volleydebug.Packets, packetsInvalid: volleydebug.Invalid,
	missedNetwork: volleydebug.MissedNetwork, missedSocket: volleydebug.MissedSocket, missedInbox: volleydebug.MissedInbox,
}

var missedWhere = []struct {
	count int
	label string
}{{missedNetwork, "network"}, {missedSocket, "socket"}, {missedInbox, "inbox"}}

// sorted returns the keys of a map in order.
func sorted[V any](m map[key]V) []key {
	return slices.SortedFunc(maps.Keys(m), func(a, b key) int {
		return cmp.Or(cmp.Compare(a.protocol, b.protocol), cmp.Compare(a.listener, b.listener), cmp.Compare(a.role, b.role))
	})
}

// emit hands out the gauges of a listener.
func (g *listening) emit(f emitter, k key) {
	gauge := func(m *Metric, v float64, more ...string) {
		f(m, v, append([]string{k.protocol, k.listener, k.role}, more...)...)
	}
	gauge(listenerConns, float64(g.conns))
	if g.known&volleydebug.Memory != 0 {
		gauge(listenerMemory, float64(g.memory))
		if g.limit > 0 {
			gauge(listenerLimit, float64(g.limit))
		}
	}
	if g.readBuffer > 0 {
		gauge(listenerBuffer, float64(g.readBuffer), "receive")
	}
	if g.writeBuffer > 0 {
		gauge(listenerBuffer, float64(g.writeBuffer), "send")
	}
}

// emit hands out how connections stand.
func (g *group) emit(f emitter, k key) {
	gauge := func(m *Metric, v float64, more ...string) {
		f(m, v, append([]string{k.protocol, k.listener, k.role}, more...)...)
	}
	gauge(groupConns, float64(g.conns))
	for _, d := range []struct {
		m      *Metric
		values []float64
	}{{groupRTT, g.rtt}, {groupJitter, g.jitter}, {groupLoss, g.loss}} {
		if len(d.values) > 0 {
			eachPercentile(d.values, func(label string, v float64) { gauge(d.m, v, label) })
		}
	}
	if g.known&volleydebug.Rates != 0 {
		gauge(groupRates, g.sendRate/8, "sent")
		gauge(groupRates, g.receiveRate/8, "received")
		gauge(groupRates, g.ackRate/8, "acknowledged")
	}
	for _, q := range []struct {
		m     *Metric
		shown bool
		value int
	}{
		{groupRead, g.known&volleydebug.ReadQueue != 0, g.readQueue},
		{groupSend, g.known&volleydebug.SendQueue != 0, g.sendQueue},
		{groupMemory, g.known&volleydebug.Memory != 0, g.memory},
		{groupFlight, g.bytes, g.inFlightBytes},
		{groupWaits, g.messages, g.inFlightMessages},
	} {
		if q.shown {
			gauge(q.m, float64(q.value))
		}
	}
}
