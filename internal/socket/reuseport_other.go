//go:build !linux

package socket

import (
	"errors"
	"fmt"
	"net"
	"syscall"
)

// ReusePortControl is a Control function for net.ListenConfig that lets
// several sockets be bound to one address, among which the kernel shares out
// the peers (SO_REUSEPORT). On systems other than Linux it returns an error
// that wraps errors.ErrUnsupported.
func ReusePortControl(string, string, syscall.RawConn) error {
	return fmt.Errorf("socket: SO_REUSEPORT with load balancing: %w", errors.ErrUnsupported)
}

// DiscardQueued does nothing where sockets cannot share a port.
func DiscardQueued(*net.UDPConn) (uint64, error) { return 0, nil }
