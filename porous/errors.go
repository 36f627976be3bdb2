package porous

import (
	"fmt"
	"net"

	"volley/internal/netconn"
)

// A closedError ends a connection, or the attempt to make one. It is
// net.ErrClosed to errors.Is, and not a timeout: programs try again on those.
type closedError struct{ msg string }

func (e *closedError) Error() string        { return e.msg }
func (e *closedError) Is(target error) bool { return target == net.ErrClosed }

var (
	// ErrIdleTimeout ends a connection that has not heard from its peer for
	// Config.IdleTimeout. Messages that arrived before are read first; then
	// every call fails with it, or with an error that matches it and also the
	// last error of the socket since the peer was heard, where there was one.
	// It matches net.ErrClosed, and its Timeout is false, since the connection
	// does not come back. It also ends one whose peer answers no pings for three
	// seconds, or eight timeouts, while its address asks for a new connection: the
	// peer has died and started again.
	ErrIdleTimeout error = &closedError{"porous: no frame from the peer within the idle timeout"}
	// ErrRefused ends an attempt to connect: the peer has another number of
	// channels or another size of frames, or has ended the connection before
	// it began.
	ErrRefused error = &closedError{"porous: the handshake failed: the peer is incompatible, or refused"}
	// ErrHandshakeTimeout ends an attempt to connect that was not answered
	// within Config.HandshakeTimeout. A peer with another Config.Channels or
	// Config.SmallFrames does not answer either. The error that a call returns
	// may also match the last error of the socket, as with ErrIdleTimeout.
	ErrHandshakeTimeout error = &closedError{"porous: the peer did not complete the handshake in time"}
)

// errUnfinished ends a connection that keeps memory which others need.
var errUnfinished error = &closedError{"porous: the peer has left messages unfinished for too long, while there was little left of MaxMemory"}

// errReplaced ends a connection whose peer has started again.
var errReplaced error = replacedError{}

type replacedError struct{}

func (replacedError) Error() string {
	return "porous: the peer has started again: its address asks for a new connection, and answers no pings of this one"
}

func (replacedError) Unwrap() error { return ErrIdleTimeout }

// A MessageTooLargeError is returned for a message larger than the connection
// carries. Nothing of it has been sent.
type MessageTooLargeError struct {
	Size int // of the message, in bytes
	Max  int // what Conn.MaxMessageSize returns
}

func (e *MessageTooLargeError) Error() string {
	return fmt.Sprintf("porous: message of %d bytes exceeds the maximum of %d", e.Size, e.Max)
}

// An UndeliveredError is returned by calls that close a connection, if messages
// that had been accepted were not acknowledged, or not even sent. Some of them
// may have arrived all the same.
type UndeliveredError struct {
	Messages int   // their number
	Bytes    int   // of these messages
	Err      error // why: a context's error, or what ended the connection
}

func (e *UndeliveredError) Error() string {
	return fmt.Sprintf("porous: %d messages (%d bytes) were not acknowledged: %v", e.Messages, e.Bytes, e.Err)
}

// Unwrap returns e.Err.
func (e *UndeliveredError) Unwrap() error { return e.Err }

// opError wraps err, once, as functions of package net do.
func (c *Conn) opError(op string, err error) error {
	if err == nil {
		return nil
	}
	return netconn.OpError(op, c.dc.LocalAddr(), c.dc.RemoteAddr(), err)
}
