// Package socket moves packets between us and the system, in batches: on Linux
// several messages a system call, and runs of datagrams with segmentation
// offload; elsewhere, and on any net.PacketConn, one datagram a call.
package socket

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"
	"time"

	"volley/internal/deadline"
)

// A Packet is one datagram, or a run of datagrams of equal size, on its way
// through a Socket.
type Packet struct {
	// Buf holds the datagram, or the run of datagrams one behind the other.
	Buf []byte
	// Addr is the other side. On a connected socket it is ignored when
	// sending. IPv4 addresses are never in their IPv6-mapped form.
	Addr netip.AddrPort
	// Local is our address: a received packet was sent to it, and a packet is sent
	// from it. It is zero if the socket has just one, or the platform does not
	// tell; then the system chooses by its routes.
	Local netip.Addr
	// Segment is the size in bytes of each datagram of a run; the last one
	// may be shorter. Zero: Buf is one datagram.
	Segment int
	// Drops is, for a received packet, how many datagrams the kernel has dropped
	// in all because the socket's buffer was full; zero if the platform does not
	// tell.
	Drops uint32
}

// Datagrams returns how many datagrams p is.
func (p *Packet) Datagrams() int {
	if p.Segment <= 0 {
		return 1
	}
	return (len(p.Buf) + p.Segment - 1) / p.Segment
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
	// Stats tells what the socket has done. It may be called at any time from
	// any goroutine.
	Stats() Stats
	// Features says what else the socket can do. It is always the same.
	Features() Features
	// Close closes the socket and makes ReadBatch return. Every call returns the
	// result of the first, when that is over.
	Close() error
}

// Features are what only some Sockets can do; nil: this one cannot. A Socket on top
// of another one passes the Features on, perhaps in its own form.
type Features struct {
	Loop     Looper
	Steps    Stepper // then there is a Loop, too
	Poll     Poller
	Notifier Notifier // then there are Steps, too
	Late     DeadlineWriter
	Addrs    AddrMapper
	Deadline ReadDeadliner
	System   System
	Peek     Peeker
	Release  Releaser
	Drops    bool // its Packets tell of Drops, and its Stats ask the system for newer ones
}

// A Looper reads in a loop of its own.
type Looper interface {
	// ReadLoop calls handle with packets, which are valid until handle returns,
	// until an error, and with nil before it waits. If Close is called while handle
	// runs, perhaps by handle, the socket is closed once handle has returned.
	ReadLoop(handle func(ps []Packet)) error
}

// A Releaser has a Close that may return before its address is free, see Looper.
type Releaser interface {
	// Released returns, after Close, a channel that is closed once the address
	// is free, or nil if it is.
	Released() <-chan struct{}
}

// A Stepper can be read by its users in turns.
type Stepper interface {
	// ReadStep waits for packets until the read deadline and calls handle
	// once with what is there.
	ReadStep(handle func(ps []Packet)) error
	// SetReadDeadline concerns ReadLoop and ReadStep, also one under way, which
	// then return os.ErrDeadlineExceeded.
	SetReadDeadline(time.Time) error
}

// A Poller can be read without waiting.
type Poller interface {
	// ReadReady calls handle with what is there, batch by batch, and with nil at
	// the end. It reads no more than a few thousand packets.
	ReadReady(handle func(ps []Packet)) error
}

// A ReadDeadliner has reads that can be interrupted.
type ReadDeadliner interface {
	// SetReadDeadline concerns all reads, also one under way, which then return
	// os.ErrDeadlineExceeded.
	SetReadDeadline(time.Time) error
}

// A Notifier can tell of packets without being read.
type Notifier interface {
	// WakeOnPacket calls s.WakeUp once, as soon as there is something to receive;
	// nil cancels that, unless the call is under way. WakeUp must not block, except
	// for a lock that the caller of WakeOnPacket may hold.
	WakeOnPacket(s Sleeper) error
}

// A Peeker can tell whether there is something to receive.
type Peeker interface {
	// Unread reports whether there are packets to read. Any goroutine may call it.
	Unread() bool
}

// A Sleeper is to be told of packets.
type Sleeper interface{ WakeUp() }

// A DeadlineWriter limits how long writers wait for room in its send buffer.
type DeadlineWriter interface {
	// WriteBatchBy is WriteBatch, but waits for room no longer than until the
	// deadline. It then returns ErrLate and how many elements it is done with;
	// of the next one, Buf is what was not sent.
	WriteBatchBy(ps []Packet, d *deadline.Deadline) (int, error)
	// WriteOneBy is WriteBatchBy for one datagram, at less cost. A nil deadline is none.
	WriteOneBy(datagram []byte, to netip.AddrPort, from netip.Addr, d *deadline.Deadline) error
}

// A System is a Socket on a socket of the system, as a net.UDPConn shows it.
type System interface {
	// SyscallConn gives access to the descriptor. Do not read or write there.
	SyscallConn() (syscall.RawConn, error)
	// SetReadBuffer and SetWriteBuffer ask for sizes of the kernel's buffers in
	// bytes. The kernel may give less.
	SetReadBuffer(bytes int) error
	SetWriteBuffer(bytes int) error
}

// systemOf returns what a net.PacketConn has of a System, nil if not all.
func systemOf(pc net.PacketConn) System {
	s, _ := pc.(System)
	return s
}

// ErrLate is that the send buffer was full until the writer's deadline.
var ErrLate = errors.New("socket: the send buffer was full until the deadline")

// DisableOffloadEnv is an environment variable. If it is neither "" nor "0", new
// sockets use no segmentation offload (UDP_SEGMENT and UDP_GRO). qemu-user needs this
// on a processor of the other byte order: it does not convert these control messages.
const DisableOffloadEnv = "VOLLEY_DISABLE_OFFLOAD"

const (
	// defaultSocketBuffer is the size of buffers to ask for. A small datagram
	// counts three times its size, so the usual 208 KiB hold fewer than 300.
	defaultSocketBuffer = 4 << 20

	// maxDatagram is the size of a buffer for any datagram or run.
	maxDatagram = 1 << 16
)

// A Config has options of a Socket on a net.UDPConn. Zero values are defaults.
type Config struct {
	// ReadBuffer and WriteBuffer are the sizes in bytes of the kernel's buffers to
	// ask for (SO_RCVBUF, SO_SNDBUF). Zero: 4 MiB. Negative: the system's default.
	ReadBuffer, WriteBuffer int
	// DisableOffload makes the socket send and receive each datagram by
	// itself. See also DisableOffloadEnv.
	DisableOffload bool
}

// bufferSize applies the default to a buffer size of a Config. Zero: leave it.
func bufferSize(asked int) int {
	if asked == 0 {
		return defaultSocketBuffer
	}
	return max(asked, 0)
}

// Stats tells what a Socket has done and what it can do.
type Stats struct {
	// GSO and GRO tell whether runs are sent and received in one system call.
	GSO, GRO bool
	// ReadBufferSize and WriteBufferSize are the granted sizes in bytes; zero if
	// the platform does not tell.
	ReadBufferSize, WriteBufferSize int
	// ReadCalls and SendCalls count the calls that moved datagrams.
	ReadCalls, SendCalls uint64
	// Retries counts datagrams that were sent again after an error that may have
	// been about an earlier one.
	Retries uint64
	// Fallbacks counts runs that had to be sent datagram by datagram.
	Fallbacks uint64
	// Drops is the newest value of Packet.Drops.
	Drops uint32
}

// New returns the fastest Socket on pc. After an error pc is still the caller's.
func New(pc net.PacketConn, cfg Config) (Socket, error) {
	if udp, ok := pc.(*net.UDPConn); ok {
		return NewUDP(udp, cfg)
	}
	return NewPacket(pc), nil
}

// NewUDP returns the fastest Socket on c, connected or not, which it takes over.
func NewUDP(c *net.UDPConn, cfg Config) (Socket, error) {
	s, err := newPlatformSocket(c, &cfg)
	if err != nil {
		return nil, fmt.Errorf("socket: socket on %v: %w", c.LocalAddr(), err)
	}
	return s, nil
}

// NextDatagram cuts the first datagram off a run of the given size, 0 for one.
func NextDatagram(b []byte, segment int) (datagram, rest []byte) {
	if segment <= 0 || len(b) <= segment {
		return b, nil
	}
	return b[:segment:segment], b[segment:]
}
