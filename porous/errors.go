package porous

import (
	"errors"
	"fmt"

	"volley/internal/netconn"
)

var (
	// ErrIdleTimeout ends a connection whose peer was silent for Config.IdleTimeout.
	// Messages that arrived before can be read first; then every call fails with it.
	// The error that a call returns may also match the last error of the socket since
	// the peer was heard. It is no timeout by net.Error, because the connection does
	// not come back.
	//
	// It also ends a connection whose peer has started again: its address asks for a
	// new connection, and answers no ping for three seconds, or eight retransmission
	// timeouts if that is longer.
	ErrIdleTimeout = errors.New("porous: no frame from the peer within the idle timeout")
	// ErrRefused ends an attempt to connect: the peer has another number of channels or
	// another size of frames, or has ended the connection before it began.
	ErrRefused = errors.New("porous: the handshake failed: the peer is incompatible, or refused")
	// ErrHandshakeTimeout ends an attempt to connect that was not answered
	// within Config.HandshakeTimeout. A peer with another Config.Channels or
	// Config.SmallFrames does not answer either. The error that a call returns
	// may also match the last error of the socket.
	ErrHandshakeTimeout = errors.New("porous: the peer did not complete the handshake in time")
)

// errUnfinished ends a connection that keeps memory which others need.
var errUnfinished = errors.New("porous: MaxMemory is nearly used up, and the peer left its messages incomplete for too long")

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

// An UndeliveredError is returned by calls that close a connection if accepted messages
// were not acknowledged, or not even sent. Some of them may have arrived all the same.
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

// A ConfigError says which field of a configuration, or which argument, cannot be used.
type ConfigError struct {
	Field  string // such as "Config.Channels"
	Reason string // with the value and the limit
}

func (e *ConfigError) Error() string {
	return fmt.Sprintf("porous: invalid %s: %s", e.Field, e.Reason)
}

func configError(field, format string, args ...any) error {
	return &ConfigError{Field: field, Reason: fmt.Sprintf(format, args...)}
}

// opError wraps err, once, as functions of package net do.
func (c *Conn) opError(op string, err error) error {
	if err == nil {
		return nil
	}
	return netconn.OpError(op, c.out.Below.LocalAddr(), c.out.Below.RemoteAddr(), err)
}
