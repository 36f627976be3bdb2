// Package datagram is the transport seam of volley: batches of datagrams go to
// and come from a Socket; a Mux shares one Socket among many peers; and every
// protocol stands as a Handler on top of a Conn, one peer's share of a
// transport. Layers of volley stack by function calls through these types, so
// that a batch stays a batch from the socket to the application.
package datagram

import (
	"io"
	"net"
	"net/netip"
	"time"

	"volley/internal/deadline"
	"volley/internal/wire"
)

// A Packet is one datagram, or a run of datagrams of equal size, on its way
// through a Socket.
type Packet struct {
	// Buf holds the datagram, or the run of datagrams one behind the other.
	Buf []byte
	// Addr is the other side. On a connected socket it is ignored when
	// sending. IPv4 addresses are never in their IPv6-mapped form.
	Addr netip.AddrPort
	// Local is our side's address: the one that a received packet was sent to,
	// and the one to send a packet from. It is zero where the socket has just
	// one, or the platform does not tell; then the system chooses by its routes,
	// on machines of several addresses perhaps another one than the other side
	// knows us by.
	Local netip.Addr
	// Segment is the size in bytes of each datagram of a run; the last one
	// may be shorter. Zero: Buf is one datagram.
	Segment int
	// Drops is, for a received packet, the total number of datagrams that
	// the kernel has dropped because this socket's buffer was full, as far as
	// the platform tells; otherwise zero.
	Drops uint32
}

// A Socket is a packet transport. Reads come from one goroutine; writes may
// come from many, also during a read and during Close.
type Socket interface {
	// ReadBatch waits for datagrams and describes them in ps. It returns how
	// many elements it has set, at least one if the error is nil. The buffers
	// belong to the socket and stay valid, and writable, until the next call.
	// After Close the error is net.ErrClosed, perhaps wrapped. Errors for
	// which IsTransient is true do not end the socket.
	ReadBatch(ps []Packet) (int, error)
	// WriteBatch sends ps in order and returns the number of elements sent.
	// If it is short, the error says why element n was not sent; the caller
	// may go on with element n+1.
	WriteBatch(ps []Packet) (int, error)
	// LocalAddr returns the address the socket is bound to.
	LocalAddr() net.Addr
	// Close closes the socket and makes ReadBatch return.
	Close() error
}

// A DeadlineSocket is a Socket whose writers need not wait for room in its send
// buffer for ever.
type DeadlineSocket interface {
	Socket
	// WriteBatchBy is WriteBatch, but waits for room no longer than until the
	// deadline. It then returns how many elements it is done with; of the next
	// one, Buf is what was not sent.
	WriteBatchBy(ps []Packet, d *deadline.Deadline) (int, error)
}

// A Server is a Socket that can do without the step back to its caller between
// two reads. Serve calls handle with what ReadBatch would have returned, until
// an error; the packets are valid until handle returns. If Close is called
// while handle runs, also by handle itself, the socket goes once handle has
// returned.
type Server interface {
	Socket
	Serve(handle func(ps []Packet)) error
}

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
	Socket SocketStats
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
