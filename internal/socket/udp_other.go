//go:build !linux

package socket

import "net"

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

// askBuffer asks for a buffer of size bytes and, since some systems refuse
// instead of giving what they can, for ever smaller ones. A socket with its
// default buffer works too, so that there is no error.
func askBuffer(set func(int) error, size int) {
	for size > 0 && set(size) != nil {
		if size /= 2; size < minSocketBuffer {
			return
		}
	}
}
