package volley

import (
	"net"
	"reflect"
	"strings"
)

// streamNetwork returns the network of a connection that is certainly a stream,
// and "" for others. It tells by the address, which wrappers pass on, and by the
// type where that says it whatever is below.
func streamNetwork(inner interface{ LocalAddr() net.Addr }) string {
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
