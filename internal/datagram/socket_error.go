package datagram

import (
	"errors"
	"net"
	"slices"
	"syscall"
)

// IsTransient tells whether err concerns one datagram or one moment, and not
// the Socket as such, which then goes on working: an ICMP message about an
// earlier datagram (connection refused, host unreachable), a datagram that is
// too large or that a firewall refuses, a full queue, a deadline. It is false
// for nil and for net.ErrClosed.
func IsTransient(err error) bool {
	if err == nil || errors.Is(err, net.ErrClosed) {
		return false
	}
	if errno, ok := errors.AsType[syscall.Errno](err); ok && slices.Contains(transientErrnos, errno) {
		return true
	}
	timeout, ok := errors.AsType[net.Error](err)
	return ok && timeout.Timeout()
}
