package volley

import (
	"errors"
	"fmt"

	"volley/internal/netconn"
)

// ErrIdleTimeout ends a connection that has not heard from its peer for
// Config.IdleTimeout. Messages that arrived before are read first. Then every call
// fails with it. If the socket has told of errors since the peer was heard, the error's
// text has the last of them. It does not match net.ErrClosed, because this side has not
// closed. Its Timeout is false, because the connection does not come back.
var ErrIdleTimeout = errors.New("volley: no datagram from the peer within the idle timeout")

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
