package socket

import (
	"net"
	"syscall"
)

// A System is a Socket on a socket of the system, as a net.UDPConn shows it.
type System interface {
	// SyscallConn gives access to the descriptor. Reading and writing there gets
	// in the way of the Socket.
	SyscallConn() (syscall.RawConn, error)
	// SetReadBuffer and SetWriteBuffer ask for the sizes in bytes of the kernel's
	// buffers, which may give less.
	SetReadBuffer(bytes int) error
	SetWriteBuffer(bytes int) error
}

// systemOf returns what a net.PacketConn has of a System, nil if not all.
func systemOf(pc net.PacketConn) System {
	s, _ := pc.(System)
	return s
}
