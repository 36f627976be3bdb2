package volleydebug

import (
	"net"
	"time"

	"volley/internal/registry"
)

// A Conn is the state of a connection of any protocol, in figures that mean the
// same for all. A figure that a protocol does not tell, or not yet, is zero:
// [Conn.Knows] tells the difference. Counters begin with the connection. Fields
// may be added.
//
// A connection of several layers, such as a volley.Conn over a session of package
// netcode, is one Conn: the uppermost layer, with figures that only lower layers
// know. If a connection of the application lies in between, each layer is a Conn.
type Conn struct {
	// ID is unique in the process, and has at most 53 bits. Listener is the ID of
	// the connection's Listener, 0 if it has none.
	ID, Listener uint64
	// Protocol is "volley", "netcode", "porous" or "riptide". Over is the protocol
	// below it, "" for a socket. Role says how the connection began: "accepted",
	// "dialed", "wrapped" by NewConn, or "pipe". Label is the protocol's name for
	// the peer, such as "client 7".
	Protocol, Over, Role, Label string
	Local, Remote               net.Addr  // may be nil
	Born                        time.Time // when the connection was made
	Known                       uint64    // what Knows reports, as bits

	// RTT is the smoothed round-trip time, RTTMin the least of the last samples.
	// Jitter is the mean deviation: from RTTMin in package volley, from RTT in
	// porous.
	RTT, RTTMin, Jitter time.Duration
	// Loss is the lost fraction of what was sent, 0 to 1: in package volley of the
	// last messages, in porous of all frames, in riptide of the last notify
	// messages.
	Loss float64
	// SendRate, ReceiveRate and AckedRate are smoothed, in bytes a second, with IP
	// and UDP headers.
	SendRate, ReceiveRate, AckedRate float64
	// MessagesSent and MessagesReceived count messages of the application.
	MessagesSent, MessagesReceived uint64
	// MessagesDelivered and MessagesLost count the fates of sent messages.
	MessagesDelivered, MessagesLost uint64
	// MessagesResent counts reliable messages of riptide, and frames of porous,
	// that were sent again.
	MessagesResent uint64
	// BytesSent and BytesReceived count bytes of messages: in riptide with its
	// headers, in netcode without, but with those of a protocol over it.
	BytesSent, BytesReceived uint64
	// PacketsSent and PacketsReceived count packets of the protocol. In volley all
	// fragments of a message are one.
	PacketsSent, PacketsReceived uint64
	// PacketsInvalid counts received packets that were malformed, forged or replayed.
	PacketsInvalid uint64
	// MissedNetwork, MissedSocket and MissedInbox count messages of the peer that
	// got lost in the network, in the full receive buffer of our socket, and in
	// our full inbox. See volley.MissedMessages.
	MissedNetwork, MissedSocket, MissedInbox uint64
	// InFlight is what was sent and has no fate yet, and Window its limit, both in
	// Unit, "messages" or "bytes". In package volley the window is the largest
	// possible.
	Window, InFlight int
	Unit             string
	// SendQueue and ReadQueue are the bytes that wait for an acknowledgement, and
	// for Read. ReadBuffer is the limit of ReadQueue, 0 if it is not known.
	SendQueue, ReadQueue, ReadBuffer int
	// Memory is how many bytes the connection holds in addition.
	Memory int
	// Explain says in words what limits or hurts the connection, one finding a
	// line. OK says that this is nothing serious. Only [Explain] and the page fill
	// them in.
	Explain string
	OK      bool
}

// fields are the figures that not all protocols tell, by the name of their field.
var fields = map[string]uint64{
	"RTT": registry.RTT, "RTTMin": registry.RTT, "Jitter": registry.Jitter, "Loss": registry.Loss,
	"SendRate": registry.Rates, "ReceiveRate": registry.Rates, "AckedRate": registry.Rates,
	"MessagesSent": registry.Messages, "MessagesReceived": 0, "MessagesDelivered": registry.Fates, "MessagesLost": registry.Fates,
	"MessagesResent": registry.Resent, "BytesSent": registry.Bytes, "BytesReceived": registry.Bytes,
	"PacketsSent": registry.Packets, "PacketsReceived": registry.Packets, "PacketsInvalid": registry.Invalid,
	"MissedNetwork": registry.MissedNetwork, "MissedSocket": registry.MissedSocket, "MissedInbox": registry.MissedInbox,
	"Window": registry.Window, "InFlight": registry.InFlight, "SendQueue": registry.SendQueue,
	"ReadQueue": registry.ReadQueue, "ReadBuffer": registry.ReadQueue, "Memory": registry.Memory,
	// of listeners
	"Accepted": 0, "Refused": 0, "Filtered": 0, "Invalid": registry.Invalid, "Unknown": registry.Socket,
	"ReadErrors": registry.Socket, "WriteErrors": registry.Socket, "SocketDrops": registry.Socket,
	"ReadCalls": registry.Socket, "SendCalls": registry.Socket,
}

func knows(known uint64, names []string) bool {
	for _, name := range names {
		if bit, ok := fields[name]; !ok || known&bit != bit {
			return false
		}
	}
	return true
}

// Knows reports whether the protocol tells figures, by the names of their fields,
// such as "RTT".
func (c *Conn) Knows(fields ...string) bool { return knows(c.Known, fields) }

// Network returns the network of the addresses, such as "udp", or "".
func (c *Conn) Network() string {
	if c.Remote == nil {
		return ""
	}
	return c.Remote.Network()
}

// A Listener is the state of a Listener of package volley, netcode or porous, of
// a volley.PacketConn, or of a riptide.Server. Figures that it does not tell are
// zero, see [Listener.Knows]. Counters begin with the listener. Fields may be
// added.
type Listener struct {
	// ID is unique in the process, and has at most 53 bits.
	ID uint64
	// Protocol is the name of the package. Kind is "listener", "packet" for a
	// PacketConn, or "server".
	Protocol, Kind string
	Addr           net.Addr  // of the first socket; may be nil
	Born           time.Time // when the listener was made
	Known          uint64    // what Knows reports, as bits

	// Conns is the number of present connections, including those that wait for Accept.
	Conns int
	// Memory is what they hold, in bytes, and MaxMemory its limit, 0 for none.
	Memory, MaxMemory int64
	// Accepted counts connections, Refused peers for which there was no room,
	// Filtered those that the Filter refused, and Unknown datagrams from unknown
	// addresses that were dropped.
	Accepted, Refused, Filtered, Unknown uint64
	// Invalid counts malformed, forged and replayed datagrams; in netcode also
	// those of sessions.
	Invalid uint64
	// ReadErrors and WriteErrors count passing errors of all sockets, and
	// SocketDrops datagrams that found the receive buffer full.
	ReadErrors, WriteErrors, SocketDrops uint64
	// ReadCalls and SendCalls count the system calls that moved datagrams.
	ReadCalls, SendCalls uint64
	// SocketReadBuffer and SocketWriteBuffer are the sizes in bytes that the
	// system has granted to each socket, 0 if not known.
	SocketReadBuffer, SocketWriteBuffer int
	// Ended are the totals of its connections that have ended.
	Ended Totals
}

// Knows reports whether the listener tells figures, by the names of their fields,
// such as "SocketDrops".
func (l *Listener) Knows(fields ...string) bool { return knows(l.Known, fields) }

// Totals are the sums of the counters of connections that have ended, so that a
// service can count on when connections come and go. The fields are those of
// [Conn].
//
// A connection that is just ending may for a moment be neither alive nor in the
// totals, but it is never in both. A Pipe that was dropped without a Close is never
// in them.
type Totals struct {
	// Conns is the number of connections that have ended.
	Conns uint64

	MessagesSent, MessagesReceived           uint64
	MessagesDelivered, MessagesLost          uint64
	MessagesResent                           uint64
	BytesSent, BytesReceived                 uint64
	PacketsSent, PacketsReceived             uint64
	PacketsInvalid                           uint64
	MissedNetwork, MissedSocket, MissedInbox uint64
}

// A Group has the totals of ended connections without a Listener, by Role and
// by Protocol, which is the one on the socket.
type Group struct {
	Protocol, Role string
	Totals
}

// An End tells of a connection that has ended.
type End struct {
	// ID, Listener, Protocol, Over, Role and Label are as in [Conn].
	ID, Listener                uint64
	Protocol, Over, Role, Label string
	Remote                      string    // address of the peer, "" if it had none
	Born, Time                  time.Time // of the beginning and the end
	// Reason says in words why, such as "closed", "closed by the peer", or "closed by the
	// peer: kicked". It may hold text of the peer, of which nothing is left that cannot be
	// printed.
	Reason string
}

// A Node is a member of a fleet (package fleet) in the process. Counters begin with the node.
// Fields may be added.
type Node struct {
	Name string
	// Sessions are those of now, and Spared those of which the client has a token for another
	// node. Load is what other nodes go by, +Inf if they send no clients. Drains says that the
	// node sends its own away.
	Sessions, Spared int
	Load             float64
	Drains           bool
	// Came counts sessions that have come from other nodes, Left those that have gone or were
	// silent, and Yielded those that ended here because they were at another node.
	Came, Left, Yielded uint64
	// Given counts tokens for other nodes that clients here were given, Sealed those for here
	// that other nodes were given, and Refused those that they were not given.
	Given, Sealed, Refused uint64
	// Bad counts messages that were malformed or not from nodes, and Missed the times that
	// messages of a node were missed.
	Bad, Missed uint64
	Peers       []Peer // the other nodes, in order of their names
}

// A Peer is another node as a [Node] sees it.
type Peer struct {
	Name     string
	Sessions int
	Load     float64
	Drains   bool
	Alive    bool          // it was heard within a second
	Heard    time.Duration // since it was heard last
}

// A State is the state of the listeners and connections of the process at a time.
type State struct {
	Time      time.Time
	Nodes     []Node // of fleets
	Listeners []Listener
	Conns     []Conn  // in no order
	Ended     []Group // of connections without a Listener
	Ends      []End   // of the last 32 connections that have ended, the newest first
}

// Snapshot returns the present state of all listeners and connections of the
// process that have not ended, without Explain. It asks each for its Stats, which
// takes about a microsecond.
func Snapshot() State {
	s, _ := snapshot(-1)
	return s
}

// Explain returns the connection with an ID, with its Explain, and false if there
// is none. The findings are about the time since the last call, as those of
// volley.Conn.Explain, which has its own period.
func Explain(id uint64) (Conn, bool) {
	c, ok := registry.LookAt(id)
	return Conn(c), ok
}

// snapshot also explains up to atMost connections, and reports whether it did.
func snapshot(atMost int) (s State, explained bool) {
	groups := registry.Groups() // first: a connection that ends meanwhile must not count twice
	ls, cs, explained := registry.Look(atMost)
	s = State{Time: time.Now(), Listeners: make([]Listener, len(ls)), Conns: make([]Conn, len(cs))}
	for _, n := range registry.Nodes() {
		s.Nodes = append(s.Nodes, publicNode(&n))
	}
	for i := range ls {
		s.Listeners[i] = publicListener(&ls[i])
	}
	for i := range cs {
		s.Conns[i] = Conn(cs[i])
	}
	for _, g := range groups {
		s.Ended = append(s.Ended, Group{g.Protocol, g.Role, Totals(g.Totals)})
	}
	for _, e := range registry.Ends() {
		s.Ends = append(s.Ends, End(e))
	}
	return s, explained
}

// publicNode converts what has structs inside.
func publicNode(n *registry.Node) Node {
	p := Node{
		Name: n.Name, Sessions: n.Sessions, Spared: n.Spared, Load: n.Load, Drains: n.Drains,
		Came: n.Came, Left: n.Left, Yielded: n.Yielded, Given: n.Given, Sealed: n.Sealed, Refused: n.Refused,
		Bad: n.Bad, Missed: n.Missed, Peers: make([]Peer, len(n.Peers)),
	}
	for i, other := range n.Peers {
		p.Peers[i] = Peer(other)
	}
	return p
}

// publicListener converts what has a struct inside.
func publicListener(l *registry.Listener) Listener {
	return Listener{
		ID: l.ID, Protocol: l.Protocol, Kind: l.Kind, Addr: l.Addr, Born: l.Born, Known: l.Known,
		Conns: l.Conns, Memory: l.Memory, MaxMemory: l.MaxMemory,
		Accepted: l.Accepted, Refused: l.Refused, Filtered: l.Filtered, Unknown: l.Unknown, Invalid: l.Invalid,
		ReadErrors: l.ReadErrors, WriteErrors: l.WriteErrors, SocketDrops: l.SocketDrops,
		ReadCalls: l.ReadCalls, SendCalls: l.SendCalls,
		SocketReadBuffer: l.SocketReadBuffer, SocketWriteBuffer: l.SocketWriteBuffer,
		Ended: Totals(l.Ended),
	}
}
