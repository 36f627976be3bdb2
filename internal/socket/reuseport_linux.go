package socket

import (
	"net"
	"os"
	"runtime"
	"strings"
	"syscall"
)

// ReusePortControl sets SO_REUSEPORT, or wraps errors.ErrUnsupported.
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

// soReusePort returns SO_REUSEPORT, which package syscall lacks in part.
func soReusePort() int {
	if strings.HasPrefix(runtime.GOARCH, "mips") {
		return 0x200
	}
	return 0xf
}

// maxQueued is more datagrams than any socket's buffer holds by default.
const maxQueued = 1 << 16

// DiscardQueued drops the datagrams that wait in a socket, and returns their number. The
// first socket of a port gets those of all peers until the others exist, and must not handle
// them.
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
