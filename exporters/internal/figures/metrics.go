package figures

import "strings"

// A Kind says how a figure behaves.
type Kind int

// The kinds.
const (
	Counter Kind = iota // only ever grows, while its listener lives
	Gauge
)

// A Metric is a figure with a name. Its values differ by the values of the labels.
type Metric struct {
	// Name is that of OpenTelemetry, with dots, and Unit in its notation (UCUM).
	Name, Unit string
	Help       string
	Kind       Kind
	Labels     []string
}

// Prometheus returns the name by the conventions of Prometheus, with the unit and
// "_total" behind counters: the one that a translation of OpenTelemetry gives, too.
func (m *Metric) Prometheus() string {
	name := strings.ReplaceAll(m.Name, ".", "_")
	switch m.Unit {
	case "s":
		name += "_seconds"
	case "By":
		name += "_bytes"
	case "By/s":
		name += "_bytes_per_second"
	case "1":
		name += "_ratio"
	}
	if m.Kind == Counter {
		name += "_total"
	}
	return name
}

var (
	// perListener are the labels of what a listener has.
	perListener = []string{"protocol", "listener", "kind"}
	// perGroup are those of what connections have, for all of a listener, or all
	// that belong to none and came to be in the same way.
	perGroup = []string{"protocol", "listener", "role"}
)

func with(labels []string, more string) []string {
	return append(append([]string(nil), labels...), more)
}

// Metrics are all figures, in the order in which a reader wants them.
var Metrics []*Metric

func metric(kind Kind, name, unit, help string, labels []string) *Metric {
	m := &Metric{Name: name, Unit: unit, Help: help, Kind: kind, Labels: labels}
	Metrics = append(Metrics, m)
	return m
}

// What listeners have.
var (
	listenerConns    = metric(Gauge, "volley.listener.connections", "{connection}", "Connections that a listener has at present.", perListener)
	listenerAccepted = metric(Counter, "volley.listener.accepted", "{connection}", "Connections that a listener has accepted.", perListener)
	listenerRefused  = metric(Counter, "volley.listener.refused", "{connection}", "Peers that were turned away for want of room.", perListener)
	listenerFiltered = metric(Counter, "volley.listener.filtered", "{connection}", "Peers that the listener's filter turned away.", perListener)
	listenerUnknown  = metric(Counter, "volley.listener.unknown", "{datagram}", "Datagrams of strangers that came to nothing.", perListener)
	listenerInvalid  = metric(Counter, "volley.listener.invalid", "{datagram}", "Datagrams that were of no use, of strangers and in sessions.", perListener)
	listenerMemory   = metric(Gauge, "volley.listener.memory", "By", "Memory that the connections of a listener hold.", perListener)
	listenerLimit    = metric(Gauge, "volley.listener.memory.limit", "By", "Memory that the connections of a listener may hold.", perListener)
	listenerDrops    = metric(Counter, "volley.listener.socket.drops", "{datagram}", "Datagrams that found the receive buffer of the socket full.", perListener)
	listenerReadErr  = metric(Counter, "volley.listener.read.errors", "{error}", "Passing errors of reading the sockets.", perListener)
	listenerWriteErr = metric(Counter, "volley.listener.write.errors", "{error}", "Passing errors of writing to the sockets.", perListener)
	listenerReads    = metric(Counter, "volley.listener.read.calls", "{call}", "System calls that have received datagrams.", perListener)
	listenerSends    = metric(Counter, "volley.listener.send.calls", "{call}", "System calls that have sent datagrams.", perListener)
	listenerBuffer   = metric(Gauge, "volley.listener.socket.buffer", "By", "Size of the socket's buffers, as the system has granted it.", with(perListener, "direction"))
)

// What connections have counted, in the order of counters.
var (
	groupConns   = metric(Gauge, "volley.connections", "{connection}", "Connections at present.", perGroup)
	groupCounted = [numCounts]*Metric{
		ended:             metric(Counter, "volley.connections.ended", "{connection}", "Connections that have ended.", perGroup),
		messagesSent:      metric(Counter, "volley.messages.sent", "{message}", "Messages that were sent.", perGroup),
		messagesReceived:  metric(Counter, "volley.messages.received", "{message}", "Messages that were received.", perGroup),
		messagesDelivered: metric(Counter, "volley.messages.delivered", "{message}", "Sent messages that were acknowledged.", perGroup),
		messagesLost:      metric(Counter, "volley.messages.lost", "{message}", "Sent messages that got lost.", perGroup),
		messagesResent:    metric(Counter, "volley.messages.resent", "{message}", "Messages or frames that were sent again.", perGroup),
		bytesSent:         metric(Counter, "volley.messages.sent.size", "By", "Bytes of messages that were sent.", perGroup),
		bytesReceived:     metric(Counter, "volley.messages.received.size", "By", "Bytes of messages that were received.", perGroup),
		packetsSent:       metric(Counter, "volley.packets.sent", "{packet}", "Packets of the protocol that were sent.", perGroup),
		packetsReceived:   metric(Counter, "volley.packets.received", "{packet}", "Packets of the protocol that were received.", perGroup),
		packetsInvalid:    metric(Counter, "volley.packets.invalid", "{packet}", "Received packets that were malformed, forged or replayed.", perGroup),
	}
	// missed has three values for each group, by the label where.
	missed = metric(Counter, "volley.missed", "{message}",
		"Messages of peers that got lost: in the network, in the socket's full receive buffer, or in a full inbox.", with(perGroup, "where"))
)

// How connections stand. A percentile of 100 is the largest.
var (
	groupRTT    = metric(Gauge, "volley.rtt", "s", "Smoothed round-trip time, as percentiles over the connections.", with(perGroup, "percentile"))
	groupJitter = metric(Gauge, "volley.jitter", "s", "Mean deviation of the round-trip time, as percentiles over the connections.", with(perGroup, "percentile"))
	groupLoss   = metric(Gauge, "volley.loss", "1", "Share of what was sent of late that got lost, 0 to 1, as percentiles over the connections.", with(perGroup, "percentile"))
	groupRates  = metric(Gauge, "volley.bandwidth", "By/s", "Bytes a second with IP and UDP headers, sent, received and acknowledged, of all connections.", with(perGroup, "direction"))
	groupRead   = metric(Gauge, "volley.read.queue", "By", "Received messages that the application has not read.", perGroup)
	groupSend   = metric(Gauge, "volley.send.queue", "By", "Sent messages that are not acknowledged.", perGroup)
	groupFlight = metric(Gauge, "volley.in.flight", "By", "What was sent and has no fate yet, where the protocol counts it in bytes.", perGroup)
	groupWaits  = metric(Gauge, "volley.in.flight.messages", "{message}", "Messages that were sent and have no fate yet, where the protocol counts it so.", perGroup)
	groupMemory = metric(Gauge, "volley.connections.memory", "By", "Memory that connections hold beside what waits to be read.", perGroup)
)

// What looking costs.
var lookTime = metric(Gauge, "volley.snapshot.duration", "s", "How long it took to look at all listeners and connections.", nil)
