package riptide

import (
	"errors"
	"net"
)

var (
	// ErrServerClosed is the error of serving after [Server.Close] or
	// [Server.Shutdown]. It matches net.ErrClosed.
	ErrServerClosed error = closedError("riptide: server closed")

	errNotConnected = errors.New("riptide: not connected")
	errSlow         = errors.New("riptide: the other side does not read")
)

// A closedError matches net.ErrClosed.
type closedError string

func (e closedError) Error() string        { return string(e) }
func (e closedError) Is(target error) bool { return target == net.ErrClosed }

// A DisconnectError says why a connection ended or did not come about.
type DisconnectError struct {
	Reason Reason
	// Data is what the server has sent along: with [Kicked], and less than 8 bits
	// if there was no data, or with [Rejected] if there was some. Else it is nil.
	Data *Message
	// Err is net.ErrClosed if this side closed the connection. If it did not come
	// about, Err is the last error of the socket since the server was heard, such
	// as syscall.ECONNREFUSED, or nil if there was none.
	Err error
}

func (e *DisconnectError) Error() string {
	text := "riptide: connection ended: " + e.Reason.String()
	if e.Err != nil && e.Err != net.ErrClosed {
		text += "; the socket's last error: " + e.Err.Error()
	}
	return text
}

// Unwrap returns e.Err.
func (e *DisconnectError) Unwrap() error { return e.Err }

// notConnected returns the error of using a connection that does not stand.
func (c *connection) notConnected() error {
	if c.state == stateClosed {
		return c.disconnectError()
	}
	return errNotConnected
}

// disconnectError returns why the connection has ended, without data.
func (c *connection) disconnectError() *DisconnectError {
	e := &DisconnectError{Reason: c.over.why()}
	ours := c.side == clientSide && e.Reason == Disconnected
	if ours || c.side == serverSide && (e.Reason == Kicked || e.Reason == ServerStopped) {
		e.Err = net.ErrClosed
	}
	return e
}
