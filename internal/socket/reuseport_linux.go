package socket

import (
	"net"
	"os"
	"runtime"
	"strings"
	"syscall"
)

// ReusePortControl is a Control function for net.ListenConfig that lets
// several sockets be bound to one address, among which the kernel shares out
// the peers (SO_REUSEPORT). On systems other than Linux it returns an error
// that wraps errors.ErrUnsupported.
func ReusePortControl(_, _ string, c syscall.RawConn) error {
	var err error
	controlErr := c.Control(func(fd uintptr) {
		err = os.NewSyscallError("setsockopt", syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, soReusePort(), 1))
	})
	if controlErr != nil {
		return controlErr
	}
	return err
}

// soReusePort returns SO_REUSEPORT, which the syscall package lacks on the
// older architectures.
func soReusePort() int {
	if strings.HasPrefix(runtime.GOARCH, "mips") {
		return 0x200
	}
	return 0xf
}

// maxQueued is more datagrams than any socket's buffer holds by default.
const maxQueued = 1 << 16

// DiscardQueued reads what waits in a socket and returns how many datagrams it
// was. Of sockets that share a port, the first ones get the datagrams of all
// peers while the others are not there yet: a peer whose first datagram came in
// that time is at another socket from then on. So nothing of it may be handled.
// To the peer it is as if it had sent a moment too early.
func DiscardQueued(c *net.UDPConn) (n uint64, err error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, err
	}
	controlErr := raw.Control(func(fd uintptr) {
		var buf [1]byte // the rest of a datagram is cut off
		for n < maxQueued {
			_, _, err = syscall.Recvfrom(int(fd), buf[:], syscall.MSG_DONTWAIT)
			switch err {
			case nil:
				n++
			case syscall.EINTR:
			case syscall.EAGAIN:
				err = nil
				return
			default:
				err = os.NewSyscallError("recvfrom", err)
				return
			}
		}
	})
	if controlErr != nil {
		return n, controlErr
	}
	return n, err
}
