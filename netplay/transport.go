package netplay

import (
	"fmt"
	"net"
	"reflect"
)

// A message connection carries a message with each Write, as the connections
// of volley do. It says so by the method MaxMessageSize, and if nothing is lost
// or comes out of order on it, by a method KeepsOrder which returns true. This
// package knows them by these methods alone.
type (
	messageConn interface {
		// MaxMessageSize returns the largest message in bytes.
		MaxMessageSize() int
	}
	orderKeeper interface {
		// KeepsOrder reports whether messages arrive completely and in the
		// order in which they were written, or the connection ends.
		KeepsOrder() bool
	}
)

// A TransportError says why a connection cannot carry this protocol.
type TransportError struct {
	Type   reflect.Type // of the connection; nil for none
	Reason string
}

func (e *TransportError) Error() string {
	return fmt.Sprintf("netplay: no protocol over %v: %s", e.Type, e.Reason)
}

// transportOf returns the largest message of a message connection, 0 for a
// stream, and an error for what is neither a stream nor in order.
func transportOf(nc net.Conn) (maxMessage int, err error) {
	refuse := func(reason string) (int, error) {
		return 0, &TransportError{Type: reflect.TypeOf(nc), Reason: reason}
	}
	if nc == nil {
		return refuse("there is no connection")
	}
	if m, ok := nc.(messageConn); ok {
		o, ok := nc.(orderKeeper)
		if !ok || !o.KeepsOrder() {
			return refuse("its messages can be lost or overtake each other, and frames need all of them in order (the connection has no method KeepsOrder that returns true)")
		}
		if m.MaxMessageSize() < 1 {
			return refuse(fmt.Sprintf("its MaxMessageSize is %d", m.MaxMessageSize()))
		}
		return m.MaxMessageSize(), nil
	}
	if _, ok := nc.(net.PacketConn); ok {
		// A *net.UnixConn is a net.PacketConn also where it is a stream.
		if a := nc.LocalAddr(); a == nil || a.Network() != "unix" {
			return refuse("it is a net.PacketConn, whose datagrams can be lost or overtake each other, and frames need a stream")
		}
	}
	return 0, nil
}
