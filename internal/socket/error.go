package socket

import (
	"errors"
	"net"
	"slices"
	"syscall"
)

// IsTransient tells whether err concerns one datagram or one moment, and not
// the Socket as such, which then goes on working. Anybody who can forge an ICMP
// message decides which error number a connected socket reports next, so every
// number passes but those that say that the socket itself is gone, which no
// packet brings about. Errors without a number pass if they are deadlines. It
// is false for nil and for net.ErrClosed.
func IsTransient(err error) bool {
	if err == nil || errors.Is(err, net.ErrClosed) {
		return false
	}
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		return !slices.Contains(goneErrnos, errno)
	}
	timeout, ok := errors.AsType[net.Error](err)
	return ok && timeout.Timeout()
}
