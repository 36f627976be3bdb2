package riptide

import (
	"errors"
	"net"
)

var (
	// ErrLayout is the error of using messages of one layout with the other.
	ErrLayout = errors.New("riptide: message of another layout")
	// ErrNoMode is the error of sending a message of [NewData], which can
	// only accompany others.
	ErrNoMode = errors.New("riptide: data is not a message to be sent")
	// ErrServerClosed is the error of serving after [Server.Close] or
	// [Server.Shutdown]. It matches net.ErrClosed.
	ErrServerClosed error = closedError("riptide: server closed")

	errNotConnected error = closedError("riptide: not connected")
	errSlow               = errors.New("riptide: the other side does not read")
)

// A closedError matches net.ErrClosed.
type closedError string

func (e closedError) Error() string        { return string(e) }
func (e closedError) Is(target error) bool { return target == net.ErrClosed }

// A ConnectError is the error of a client whose connection did not come about.
type ConnectError struct {
	// Reason is [NoConnection] if nobody answered.
	Reason RejectReason
	// Data is what the application at the server has sent along if the
	// reason is [RejectedWithData], else nil.
	Data *Message
	// Err is the last error of the socket since the server was heard, such as
	// syscall.ECONNREFUSED of a machine that says that nobody listens. Nil: there
	// was none.
	Err error
}

func (e *ConnectError) Error() string {
	text := "riptide: connection failed: " + e.Reason.String()
	if e.Err != nil {
		text += "; the socket's last error: " + e.Err.Error()
	}
	return text
}

// Unwrap returns e.Err.
func (e *ConnectError) Unwrap() error { return e.Err }

// A DisconnectError says why a connection ended. It matches net.ErrClosed.
type DisconnectError struct {
	Reason DisconnectReason
	// Data is what the server has sent along if the reason is [Kicked], of
	// less than 8 bits if nothing, and else nil.
	Data *Message
}

func (e *DisconnectError) Error() string { return "riptide: connection ended: " + e.Reason.String() }

// Is reports whether target is net.ErrClosed.
func (e *DisconnectError) Is(target error) bool { return target == net.ErrClosed }

// A RejectError is what [Server.Accept] returns to send data to a client that
// it refuses.
type RejectError struct {
	Data *Message
}

func (e *RejectError) Error() string { return "riptide: rejected" }
