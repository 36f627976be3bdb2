package datagram

import (
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
