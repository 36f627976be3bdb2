package interop

import (
	"net"
	"testing"
	"time"

	"github.com/pion/dtls/v3"
	dtlsnet "github.com/pion/dtls/v3/pkg/net"
	"github.com/stretchr/testify/require"

	"volley"
)

// Options of both sides of a DTLS connection.
var (
	dtlsKey   = dtls.WithPSK(func([]byte) ([]byte, error) { return []byte("a key that both sides know"), nil })
	dtlsHint  = dtls.WithPSKIdentityHint([]byte("interop"))
	dtlsSuite = dtls.WithCipherSuites(dtls.TLS_PSK_WITH_AES_128_GCM_SHA256)
)

// secure makes a DTLS connection of two ends, and shakes hands.
func secure(t *testing.T, a, b net.Conn) (client, server *dtls.Conn) {
	t.Helper()
	server, err := dtls.ServerWithOptions(dtlsnet.PacketConnFromConn(b), b.RemoteAddr(), dtlsKey, dtlsHint, dtlsSuite)
	require.NoError(t, err)
	t.Cleanup(func() { server.Close() })
	client, err = dtls.ClientWithOptions(dtlsnet.PacketConnFromConn(a), a.RemoteAddr(), dtlsKey, dtlsHint, dtlsSuite)
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

// DTLS protects the messages of a volley connection, as it would datagrams.
func TestDTLSOverVolley(t *testing.T) {
	a, b := pair(t, nil)
	client, server := secure(t, a, b)
	for _, size := range []int{1, 1200, 6000} {
		echo(t, client, server, size)
	}
}

// A volley connection runs within a DTLS connection, which carries its datagrams.
func TestVolleyOverDTLS(t *testing.T) {
	x, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	require.NoError(t, err)
	y, err := net.DialUDP("udp", nil, x.LocalAddr().(*net.UDPAddr))
	require.NoError(t, err)
	inner, outer := secure(t, y, peerOf{x, y.LocalAddr()})
	a, b := volley.NewConn(inner, nil), volley.NewConn(outer, nil)
	defer a.Close()
	defer b.Close()
	for _, c := range []*volley.Conn{a, b} {
		require.NoError(t, c.SetDeadline(time.Now().Add(patience)))
	}
	for _, size := range []int{1, 1200, 16384} {
		echo(t, a, b, size)
	}
}

// A peerOf is a socket that speaks to one address.
type peerOf struct {
	*net.UDPConn
	peer net.Addr
}

func (p peerOf) RemoteAddr() net.Addr           { return p.peer }
func (p peerOf) Write(b []byte) (int, error)    { return p.WriteTo(b, p.peer) }
func (p peerOf) Read(b []byte) (n int, _ error) { n, _, err := p.ReadFrom(b); return n, err }
