package socket

import (
	"net"
	"net/netip"
	"sync/atomic"
	"syscall"
)

// A linuxSocket is a Socket on a net.UDPConn that makes the system calls itself:
// several messages a call, and with offload (UDP_SEGMENT, UDP_GRO) a run of
// datagrams a message. It waits in the runtime's poller.
type linuxSocket struct {
	conn   *net.UDPConn
	raw    syscall.RawConn
	kernel kernel
	open   openState

	// constant
	peer      netip.AddrPort // of a connected socket, otherwise zero
	family    int32          // AF_INET or AF_INET6, the latter perhaps dual-stack
	manyAddrs bool           // bound to all addresses, so packets carry theirs
	gro       bool

	readBuffer, writeBuffer atomic.Int32 // bytes granted

	gso  gsoState
	recv receiver // owned by the goroutine in ReadBatch
	wake wakeState
	room sendRoom

	permissionRetried    atomic.Bool
	drops                atomic.Uint32 // newest count a message has come with
	readCalls, sendCalls atomic.Uint64
	fallbacks, retried   atomic.Uint64
}

var _ Socket = (*linuxSocket)(nil)

func newPlatformSocket(c *net.UDPConn, cfg *Config) (Socket, error) {
	return newLinuxSocket(c, cfg, &linuxKernel{})
}

func newLinuxSocket(c *net.UDPConn, cfg *Config, k kernel) (*linuxSocket, error) {
	forgetDeadlines(c)
	raw, err := c.SyscallConn()
	if err != nil {
		return nil, err
	}
	s := &linuxSocket{conn: c, raw: raw, kernel: k, peer: remoteAddrPort(c)}
	s.recv.serve = s.serveReady
	controlErr := raw.Control(func(fd uintptr) { err = s.setUp(fd, cfg) })
	if controlErr != nil {
		return nil, controlErr
	}
	if err != nil {
		return nil, err
	}
	return s, nil
}

// LocalAddr implements Socket.
func (s *linuxSocket) LocalAddr() net.Addr { return s.conn.LocalAddr() }

// Close implements Socket. Every call returns the result of the first.
func (s *linuxSocket) Close() error {
	return s.open.close(func() error {
		s.unwatch()
		return s.conn.Close()
	})
}

// Released implements Releaser.
func (s *linuxSocket) Released() <-chan struct{} { return s.open.released() }

// Features implements Socket.
func (s *linuxSocket) Features() Features {
	return Features{Loop: s, Steps: s, Poll: s, Notifier: s, Late: s, Deadline: s, System: s, Peek: s, Release: s, Drops: true}
}

// Stats implements Socket. Its Drops may be newer than that of the last Packet.
func (s *linuxSocket) Stats() Stats {
	drops := s.drops.Load()
	_ = s.raw.Control(func(fd uintptr) { // fails after Close
		if n, ok := s.kernel.drops(fd); ok {
			drops = n
		}
	})
	return Stats{
		GSO:             s.gso.offered(s.peer),
		GRO:             s.gro,
		ReadBufferSize:  int(s.readBuffer.Load()),
		WriteBufferSize: int(s.writeBuffer.Load()),
		ReadCalls:       s.readCalls.Load(),
		SendCalls:       s.sendCalls.Load(),
		Retries:         s.retried.Load(),
		Fallbacks:       s.fallbacks.Load(),
		Drops:           drops,
	}
}

// Unread implements Peeker.
func (s *linuxSocket) Unread() (unread bool) {
	_ = s.raw.Control(func(fd uintptr) { unread = s.kernel.readable(fd) }) // fails after Close
	return unread
}

// SyscallConn implements System.
func (s *linuxSocket) SyscallConn() (syscall.RawConn, error) { return s.conn.SyscallConn() }

// SetReadBuffer implements System. A privileged process may exceed the limit.
func (s *linuxSocket) SetReadBuffer(bytes int) error {
	return s.raw.Control(func(fd uintptr) {
		s.readBuffer.Store(int32(s.setBuffer(fd, syscall.SO_RCVBUFFORCE, syscall.SO_RCVBUF, bytes)))
	})
}

// SetWriteBuffer implements System, as SetReadBuffer does.
func (s *linuxSocket) SetWriteBuffer(bytes int) error {
	return s.raw.Control(func(fd uintptr) {
		s.writeBuffer.Store(int32(s.setBuffer(fd, syscall.SO_SNDBUFFORCE, syscall.SO_SNDBUF, bytes)))
	})
}
