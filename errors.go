package volley

import (
	"fmt"
	"net"

	"volley/internal/netconn"
)

// A closedError ends a connection. It is net.ErrClosed to errors.Is, and not a
// timeout: programs try again on those.
type closedError struct{ msg string }

func (e *closedError) Error() string        { return e.msg }
func (e *closedError) Is(target error) bool { return target == net.ErrClosed }

// ErrIdleTimeout ends a connection that has not heard from its peer for
// Config.IdleTimeout. Messages that arrived before are read first; then every
// call fails with it, or with an error that matches it and also the last error
// of the socket since the peer was heard, where there was one. It matches
// net.ErrClosed, and its Timeout is false, since the connection does not come
// back.
var ErrIdleTimeout error = &closedError{"volley: no datagram from the peer within the idle timeout"}

// A MessageTooLargeError is returned for a message larger than the connection
// carries. Nothing of it has been sent.
type MessageTooLargeError struct {
	Size int // of the message, in bytes
	Max  int // what Conn.MaxMessageSize returns
}

func (e *MessageTooLargeError) Error() string {
	return fmt.Sprintf("volley: message of %d bytes exceeds the maximum of %d", e.Size, e.Max)
}

// A ConfigError says which field of a configuration cannot be used.
type ConfigError struct {
	Field  string // such as "Config.FragmentSize"
	Reason string // with the value and the limit
}

func (e *ConfigError) Error() string {
	return fmt.Sprintf("volley: invalid %s: %s", e.Field, e.Reason)
}

// opError wraps err, once, as functions of package net do.
func (c *Conn) opError(op string, err error) error {
	if err == nil {
		return nil
	}
	return netconn.OpError(op, c.out.Below.LocalAddr(), c.out.Below.RemoteAddr(), err)
}
