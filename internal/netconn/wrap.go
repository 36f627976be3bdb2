package netconn

import (
	"net"
	"reflect"
	"strings"
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
