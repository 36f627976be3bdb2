// Package socket moves packets between us and the system, in batches: on Linux
// several messages a system call, and runs of datagrams with segmentation
// offload; elsewhere, and on any net.PacketConn, one datagram a call.
package socket

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
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

// Features are what not every Socket can do; nil is what this one cannot. A
// Socket that stands on another one passes its Features on, those that it
// changes in its own form.
type Features struct {
	Loop     Looper         // it is read without a step back between two reads
	Steps    Stepper        // its users can read it in turns; then there is a Loop, too
	Poll     Poller         // it can be read without waiting
	Notifier Notifier       // it need not be read all the time; then there are Steps, too
	Late     DeadlineWriter // its writers need not wait for ever
	Addrs    AddrMapper     // its Packets carry stand-ins for addresses
	Deadline ReadDeadliner  // its reads can be interrupted
	System   System         // it is one of the system
	Peek     Peeker         // it can tell whether it has something to be read
	Release  Releaser       // its Close may return before its address is free
	Drops    bool           // its Packets tell of Drops, and its Stats ask the system for newer ones
}

// A Looper can do without the step back to its caller between two reads.
type Looper interface {
	// ReadLoop calls handle with what ReadBatch would have returned, until an
	// error, and with nil before it waits; the packets are valid until handle returns. If Close is called
	// while handle runs, also by handle itself, the socket goes once handle has
	// returned.
	ReadLoop(handle func(ps []Packet)) error
}

// A Releaser has a Close that need not wait for what handles packets, see Looper.
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
	// WakeOnPacket has s.WakeUp called once, as soon as there is something to
	// receive; nil takes that back, unless the call is under way. WakeUp must
	// not block, but for a lock that the caller of WakeOnPacket may hold.
	WakeOnPacket(s Sleeper) error
}

// A Peeker can tell whether there is something to receive.
type Peeker interface {
	// Unread reports whether something has come that nobody has read. It may be
	// called from any goroutine, and does not wait.
	Unread() bool
}

// A Sleeper is to be told of packets.
type Sleeper interface{ WakeUp() }

// A DeadlineWriter need not have its writers wait for ever for room in its send
// buffer.
type DeadlineWriter interface {
	// WriteBatchBy is WriteBatch, but waits for room no longer than until the
	// deadline. It then returns ErrLate and how many elements it is done with;
	// of the next one, Buf is what was not sent.
	WriteBatchBy(ps []Packet, d *deadline.Deadline) (int, error)
	// WriteOneBy is WriteBatchBy for one datagram, at less cost. A nil deadline is
	// none.
	WriteOneBy(datagram []byte, to netip.AddrPort, from netip.Addr, d *deadline.Deadline) error
}

// ErrLate is that the send buffer was full until the writer's deadline.
var ErrLate = errors.New("socket: the send buffer was full until the deadline")

// DisableOffloadEnv is the environment variable that, set to anything but
// "" and "0", makes every new socket do without segmentation offload
// (UDP_SEGMENT and UDP_GRO), as Config.DisableOffload does for one. It is needed
// under qemu-user on a processor of the other byte order: qemu passes these control
// messages on without turning their bytes round.
const DisableOffloadEnv = "VOLLEY_DISABLE_OFFLOAD"

const (
	// defaultSocketBuffer is asked for as receive and send buffer. A small
	// datagram is charged three times its size, so that the usual default of
	// 208 KiB holds fewer than 300 of them.
	defaultSocketBuffer = 4 << 20

	// maxDatagram is the size in bytes of a buffer that holds every UDP
	// datagram, and every run that the kernel delivers at once.
	maxDatagram = 1 << 16
)

// A Config says how a Socket on a net.UDPConn is set up. The zero value
// is the documented default.
type Config struct {
	// ReadBuffer and WriteBuffer are the sizes in bytes to ask for of the
	// kernel's buffers of the socket (SO_RCVBUF, SO_SNDBUF). The kernel may
	// give less. Zero: 4 MiB. Negative: the system's default.
	ReadBuffer, WriteBuffer int
	// DisableOffload makes the socket send and receive each datagram by
	// itself. See also DisableOffloadEnv.
	DisableOffload bool
}

// bufferSize applies the default to one of the buffer sizes of a Config.
// Zero is: leave it alone.
func bufferSize(asked int) int {
	if asked == 0 {
		return defaultSocketBuffer
	}
	return max(asked, 0)
}

// Stats tells what a Socket has done and what it can do.
type Stats struct {
	// GSO and GRO tell whether runs of datagrams are at present sent, and
	// received, in one system call.
	GSO, GRO bool
	// ReadBufferSize and WriteBufferSize are the sizes in bytes that the
	// kernel has granted; zero where the platform does not tell.
	ReadBufferSize, WriteBufferSize int
	// ReadCalls and SendCalls count the system calls, or calls of the
	// net.PacketConn, that moved datagrams.
	ReadCalls, SendCalls uint64
	// Retries counts the errors of sends after which the same was sent again,
	// since they may have been about an earlier datagram.
	Retries uint64
	// Fallbacks counts the runs that the kernel refused to send in one call
	// and that were sent datagram by datagram instead.
	Fallbacks uint64
	// Drops is the newest value of Packet.Drops.
	Drops uint32
}

// New returns the fastest Socket there is on pc: that of NewUDP, or of
// NewPacket. After an error pc is still the caller's.
func New(pc net.PacketConn, cfg Config) (Socket, error) {
	if udp, ok := pc.(*net.UDPConn); ok {
		return NewUDP(udp, cfg)
	}
	return NewPacket(pc), nil
}

// NewUDP returns a Socket on c, connected or not, which it takes over:
// neither read from, write to nor close c afterwards. It is the fastest one
// that the platform has, and behaves like NewPacket's otherwise.
func NewUDP(c *net.UDPConn, cfg Config) (Socket, error) {
	s, err := newPlatformSocket(c, &cfg)
	if err != nil {
		return nil, fmt.Errorf("socket: socket on %v: %w", c.LocalAddr(), err)
	}
	return s, nil
}

// NextDatagram cuts the first datagram off b, a run of datagrams of the given
// size. A size of zero or less makes b one datagram. The rest is nil after the
// last one.
func NextDatagram(b []byte, segment int) (datagram, rest []byte) {
	if segment <= 0 || len(b) <= segment {
		return b, nil
	}
	return b[:segment:segment], b[segment:]
}
