package riptide

import (
	"errors"
	"net"
)

var (
	errServerClosed error = closedError("riptide: server closed")
	errNotConnected       = errors.New("riptide: not connected")
	errSlow               = errors.New("riptide: the peer does not read")
)

// A closedError matches net.ErrClosed.
type closedError string

func (e closedError) Error() string        { return string(e) }
func (e closedError) Is(target error) bool { return target == net.ErrClosed }

// A DisconnectError says why a connection ended, or why there was none.
type DisconnectError struct {
	Reason Reason
	// Data is what the server has sent along with [Kicked] or [Rejected]. It is nil
	// with other reasons, and with Rejected without data. With Kicked without data it
	// has fewer than 8 bits.
	Data *Message
	// Err is net.ErrClosed if this side closed the connection. If there was no
	// connection, Err is the last error of the socket since the server was heard,
	// such as syscall.ECONNREFUSED, or nil.
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
