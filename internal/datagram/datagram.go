// Package datagram is the transport seam of volley: every protocol stands as a
// Handler on top of a Conn, one peer's share of a transport, and a Mux shares
// one Socket among many peers. Layers of volley stack by function calls through
// these types, so that a batch stays a batch from the socket to the application.
package datagram

import (
	"io"
	"net"
	"net/netip"
	"time"

	"volley/internal/deadline"
	"volley/internal/registry"
	"volley/internal/socket"
	"volley/internal/wire"
)

// A Conn is an unreliable, message-preserving connection to one peer.
type Conn interface {
	// Attach gives the layer above. It is called once; datagrams that came
	// earlier (a bounded number is kept) are handed over first.
	Attach(Handler) error
	// MaxDatagram returns the largest datagram in bytes that the transport carries whole.
	MaxDatagram() int
	// WaitWritable waits until a message of n bytes may be framed, and
	// returns early with an error when cancel is closed or the Conn is. UDP
	// never waits; a lossless pipe waits here for room at the other side.
	WaitWritable(n int, cancel <-chan struct{}) error
	// WriteBatch sends the datagrams of a batch. It may overwrite their
	// bytes; the batch is the caller's again on return. An error is the
	// first one met; the remaining datagrams have been tried all the same.
	WriteBatch(*wire.Batch) error
	// WriteBatchBy is WriteBatch, but waits for room in a send buffer below no
	// longer than until the deadline, as far as that is possible. It then
	// returns os.ErrDeadlineExceeded and how many datagrams it is done with;
	// the others have not been tried. Otherwise n is b.Len().
	WriteBatchBy(b *wire.Batch, d *deadline.Deadline) (n int, err error)
	// Schedule asks for a call of HandleTick no later than at. The earliest
	// time asked for wins. It may be called from any goroutine, also from
	// the Handler's own methods.
	Schedule(at time.Time)
	LocalAddr() net.Addr
	RemoteAddr() net.Addr
	// Stats tells what happened below.
	Stats() Stats
	// Features says what else the Conn can do. It is always the same.
	Features() Features
	// Close ends the connection. Calls of the Handler that are under way may
	// still finish afterwards; HandleClose is not called.
	Close() error
}

// Features are what not every Conn can do or does; nil and false is what this
// one does not. A layer that makes a Conn on top of another one passes all of
// them on, but for those that it changes.
type Features struct {
	// Lossless: what is written arrives, in order.
	Lossless bool
	// Waits: there is no room at times, and writers call WaitWritable before
	// each message, or else datagrams may be lost.
	Waits bool
	// Inline has the socket below read by the callers of the application's Read.
	Inline InlineReader
	// Refusals counts how often the other side's machine has refused.
	Refusals RefusalCounter
	// Errors tells of the passing errors of a socket with one peer.
	Errors ErrorTeller
	// Linger says that there is nothing more to be read.
	Linger Lingerer
	// Gather has datagrams leave in one pass with those of other peers.
	Gather Gatherer
	// System is the socket of the system below.
	System socket.System
	// Unread tells whether something waits to be handled.
	Unread UnreadTeller
	// Tombstone sets what becomes of the address after Close.
	Tombstone TombstoneSetter
	// After calls back when the packets at hand have been handled.
	After AfterReader
	// Postpone puts ticks off that are no longer needed.
	Postpone Postponer
	// Glance tells what Stats does, at less cost, to whoever admits the Conn.
	Glance Glancer
	// Viewer is the connection below as package volleydebug shows it, with what
	// stands on it: for a protocol that counts what has ended.
	Viewer registry.Viewer
}

// An InlineReader is a Conn whose socket may be read by the callers of the
// application's Read.
type InlineReader interface {
	// ReadInline reads the socket once for a Read that is about to block,
	// until the deadline. It returns false if the caller has to wait until it
	// is woken: somebody else reads.
	ReadInline(d *deadline.Deadline, r Readers) bool
	// InterruptInline makes one of r who reads look at the deadline again.
	InterruptInline(r Readers)
}

// Readers are callers of Read that are blocked until there are messages. Those
// of one Conn may be of several kinds, such as one for each channel of a
// protocol: while callers of two kinds wait, a goroutine reads.
type Readers = interface {
	Kick()        // makes one of them call ReadInline again
	Callers() int // how many there are, with the caller of ReadInline
}

// A RefusalCounter is a Conn that learns when nobody listens at the other side.
type RefusalCounter interface {
	// Refused returns how often the other side's machine has said that nobody
	// listens on the port, as far as the system tells. Anybody may have sent
	// that: it is a hint.
	Refused() uint64
}

// An ErrorTeller is a Conn that knows the passing errors of its socket.
type ErrorTeller interface {
	// LastError returns the last one since the other side was heard, nil if
	// there was none: a reason for its silence, perhaps.
	LastError() error
	// OnRefusal sets, before Attach, what is called when the other side's
	// machine says that nobody listens, once until the other side is heard.
	OnRefusal(func())
}

// A Lingerer is a Conn that a protocol may keep for a while after the application
// has closed its connection, to say farewell again until that is heard.
type Lingerer interface {
	// Linger ends the goroutine that reads, if there is one, for good: so the
	// Conn holds no test bubble up. Ticks go on. Datagrams are still handled
	// where the system tells of them, and where others are read anyway. Close
	// is called as ever.
	Linger()
}

// An UnreadTeller is a Conn that knows whether datagrams wait.
type UnreadTeller interface {
	// Unread reports whether the socket may hold datagrams that no Handler has
	// been given yet. Then silence may mean that the reader has no processor.
	Unread() bool
}

// An AfterReader can do something once it has handled all packets that it found,
// so that their answers leave together. Conns that share a reader have the same
// one.
type AfterReader interface {
	// AfterRead has r run once, on the goroutine that reads, before that waits
	// for packets again. It is called within HandleBatch only.
	AfterRead(r Runner)
}

// A Postponer is a Conn whose next tick can be put off.
type Postponer interface {
	// Postpone moves the tick to a later time than Schedule asked for. It is for a Handler
	// that is the only one to call Schedule.
	Postpone(at time.Time)
}

// A Runner is run by a reader.
type Runner interface{ Run() }

// A Glancer is a Conn whose Stats ask the system.
type Glancer interface {
	// Glance returns Stats without asking the system, for the Admit of the Conn: of the
	// socket there are only the Drops, as of its first datagram.
	Glance() Stats
}

// A TombstoneSetter is a Conn whose address stays closed for a while after Close.
type TombstoneSetter interface {
	// SetTombstone changes, before Close, how long that is, in whole milliseconds.
	SetTombstone(time.Duration)
}

// A Handler is the layer above a Conn. Its methods may be called from several
// goroutines at once: the reader, the timer, and over a pipe the writers of the
// other side.
type Handler interface {
	// HandleBatch takes received datagrams, which are valid and writable
	// until it returns, and appends what is to be sent to out.
	HandleBatch(now time.Time, bufs [][]byte, out *wire.Batch)
	// HandleTick is called when a scheduled time has come. It returns the
	// next time at which to be called, or the zero time for: not before the
	// next call of Schedule.
	HandleTick(now time.Time, out *wire.Batch) (next time.Time)
	// HandleClose says that the Conn has ended other than by its Close
	// method. The error is io.EOF after an orderly end by the peer.
	HandleClose(error)
	// WaitRoom waits until a message of n bytes would be accepted. It returns
	// os.ErrDeadlineExceeded if cancel is closed first, and net.ErrClosed if
	// there is nobody to read any more. A lossless Conn asks the other side's
	// Handler before a message is framed. A Handler without a limit returns nil.
	WaitRoom(n int, cancel <-chan struct{}) error
}

// An Acceptor decides which addresses become Conns of a Mux. Its method is
// called on the reader's goroutine of the Mux's socket.
type Acceptor interface {
	// HandleUnknown sees the datagrams of an address without a Conn. Late says
	// that there was one until not long ago, see MuxConfig.Tombstone. It may
	// append answers to out without creating any state. If it returns nil,
	// there will be no Conn; or else admit is called next, also if the Mux has
	// been closed in between, and knows what HandleUnknown has found. It is not
	// called if the address has been dialed at that moment: then the Conn of
	// Mux.Dial gets the datagrams. Now is the time of the system's clock.
	HandleUnknown(now time.Time, from netip.AddrPort, late bool, bufs [][]byte, out *wire.Batch) (admit Admit)
}

// An Admit is given a new Conn. It must attach a Handler to it before it
// returns, or close it. The datagrams for which the Conn was made then go to
// that Handler.
type Admit func(now time.Time, c Conn)

// Stats counts what happened below a Conn or a Mux.
type Stats struct {
	// ReadErrors and WriteErrors count errors of the socket that did not end
	// it, such as an ICMP message that nobody listens at the other side.
	ReadErrors, WriteErrors uint64
	// Unknown counts datagrams of addresses without a Conn that were dropped.
	Unknown uint64
	// Shed counts those of them that nobody has looked at, since more came than
	// there was time for.
	Shed uint64
	// Socket is what the socket itself tells.
	Socket socket.Stats
}

// ErrPeerClosed is what a write meets after the peer has closed. It is
// io.ErrClosedPipe, as with net.Pipe.
var ErrPeerClosed error = peerClosedError{}

type peerClosedError struct{}

func (peerClosedError) Error() string { return "closed by the peer" }

func (peerClosedError) Is(target error) bool {
	return target == io.ErrClosedPipe
}
