package datagram

import (
	"fmt"
	"net"
)

// DisableOffloadEnv is the environment variable that, set to anything but
// "" and "0", makes every new socket do without segmentation offload
// (UDP_SEGMENT and UDP_GRO), as SocketConfig.DisableOffload does for one.
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

// A SocketConfig says how a Socket on a net.UDPConn is set up. The zero value
// is the documented default.
type SocketConfig struct {
	// ReadBuffer and WriteBuffer are the sizes in bytes to ask for of the
	// kernel's buffers of the socket (SO_RCVBUF, SO_SNDBUF). The kernel may
	// give less. Zero: 4 MiB. Negative: the system's default.
	ReadBuffer, WriteBuffer int
	// DisableOffload makes the socket send and receive each datagram by
	// itself. See also DisableOffloadEnv.
	DisableOffload bool
}

// bufferSize applies the default to one of the buffer sizes of a SocketConfig.
// Zero is: leave it alone.
func bufferSize(asked int) int {
	if asked == 0 {
		return defaultSocketBuffer
	}
	return max(asked, 0)
}

// SocketStats tells what a Socket has done and what it can do.
type SocketStats struct {
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

// A StatsSocket is a Socket that keeps SocketStats; all Sockets of this package
// do. SocketStats may be called at any time from any goroutine.
type StatsSocket interface {
	Socket
	SocketStats() SocketStats
}

// NewUDPSocket returns a Socket on c, connected or not, which it takes over:
// neither read from, write to nor close c afterwards. It is the fastest one
// that the platform has, and behaves like NewPacketSocket's otherwise.
func NewUDPSocket(c *net.UDPConn, cfg SocketConfig) (Socket, error) {
	s, err := newPlatformSocket(c, &cfg)
	if err != nil {
		return nil, fmt.Errorf("datagram: socket on %v: %w", c.LocalAddr(), err)
	}
	return s, nil
}

// nextDatagram cuts the first datagram off b, a run of datagrams of the given
// size. A size of zero or less makes b one datagram.
func nextDatagram(b []byte, segment int) (datagram, rest []byte) {
	if segment <= 0 || len(b) <= segment {
		return b, nil
	}
	return b[:segment:segment], b[segment:]
}
