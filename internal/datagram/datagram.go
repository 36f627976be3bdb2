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
	"volley/internal/socket"
	"volley/internal/wire"
)

// A Conn is an unreliable, message-preserving connection to one peer.
type Conn interface {
	// Attach gives the layer above. It is called once; datagrams that came
	// earlier (a bounded number is kept) are handed over first.
	Attach(Handler) error
	// MaxDatagram returns the largest datagram in bytes that the transport
	// carries whole.
	MaxDatagram() int
	// WaitWritable waits until a message of n bytes may be framed, and
	// returns early with an error when cancel is closed or the Conn is. UDP
	// never waits; a lossless pipe waits here for room at the other side.
	WaitWritable(n int, cancel <-chan struct{}) error
	// WriteBatch sends the datagrams of a batch. It may overwrite their
	// bytes; the batch is the caller's again on return. An error is the
	// first one met; the remaining datagrams have been tried all the same.
	WriteBatch(*wire.Batch) error
	// Schedule asks for a call of HandleTick no later than at. The earliest
	// time asked for wins. It may be called from any goroutine, also from
	// the Handler's own methods.
	Schedule(at time.Time)
	LocalAddr() net.Addr
	RemoteAddr() net.Addr
	// Close ends the connection. Calls of the Handler that are under way may
	// still finish afterwards; HandleClose is not called.
	Close() error
}

// A DeadlineConn is a Conn whose writers need not wait for ever when a send buffer
// below is full.
type DeadlineConn interface {
	Conn
	// WriteBatchBy is WriteBatch, but waits for room no longer than until the
	// deadline. It then returns os.ErrDeadlineExceeded and how many datagrams
	// it is done with; the others have not been tried. Otherwise n is b.Len().
	WriteBatchBy(b *wire.Batch, d *deadline.Deadline) (n int, err error)
}

// WriteBatchBy is c's WriteBatchBy, if it has one, or else its WriteBatch.
func WriteBatchBy(c Conn, b *wire.Batch, d *deadline.Deadline) (n int, err error) {
	if c, ok := c.(DeadlineConn); ok {
		return c.WriteBatchBy(b, d)
	}
	return b.Len(), c.WriteBatch(b)
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
}

// A RoomWaiter is a Handler that accepts messages up to a limit. WaitRoom waits
// until a message of n bytes would be accepted; it returns
// os.ErrDeadlineExceeded if cancel is closed first, and net.ErrClosed if there
// is nobody to read any more. A lossless Conn asks the other side's Handler
// before a message is framed.
type RoomWaiter interface {
	WaitRoom(n int, cancel <-chan struct{}) error
}

// An Acceptor decides which addresses become Conns of a Mux. Its methods are
// called on the reader's goroutines of the Mux's socket.
type Acceptor interface {
	// HandleUnknown sees the datagrams of an address without a Conn. It may
	// append answers to out without creating any state, and returns whether
	// a Conn is to be made. Now is the time of the system's clock.
	HandleUnknown(now time.Time, from netip.AddrPort, bufs [][]byte, out *wire.Batch) (create bool)
	// HandlePeer is given the new Conn and must attach a Handler to it before
	// it returns, or close it. The datagrams then go to that Handler. It
	// follows whenever HandleUnknown says so, also if the Mux has been closed
	// in between.
	HandlePeer(now time.Time, c Conn)
}

// Stats counts what happened below a Conn or a Mux.
type Stats struct {
	// ReadErrors and WriteErrors count errors of the socket that did not end
	// it, such as an ICMP message that nobody listens at the other side.
	ReadErrors, WriteErrors uint64
	// Unknown counts datagrams of addresses without a Conn that were dropped.
	Unknown uint64
	// Socket is what the socket itself tells.
	Socket socket.Stats
}

// A Provider is a connection of volley's own that stands on a Conn, so that
// another layer can stack on it without a goroutine or copy in between. Its
// one method is the only trace of this seam in public types.
type Provider interface {
	DatagramConn() Conn
}

// ErrPeerClosed is what a write meets after the peer has closed. It is
// io.ErrClosedPipe, as with net.Pipe, and net.ErrClosed, as every end of a
// connection.
var ErrPeerClosed error = peerClosedError{}

type peerClosedError struct{}

func (peerClosedError) Error() string { return "closed by the peer" }

func (peerClosedError) Is(target error) bool {
	return target == io.ErrClosedPipe || target == net.ErrClosed
}
