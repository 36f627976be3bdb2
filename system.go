package volley

import (
	"errors"
	"fmt"
	"syscall"

	"volley/internal/socket"
)

// SetReadBuffer asks for a receive buffer of the given size in bytes for the
// UDP socket below, which all connections of a [Listener] share. It replaces
// Config.SocketBuffer; the system may grant less, which Stats tells. The error
// matches errors.ErrUnsupported where there is no such socket.
func (c *Conn) SetReadBuffer(bytes int) error {
	return c.opError("set", setBuffer(c.out.Below.Features().System, socket.System.SetReadBuffer, bytes))
}

// SetWriteBuffer is SetReadBuffer for the send buffer.
func (c *Conn) SetWriteBuffer(bytes int) error {
	return c.opError("set", setBuffer(c.out.Below.Features().System, socket.System.SetWriteBuffer, bytes))
}

// SyscallConn gives access to the UDP socket below, for options. Its Control works.
// Its Read and Write return an error that matches errors.ErrUnsupported, because they
// would take packets away. So does SyscallConn if there is no such socket.
func (c *Conn) SyscallConn() (syscall.RawConn, error) {
	raw, err := controlOf(c.out.Below.Features().System)
	return raw, c.opError("raw-control", err)
}

// SetReadBuffer asks for a receive buffer of the given size in bytes for the UDP
// socket. It replaces Config.SocketBuffer; the system may grant less, which Stats
// tells. The error matches errors.ErrUnsupported over a net.PacketConn that has
// no such method.
func (pc *PacketConn) SetReadBuffer(bytes int) error {
	return pc.opError("set", nil, setBuffer(pc.sock.Features().System, socket.System.SetReadBuffer, bytes))
}

// SetWriteBuffer is SetReadBuffer for the send buffer.
func (pc *PacketConn) SetWriteBuffer(bytes int) error {
	return pc.opError("set", nil, setBuffer(pc.sock.Features().System, socket.System.SetWriteBuffer, bytes))
}

// SyscallConn gives access to the UDP socket, for options. Its Control works. Its Read
// and Write return an error that matches errors.ErrUnsupported, because they would
// take packets away. So does SyscallConn over a net.PacketConn that is no socket.
func (pc *PacketConn) SyscallConn() (syscall.RawConn, error) {
	raw, err := controlOf(pc.sock.Features().System)
	return raw, pc.opError("raw-control", nil, err)
}

var errNoSystem = fmt.Errorf("volley: there is no socket of the system below: %w", errors.ErrUnsupported)

func setBuffer(s socket.System, set func(socket.System, int) error, bytes int) error {
	if s == nil {
		return errNoSystem
	}
	if bytes <= 0 {
		return &ConfigError{Field: "bytes", Reason: fmt.Sprintf("%d is not positive", bytes)}
	}
	return set(s, bytes)
}

func controlOf(s socket.System) (syscall.RawConn, error) {
	if s == nil {
		return nil, errNoSystem
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return nil, err
	}
	return controlOnly{raw}, nil
}

// A controlOnly is a syscall.RawConn that keeps out of reads and writes.
type controlOnly struct{ syscall.RawConn }

var errNoRawIO = fmt.Errorf("volley: packets are not to be read or written beside it: %w", errors.ErrUnsupported)

func (controlOnly) Read(func(fd uintptr) bool) error  { return errNoRawIO }
func (controlOnly) Write(func(fd uintptr) bool) error { return errNoRawIO }
