package socket

import (
	"errors"
	"net"
	"slices"
	"syscall"
)

// IsTransient reports whether err is about one datagram or moment. A forged ICMP message can
// make a connected socket report almost any number, so only those of a socket that is gone
// are final. Without a number, deadlines are transient.
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

// IsRefused reports whether err says that nobody listens, which can be forged.
func IsRefused(err error) bool {
	errno, ok := errors.AsType[syscall.Errno](err)
	return ok && slices.Contains(refusedErrnos, errno)
}
