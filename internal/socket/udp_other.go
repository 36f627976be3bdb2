//go:build !linux

package socket

import (
	"errors"
	"fmt"
	"net"
	"syscall"
)

// minSocketBuffer is the least size in bytes worth asking for.
const minSocketBuffer = 256 << 10

func newPlatformSocket(c *net.UDPConn, cfg *Config) (Socket, error) {
	raw, err := c.SyscallConn()
	if err == nil {
		err = raw.Control(func(uintptr) {}) // fails if c is closed
	}
	if err != nil {
		return nil, err
	}
	askBuffer(c.SetReadBuffer, bufferSize(cfg.ReadBuffer))
	askBuffer(c.SetWriteBuffer, bufferSize(cfg.WriteBuffer))
	return newPlainSocket(c), nil
}

// askBuffer asks for a buffer, or smaller ones where that is refused.
func askBuffer(set func(int) error, size int) {
	for size > 0 && set(size) != nil {
		if size /= 2; size < minSocketBuffer {
			return
		}
	}
}

// ReusePortControl is not there on this system.
func ReusePortControl(string, string, syscall.RawConn) error {
	return fmt.Errorf("socket: SO_REUSEPORT with load balancing: %w", errors.ErrUnsupported)
}

// DiscardQueued does nothing where sockets cannot share a port.
func DiscardQueued(*net.UDPConn) (uint64, error) { return 0, nil }
