package figures

import (
	"strings"

	"volley/volleydebug"
)

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

// Prometheus returns the conventional name, with unit and "_total", as OpenTelemetry's would be.
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
	// perNode are those of what a node of a fleet has.
	perNode = []string{"node"}
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

// A figure is what a T tells of a metric. Field is the name that Knows takes, "" if all tell
// it, and label the value of one more label, if there is one.
type figure[T any, V uint64 | float64] struct {
	metric       *Metric
	field, label string
	of           func(*T) V
}

type (
	listener = volleydebug.Listener
	totals   = volleydebug.Totals
	conn     = volleydebug.Conn
)

// listenerConns is the only figure of listeners that all tell.
var listenerConns = metric(Gauge, "volley.listener.connections", "{connection}", "Connections that a listener has at present.", perListener)

// listenerCounters are what listeners count.
var listenerCounters = []figure[listener, uint64]{
	{metric(Counter, "volley.listener.accepted", "{connection}", "Connections that a listener has accepted.", perListener), "", "", func(l *listener) uint64 { return l.Accepted }},
	{metric(Counter, "volley.listener.refused", "{connection}", "Peers that were turned away for want of room.", perListener), "", "", func(l *listener) uint64 { return l.Refused }},
	{metric(Counter, "volley.listener.filtered", "{connection}", "Peers that the listener's filter turned away.", perListener), "", "", func(l *listener) uint64 { return l.Filtered }},
	{metric(Counter, "volley.listener.unknown", "{datagram}", "Datagrams of strangers that came to nothing.", perListener), "SocketDrops", "", func(l *listener) uint64 { return l.Unknown }},
	{metric(Counter, "volley.listener.invalid", "{datagram}", "Datagrams that were of no use, of strangers and in sessions.", perListener), "PacketsInvalid", "", func(l *listener) uint64 { return l.Invalid }},
	{metric(Counter, "volley.listener.socket.drops", "{datagram}", "Datagrams that found the receive buffer of the socket full.", perListener), "SocketDrops", "", func(l *listener) uint64 { return l.SocketDrops }},
	{metric(Counter, "volley.listener.read.errors", "{error}", "Passing errors of reading the sockets.", perListener), "SocketDrops", "", func(l *listener) uint64 { return l.ReadErrors }},
	{metric(Counter, "volley.listener.write.errors", "{error}", "Passing errors of writing to the sockets.", perListener), "SocketDrops", "", func(l *listener) uint64 { return l.WriteErrors }},
	{metric(Counter, "volley.listener.read.calls", "{call}", "System calls that have received datagrams.", perListener), "SocketDrops", "", func(l *listener) uint64 { return l.ReadCalls }},
	{metric(Counter, "volley.listener.send.calls", "{call}", "System calls that have sent datagrams.", perListener), "SocketDrops", "", func(l *listener) uint64 { return l.SendCalls }},
}

// Figures of listeners.
var (
	listenerMemory = metric(Gauge, "volley.listener.memory", "By", "Memory that the connections of a listener hold.", perListener)
	listenerLimit  = metric(Gauge, "volley.listener.memory.limit", "By", "Memory that the connections of a listener may hold.", perListener)
	listenerBuffer = metric(Gauge, "volley.listener.socket.buffer", "By", "Size of the socket's buffers, as the system has granted it.", with(perListener, "direction"))
)

// Counters of connections.
var (
	groupConns       = metric(Gauge, "volley.connections", "{connection}", "Connections at present.", perGroup)
	ended            = metric(Counter, "volley.connections.ended", "{connection}", "Connections that have ended.", perGroup)
	messagesReceived = metric(Counter, "volley.messages.received", "{message}", "Messages that were received.", perGroup)
	bytesSent        = metric(Counter, "volley.messages.sent.size", "By", "Bytes of messages that were sent.", perGroup)
	missed           = metric(Counter, "volley.missed", "{message}",
		"Messages of peers that got lost: in the network, in the socket's full receive buffer, or in a full inbox.", with(perGroup, "where"))

	connCounters = []figure[totals, uint64]{
		{ended, "", "", func(t *totals) uint64 { return t.Conns }},
		{metric(Counter, "volley.messages.sent", "{message}", "Messages that were sent.", perGroup), "MessagesSent", "", func(t *totals) uint64 { return t.MessagesSent }},
		{messagesReceived, "", "", func(t *totals) uint64 { return t.MessagesReceived }},
		{metric(Counter, "volley.messages.delivered", "{message}", "Sent messages that were acknowledged.", perGroup), "MessagesDelivered", "", func(t *totals) uint64 { return t.MessagesDelivered }},
		{metric(Counter, "volley.messages.lost", "{message}", "Sent messages that got lost.", perGroup), "MessagesDelivered", "", func(t *totals) uint64 { return t.MessagesLost }},
		{metric(Counter, "volley.messages.resent", "{message}", "Messages or frames that were sent again.", perGroup), "MessagesResent", "", func(t *totals) uint64 { return t.MessagesResent }},
		{bytesSent, "BytesSent", "", func(t *totals) uint64 { return t.BytesSent }},
		{metric(Counter, "volley.messages.received.size", "By", "Bytes of messages that were received.", perGroup), "BytesSent", "", func(t *totals) uint64 { return t.BytesReceived }},
		{metric(Counter, "volley.packets.sent", "{packet}", "Packets of the protocol that were sent.", perGroup), "PacketsSent", "", func(t *totals) uint64 { return t.PacketsSent }},
		{metric(Counter, "volley.packets.received", "{packet}", "Packets of the protocol that were received.", perGroup), "PacketsSent", "", func(t *totals) uint64 { return t.PacketsReceived }},
		{metric(Counter, "volley.packets.invalid", "{packet}", "Received packets that were malformed, forged or replayed.", perGroup), "PacketsInvalid", "", func(t *totals) uint64 { return t.PacketsInvalid }},
		{missed, "MissedNetwork", "network", func(t *totals) uint64 { return t.MissedNetwork }},
		{missed, "MissedSocket", "socket", func(t *totals) uint64 { return t.MissedSocket }},
		{missed, "MissedInbox", "inbox", func(t *totals) uint64 { return t.MissedInbox }},
	}
)

// How connections stand. A percentile of 100 is the largest.
var (
	groupRTT = metric(Gauge, "volley.rtt", "s", "Smoothed round-trip time, as percentiles over the connections.", with(perGroup, "percentile"))

	connSpreads = []figure[conn, float64]{
		{groupRTT, "RTT", "", func(c *conn) float64 { return c.RTT.Seconds() }},
		{metric(Gauge, "volley.jitter", "s", "Mean deviation of the round-trip time, as percentiles over the connections.", with(perGroup, "percentile")), "Jitter", "", func(c *conn) float64 { return c.Jitter.Seconds() }},
		{metric(Gauge, "volley.loss", "1", "Share of what was sent of late that got lost, 0 to 1, as percentiles over the connections.", with(perGroup, "percentile")), "Loss", "", func(c *conn) float64 { return c.Loss }},
	}

	groupRates = metric(Gauge, "volley.bandwidth", "By/s", "Bytes a second with IP and UDP headers, sent, received and acknowledged, of all connections.", with(perGroup, "direction"))

	// connSums are added up over the connections, those in flight over those with one unit.
	connSums = []figure[conn, float64]{
		{groupRates, "SendRate", "sent", func(c *conn) float64 { return c.SendRate }},
		{groupRates, "SendRate", "received", func(c *conn) float64 { return c.ReceiveRate }},
		{groupRates, "SendRate", "acknowledged", func(c *conn) float64 { return c.AckedRate }},
		{metric(Gauge, "volley.read.queue", "By", "Received messages that the application has not read.", perGroup), "ReadQueue", "", func(c *conn) float64 { return float64(c.ReadQueue) }},
		{metric(Gauge, "volley.send.queue", "By", "Sent messages that are not acknowledged.", perGroup), "SendQueue", "", func(c *conn) float64 { return float64(c.SendQueue) }},
		{inFlightBytes, "InFlight", "", func(c *conn) float64 { return float64(c.InFlight) }},
		{inFlightMessages, "InFlight", "", func(c *conn) float64 { return float64(c.InFlight) }},
		{metric(Gauge, "volley.connections.memory", "By", "Memory that connections hold beside what waits to be read.", perGroup), "Memory", "", func(c *conn) float64 { return float64(c.Memory) }},
	}
	inFlightBytes    = metric(Gauge, "volley.in.flight", "By", "Messages that were sent and have no fate yet, where the protocol counts them in bytes.", perGroup)
	inFlightMessages = metric(Gauge, "volley.in.flight.messages", "{message}", "Messages that were sent and have no fate yet, where the protocol counts it so.", perGroup)
)

// Figures of nodes of fleets.
var (
	nodeSessions = metric(Gauge, "volley.node.sessions", "{session}", "Sessions that a node of a fleet has at present.", perNode)
	nodeSpared   = metric(Gauge, "volley.node.sessions.spared", "{session}", "Sessions whose client has a token for another node.", perNode)
	nodeLoad     = metric(Gauge, "volley.node.load", "{session}", "Load by which other nodes send clients to a node, in sessions.", perNode)
	nodePeers    = metric(Gauge, "volley.node.peers", "{node}", "Other nodes that a node knows, by whether it hears them.", with(perNode, "state"))
	nodeMoves    = metric(Counter, "volley.node.moves", "{session}", "Sessions that have come from other nodes, have gone or were silent, or have ended because they were at another node.", with(perNode, "way"))
	nodeTokens   = metric(Counter, "volley.node.tokens", "{token}", "Tokens for other nodes that were given to clients, and those for here that other nodes were given or refused.", with(perNode, "fate"))
	nodeMissed   = metric(Counter, "volley.node.messages.missed", "{event}", "Times that messages of another node were missed.", perNode)
	nodeBad      = metric(Counter, "volley.node.messages.bad", "{message}", "Messages that were malformed or not from nodes.", perNode)
)

// What looking costs.
var lookTime = metric(Gauge, "volley.snapshot.duration", "s", "How long it took to look at all listeners and connections.", nil)
