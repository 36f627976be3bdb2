package interop

import (
	"net"
	"testing"
	"time"

	"github.com/pion/dtls/v3"
	"github.com/stretchr/testify/require"

	"volley"
)

// Options of both sides of a DTLS connection.
var (
	dtlsKey   = dtls.WithPSK(func([]byte) ([]byte, error) { return []byte("a key that both sides know"), nil })
	dtlsHint  = dtls.WithPSKIdentityHint([]byte("interop"))
	dtlsSuite = dtls.WithCipherSuites(dtls.TLS_PSK_WITH_AES_128_GCM_SHA256)
)

// dtlsPair makes a DTLS connection on two sockets, and shakes hands.
func dtlsPair(t *testing.T, a, b net.PacketConn) (client, server *dtls.Conn) {
	t.Helper()
	server, err := dtls.ServerWithOptions(b, a.LocalAddr(), dtlsKey, dtlsHint, dtlsSuite)
	require.NoError(t, err)
	t.Cleanup(func() { server.Close() })
	client, err = dtls.ClientWithOptions(a, b.LocalAddr(), dtlsKey, dtlsHint, dtlsSuite)
	require.NoError(t, err)
	t.Cleanup(func() { client.Close() })
	result := make(chan error, 1)
	go func() { result <- server.HandshakeContext(t.Context()) }()
	require.NoError(t, client.HandshakeContext(t.Context()))
	done(t, result)
	return client, server
}

func echo(t *testing.T, client, server net.Conn, size int) {
	t.Helper()
	want := message(size)
	buf := make([]byte, size+1)
	_, err := client.Write(want)
	require.NoError(t, err)
	n, err := server.Read(buf)
	require.NoError(t, err)
	require.Equal(t, want, buf[:n])
	_, err = server.Write(buf[:n])
	require.NoError(t, err)
	clear(buf)
	n, err = client.Read(buf)
	require.NoError(t, err)
	require.Equal(t, want, buf[:n])
}

// DTLS protects the messages of a volley connection, which it takes for a socket.
func TestDTLSOverVolley(t *testing.T) {
	a, b := pair(t, nil)
	client, server := dtlsPair(t, a, b)
	for _, size := range []int{1, 1200, 6000} {
		echo(t, client, server, size)
	}
}

// A volley connection runs within a DTLS connection, which carries its datagrams.
func TestVolleyOverDTLS(t *testing.T) {
	x, err := net.ListenPacket("udp", "127.0.0.1:0")
	require.NoError(t, err)
	y, err := net.ListenPacket("udp", "127.0.0.1:0")
	require.NoError(t, err)
	inner, outer := dtlsPair(t, x, y)
	a, err := volley.NewConn(inner, nil)
	require.NoError(t, err)
	b, err := volley.NewConn(outer, nil)
	require.NoError(t, err)
	defer a.Close()
	defer b.Close()
	for _, c := range []*volley.Conn{a, b} {
		require.NoError(t, c.SetDeadline(time.Now().Add(patience)))
	}
	for _, size := range []int{1, 1200, 16384} {
		echo(t, a, b, size)
	}
}
