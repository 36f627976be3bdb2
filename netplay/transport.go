package netplay

import (
	"fmt"
	"net"
)

// A message connection carries a message with each Write, as the connections of volley
// do. This package knows it by the method MaxMessageSize, and by a method KeepsOrder
// that returns true if messages arrive completely and in order.
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

// transportOf returns the largest message of a message connection, 0 for a
// stream, and an error for what is neither a stream nor in order.
func transportOf(nc net.Conn) (maxMessage int, err error) {
	refuse := func(reason string) (int, error) {
		return 0, &ConfigError{Field: "nc", Reason: fmt.Sprintf("%T: %s", nc, reason)}
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
