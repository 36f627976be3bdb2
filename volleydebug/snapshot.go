package volleydebug

import (
	"net"
	"time"

	"volley/internal/registry"
)

// A Figure is one of those that not every protocol can tell, or not yet. Figures
// are bits, for Known of a [Conn] or [Listener].
type Figure uint64

// The figures, and the fields that each is about.
const (
	RTT           Figure = registry.RTT           // RTT, RTTMin; not known before the first sample
	Jitter        Figure = registry.Jitter        // Jitter
	Loss          Figure = registry.Loss          // Loss; not known before a fate is
	Rates         Figure = registry.Rates         // SendRate, ReceiveRate, AckedRate
	Messages      Figure = registry.Messages      // MessagesSent; MessagesReceived is always known
	Fates         Figure = registry.Fates         // MessagesDelivered, MessagesLost
	Resent        Figure = registry.Resent        // MessagesResent
	Bytes         Figure = registry.Bytes         // BytesSent, BytesReceived
	Packets       Figure = registry.Packets       // PacketsSent, PacketsReceived
	Invalid       Figure = registry.Invalid       // PacketsInvalid, and Invalid of a Listener
	MissedNetwork Figure = registry.MissedNetwork // MissedNetwork
	MissedSocket  Figure = registry.MissedSocket  // MissedSocket
	MissedInbox   Figure = registry.MissedInbox   // MissedInbox
	Window        Figure = registry.Window        // Window
	InFlight      Figure = registry.InFlight      // InFlight
	SendQueue     Figure = registry.SendQueue     // SendQueue
	ReadQueue     Figure = registry.ReadQueue     // ReadQueue
	Memory        Figure = registry.Memory        // Memory
	Socket        Figure = registry.Socket        // what happened at the sockets of a Listener
)

// A Conn is how a connection of any protocol stands, in figures that mean the
// same for all. A figure that a protocol does not tell, or not yet, is zero, and
// its bit in Known is not set: so figures can be added up without a look at it.
// Counters count from the beginning of the connection. Fields may be added.
//
// A connection of several layers, such as a volley.Conn over a session of package
// netcode, is one Conn: that of the uppermost layer, with what only those below
// know. Where a connection of the application's own lies in between, each layer
// is a Conn of its own.
type Conn struct {
	// ID tells the connection from all others of the process, also from those
	// that have ended. It has at most 53 bits. Listener is the ID of its Listener,
	// 0 if it has none.
	ID, Listener uint64
	// Protocol is "volley", "netcode", "porous" or "riptide", that of the
	// uppermost layer, and Over that of the layer below, "" for a socket. Role says
	// how the connection came to be: "accepted" or dialed by a Listener, "dialed",
	// "wrapped" for what NewConn has put on a connection of the application's, or
	// "pipe". Label is what the protocol calls the peer, such as "client 7".
	Protocol, Over, Role, Label string
	// Local and Remote are the addresses. They may be nil.
	Local, Remote net.Addr
	// Born is when the connection was made.
	Born time.Time
	// Known are the figures that are told, see Knows.
	Known uint64

	// RTT is the smoothed round-trip time, RTTMin the least of late, and Jitter
	// the mean deviation: above RTTMin in package volley, from RTT in porous.
	RTT, RTTMin, Jitter time.Duration
	// Loss is the share of what was sent that got lost, 0 to 1: in package volley
	// of the last messages, in porous of all frames, in riptide of the last notify
	// messages.
	Loss float64
	// SendRate, ReceiveRate and AckedRate are smoothed, in bits per second, with
	// IP and UDP headers.
	SendRate, ReceiveRate, AckedRate float64
	// MessagesSent and MessagesReceived count messages of the application.
	MessagesSent, MessagesReceived uint64
	// MessagesDelivered and MessagesLost count the fates of those sent.
	MessagesDelivered, MessagesLost uint64
	// MessagesResent counts what was sent again: reliable messages in riptide,
	// frames in porous.
	MessagesResent uint64
	// BytesSent and BytesReceived count bytes of messages: in netcode without, in
	// riptide with its headers, and of a protocol over netcode with its own.
	BytesSent, BytesReceived uint64
	// PacketsSent and PacketsReceived count the packets of the protocol, in volley
	// those of several fragments as one.
	PacketsSent, PacketsReceived uint64
	// PacketsInvalid counts received ones that were of no use: malformed, forged,
	// or replayed.
	PacketsInvalid uint64
	// MissedNetwork, MissedSocket and MissedInbox count what the peer has sent and
	// the application does not get, by where it got lost: in the network, in the
	// receive buffer of the own socket, and in the own inbox, which was full. See
	// volley.MissedMessages.
	MissedNetwork, MissedSocket, MissedInbox uint64
	// InFlight is what has been sent and has no fate yet, and Window how much of
	// that there may be, both in Unit, "messages" or "bytes". In package volley
	// the window is the largest that there can be.
	Window, InFlight int
	Unit             string
	// SendQueue and ReadQueue are the bytes that wait to be acknowledged, and for
	// Read. ReadBuffer is the limit of the latter, 0 if it is not told.
	SendQueue, ReadQueue, ReadBuffer int
	// Memory is how many bytes the connection holds beside them.
	Memory int
	// Explain says in words what limits or hurts the connection, one sentence or
	// two a line, and OK that it is nothing serious. Only [Explain] fills them in,
	// and the page.
	Explain string
	OK      bool
}

// Knows reports whether all figures of f are told.
func (c *Conn) Knows(f Figure) bool { return Figure(c.Known)&f == f }

// Network returns the network of the addresses, such as "udp", or "".
func (c *Conn) Network() string {
	if c.Remote == nil {
		return ""
	}
	return c.Remote.Network()
}

// A Listener is how a listener stands: a Listener of package volley, netcode or
// porous, a volley.PacketConn, or a riptide.Server. What it cannot tell is zero
// and not in Known, as with a Conn. Counters count from its beginning. Fields may
// be added.
type Listener struct {
	// ID tells the listener from all others of the process. It has at most 53
	// bits.
	ID uint64
	// Protocol is that of the package, and Kind "listener", "packet" for a
	// PacketConn, or "server".
	Protocol, Kind string
	// Addr is the address listened on, of the first socket if there are several.
	// It may be nil.
	Addr net.Addr
	// Born is when it was made.
	Born time.Time
	// Known are the figures that are told, see Knows.
	Known uint64

	// Conns is the number of connections at present, with those that wait for
	// Accept.
	Conns int
	// Memory is what they hold of MaxMemory, in bytes. A MaxMemory of 0 is no
	// limit.
	Memory, MaxMemory int64
	// Accepted counts connections, Refused peers that were turned away for want of
	// room, Filtered those by the Filter, Unknown datagrams of strangers that came
	// to nothing.
	Accepted, Refused, Filtered, Unknown uint64
	// Invalid counts datagrams that were of no use, in netcode of strangers and in
	// sessions.
	Invalid uint64
	// ReadErrors, WriteErrors and SocketDrops count, for all sockets, passing
	// errors, and datagrams that found the receive buffer full.
	ReadErrors, WriteErrors, SocketDrops uint64
	// ReadCalls and SendCalls count the system calls that moved datagrams.
	ReadCalls, SendCalls uint64
	// SocketReadBuffer and SocketWriteBuffer are the sizes in bytes that the
	// system has granted, for each socket. 0 where it does not tell.
	SocketReadBuffer, SocketWriteBuffer int
	// Ended are the totals of its connections that have ended.
	Ended Totals
}

// Knows reports whether all figures of f are told.
func (l *Listener) Knows(f Figure) bool { return Figure(l.Known)&f == f }

// Totals are the counters of connections that have ended, added up: so a service
// can count on when connections come and go. The fields are those of [Conn], and
// figures that a protocol does not tell are zero.
//
// A connection that is just ending is for a moment neither among those that live nor
// in the totals, but never in both. One that was dropped without a Close, as a Pipe
// can be, is never in them.
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

// A Group is what has been of the connections that belong to no Listener, with a
// protocol, which is the one on the socket, and a role, as in [Conn].
type Group struct {
	Protocol, Role string
	Totals
}

// A State is how the listeners and connections of the process stand at a time.
type State struct {
	Time      time.Time
	Listeners []Listener
	Conns     []Conn  // in no order
	Ended     []Group // of connections without a Listener
}

// Snapshot returns the present state of all listeners and connections of the
// process that have not ended, without Explain. It asks each for its Stats, which
// takes about a microsecond and no lock for longer than that; nothing is done
// when nobody calls it.
func Snapshot() State {
	s, _ := snapshot(-1)
	return s
}

// Explain returns one connection with its Explain, by its ID, and false if there
// is none that lives. In package volley what only counts up is counted since an
// earlier call of it, as with volley.Conn.Explain, whose period is another one.
func Explain(id uint64) (Conn, bool) {
	c, ok := registry.LookAt(id)
	return Conn(c), ok
}

// snapshot explains the connections, too, if there are at most so many, and reports
// that.
func snapshot(atMost int) (s State, explained bool) {
	groups := registry.Groups() // first: who ends meanwhile must not be counted twice
	ls, cs, explained := registry.Look(atMost)
	s = State{Time: time.Now(), Listeners: make([]Listener, len(ls)), Conns: make([]Conn, len(cs))}
	for i := range ls {
		s.Listeners[i] = publicListener(&ls[i])
	}
	for i := range cs {
		s.Conns[i] = Conn(cs[i])
	}
	for _, g := range groups {
		s.Ended = append(s.Ended, Group{g.Protocol, g.Role, Totals(g.Totals)})
	}
	return s, explained
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
