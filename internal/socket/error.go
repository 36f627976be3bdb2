package socket

import (
	"errors"
	"net"
	"slices"
	"syscall"
)

// IsTransient reports whether err is about one datagram or one moment, and the
// Socket goes on working. A forged ICMP message can make a connected socket report
// almost any error number, so only those that say that the socket itself is gone
// are final. Errors without a number are transient if they are deadlines.
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

// IsRefused reports whether err says that nobody listens on the other side's port.
// It is a hint: such a message can be forged.
func IsRefused(err error) bool {
	errno, ok := errors.AsType[syscall.Errno](err)
	return ok && slices.Contains(refusedErrnos, errno)
}
