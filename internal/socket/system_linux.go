package socket

import "syscall"

// SyscallConn implements System.
func (s *linuxSocket) SyscallConn() (syscall.RawConn, error) { return s.conn.SyscallConn() }

// SetReadBuffer implements System. It may go beyond the system's limit where the
// process has the right to.
func (s *linuxSocket) SetReadBuffer(bytes int) error {
	return s.raw.Control(func(fd uintptr) {
		s.readBuffer.Store(int32(s.setBuffer(fd, syscall.SO_RCVBUFFORCE, syscall.SO_RCVBUF, bytes)))
	})
}

// SetWriteBuffer implements System, as SetReadBuffer does.
func (s *linuxSocket) SetWriteBuffer(bytes int) error {
	return s.raw.Control(func(fd uintptr) {
		s.writeBuffer.Store(int32(s.setBuffer(fd, syscall.SO_SNDBUFFORCE, syscall.SO_SNDBUF, bytes)))
	})
}
