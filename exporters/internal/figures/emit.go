package figures

import (
	"cmp"
	"maps"
	"slices"

	"volley/volleydebug"
)

// An emitter takes a value with those of its labels.
type emitter func(m *Metric, value float64, labels ...string)

// emit hands out all figures in a fixed order.
func (v *view) emit(f emitter) {
	for _, k := range sorted(v.listeners) {
		v.listeners[k].emit(f, k)
		sum := v.listenerSum[k]
		for i, c := range listenerCounted {
			if sum.tells(i, c.field) {
				f(c.metric, float64(sum.counts[i]), k.protocol, k.listener, k.role)
			}
		}
	}
	for _, k := range sorted(v.groups) {
		v.groups[k].emit(f, k)
		sum := v.groupSum[k]
		for i, m := range groupCounted {
			if m != nil && sum.tells(i, countFields[i]) {
				f(m, float64(sum.counts[i]), k.protocol, k.listener, k.role)
			}
		}
		for _, w := range missedWhere {
			if sum.tells(w.count, countFields[w.count]) {
				f(missed, float64(sum.counts[w.count]), k.protocol, k.listener, k.role, w.label)
			}
		}
	}
}

// tells reports whether to show a count: not if no protocol tells it.
func (s *sum) tells(count int, field string) bool {
	return s.counts[count] > 0 || field == "" || tells(s.known, field)
}

// tells reports whether a figure is among known ones, by the name of its field.
func tells(known uint64, field string) bool {
	c := volleydebug.Conn{Known: known}
	return c.Knows(field)
}

// listenerCounted are the counters of listeners, by their places in counts.
var listenerCounted = map[int]struct {
	metric *Metric
	field  string // "": all listeners tell it
}{
	accepted: {listenerAccepted, ""}, refused: {listenerRefused, ""}, filtered: {listenerFiltered, ""},
	unknown: {listenerUnknown, "SocketDrops"}, invalid: {listenerInvalid, "PacketsInvalid"},
	socketDrops: {listenerDrops, "SocketDrops"},
	readErrors:  {listenerReadErr, "SocketDrops"}, writeErrors: {listenerWriteErr, "SocketDrops"},
	readCalls: {listenerReads, "SocketDrops"}, sendCalls: {listenerSends, "SocketDrops"},
}

// countFields say which field a count of connections is; "": all tell it.
var countFields = [numCounts]string{
	messagesSent:      "MessagesSent",
	messagesDelivered: "MessagesDelivered", messagesLost: "MessagesDelivered", messagesResent: "MessagesResent",
	bytesSent: "BytesSent", bytesReceived: "BytesSent",
	packetsSent: "PacketsSent", packetsReceived: "PacketsSent", packetsInvalid: "PacketsInvalid",
	missedNetwork: "MissedNetwork", missedSocket: "MissedSocket", missedInbox: "MissedInbox",
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
	if tells(g.known, "Memory") {
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

// emit hands out the gauges of connections.
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
	if tells(g.known, "SendRate") {
		gauge(groupRates, g.sendRate, "sent")
		gauge(groupRates, g.receiveRate, "received")
		gauge(groupRates, g.ackRate, "acknowledged")
	}
	for _, q := range []struct {
		m     *Metric
		shown bool
		value int
	}{
		{groupRead, tells(g.known, "ReadQueue"), g.readQueue},
		{groupSend, tells(g.known, "SendQueue"), g.sendQueue},
		{groupMemory, tells(g.known, "Memory"), g.memory},
		{groupFlight, g.bytes, g.inFlightBytes},
		{groupWaits, g.messages, g.inFlightMessages},
	} {
		if q.shown {
			gauge(q.m, float64(q.value))
		}
	}
}
