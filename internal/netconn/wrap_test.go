package netconn

import (
	"crypto/tls"
	"net"
	"testing"

	"github.com/stretchr/testify/require"
)

// An addrConn is a connection of which nothing is known but its address. It is no
// pointer, as those of a wrapper may be.
type addrConn struct {
	net.Conn
	local net.Addr
}

func (c addrConn) LocalAddr() net.Addr { return c.local }

// A netAddr has a network and an address.
type netAddr struct{ network, text string }

func (a netAddr) Network() string { return a.network }
func (a netAddr) String() string  { return a.text }

// Streams are told by their addresses, TLS by its type, and what cannot be told is
// let pass.
func TestUnfit(t *testing.T) {
	a, b := net.Pipe()
	defer a.Close()
	defer b.Close()
	at := func(network, text string) net.Conn { return addrConn{local: netAddr{network, text}} }
	for _, test := range []struct {
		name   string
		inner  net.Conn
		stream string
	}{
		{"TCP", at("tcp", "10.0.0.1:1"), "tcp"},
		{"TCP over IPv6", at("tcp6", "[::1]:1"), "tcp6"},
		{"a wrapper of TCP", &addrConn{local: &net.TCPAddr{}}, "tcp"},
		{"a Unix socket", at("unix", "/tmp/x"), "unix"},
		{"a Unix socket of packets", at("unixpacket", "/tmp/x"), ""},
		{"UDP", at("udp", "10.0.0.1:1"), ""},
		{"no network", at("", ""), ""},
		{"net.Pipe", a, "net.Pipe"},
		{"a pipe of messages", at("pipe", "pipe 1"), ""},
		{"an address that only looks like a pipe's", at("udp", "pipe"), ""},
		{"no address", addrConn{}, ""},
		{"TLS", tls.Client(at("udp", "10.0.0.1:1"), &tls.Config{}), "TLS"},
	} {
		require.Equal(t, test.stream, Stream(test.inner), test.name)
		want := ""
		if test.stream != "" {
			want = "a " + test.stream + " connection does not preserve message boundaries"
		}
		require.Equal(t, want, Unfit(test.inner), test.name)
	}
	require.Equal(t, "it is nil", Unfit(nil))
}

// A missing argument is told by its value.
func TestNothing(t *testing.T) {
	for _, nothing := range []any{nil, (*net.UDPConn)(nil), net.Conn(nil), (*addrConn)(nil)} {
		require.True(t, IsNil(nothing), "%T", nothing)
	}
	for _, something := range []any{0, addrConn{}, new(net.UDPConn), func() {}} {
		require.False(t, IsNil(something), "%T", something)
	}
	require.Equal(t, "it is nil", Unfit((*net.UDPConn)(nil)))
	require.Equal(t, "it is nil", Unfit((*net.UDPConn)(nil)))
	require.Equal(t, "it is nil", Unfit(nil))
}
