package netconn

import (
	"net"
	"reflect"
	"strings"

	"volley/internal/datagram"
)

// Unfit returns why no protocol of messages can stand on a connection, such as
// that it is a stream, as far as that is certain. If one can, that is "".
func Unfit(inner net.Conn) (reason string) {
	if inner == nil {
		return "it is nil"
	}
	if network := Stream(inner); network != "" {
		return "a " + network + " connection does not preserve message boundaries"
	}
	return ""
}

// Stream returns the network of a connection that is certainly a stream, and ""
// for others. It tells by the address, which wrappers pass on, and by the type
// where that says it whatever is below.
func Stream(inner interface{ LocalAddr() net.Addr }) (network string) {
	if t := reflect.TypeOf(inner); t.String() == "*tls.Conn" && t.Elem().PkgPath() == "crypto/tls" {
		return "TLS" // not imported, for it is large
	}
	addr := inner.LocalAddr()
	if addr == nil {
		return ""
	}
	switch n := addr.Network(); {
	case n == "unix" || strings.HasPrefix(n, "tcp"):
		return n
	case n == "pipe" && addr.String() == "pipe": // ours have other names
		return "net.Pipe"
	}
	return ""
}

// Unused returns what stands below a connection of which every call fails: it
// closes inner, if that is not nil, and does nothing else.
func Unused(inner net.Conn) datagram.Conn {
	if inner == nil {
		standIn, far := net.Pipe() // something to close
		far.Close()
		inner = standIn
	}
	return datagram.NewForeign(inner, 0, 0)
}

// NewListener returns a net.Listener whose Accept puts a protocol on the
// connections that inner accepts. If wrap returns an error, Accept closes the
// connection and returns the error.
func NewListener(inner net.Listener, wrap func(net.Conn) (net.Conn, error)) net.Listener {
	return &listener{inner, wrap}
}

type listener struct {
	net.Listener
	wrap func(net.Conn) (net.Conn, error)
}

func (l *listener) Accept() (net.Conn, error) {
	inner, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c, err := l.wrap(inner)
	if err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}
