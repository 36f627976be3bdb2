package netconn

import (
	"net"
	"reflect"
	"strings"

	"volley/internal/datagram"
)

// IsNil reports whether an argument is missing: nil, or a nil pointer of some type.
func IsNil(arg any) bool {
	v := reflect.ValueOf(arg)
	return !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil()
}

// Unfit returns why no protocol of messages can stand on a connection, such as
// that it is a stream, as far as that is certain. If one can, that is "".
func Unfit(inner net.Conn) (reason string) { return unfit(inner) }

// UnfitPacket is Unfit for what may lead to several peers.
func UnfitPacket(pc net.PacketConn) (reason string) { return unfit(pc) }

func unfit(inner interface{ LocalAddr() net.Addr }) (reason string) {
	if IsNil(inner) {
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
	if IsNil(inner) {
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

// NewBrokenListener returns a net.Listener whose Accept returns an error, always.
func NewBrokenListener(err error) net.Listener { return brokenListener{err} }

type brokenListener struct{ err error }

func (l brokenListener) Accept() (net.Conn, error) { return nil, l.err }
func (l brokenListener) Close() error              { return nil }
func (l brokenListener) Addr() net.Addr            { return noAddr{} }

// A noAddr is the address of nothing.
type noAddr struct{}

func (noAddr) Network() string { return "none" }
func (noAddr) String() string  { return "none" }
