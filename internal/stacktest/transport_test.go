package stacktest

import (
	"context"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"volley"
	"volley/netcode"
)

// TestTransportStats: a session passes on what the socket tells, and one on a
// socket that was given has the same fast path as one that was dialed.
func TestTransportStats(t *testing.T) {
	is := netcode.Issuer{PrivateKey: netcode.GenerateKey(), ProtocolID: 1}
	l, err := netcode.Listen("udp4", "127.0.0.1:0", is.PrivateKey, is.ProtocolID)
	require.NoError(t, err)
	defer l.Close()
	is.Servers = []netip.AddrPort{netip.MustParseAddrPort(l.Addr().String())}
	session := func(id uint64, pc net.PacketConn) (client, server *volley.Conn) {
		token, err := is.Issue(id, nil)
		require.NoError(t, err)
		var d netcode.Dialer
		var c *netcode.Conn
		if pc == nil {
			c, err = d.Dial(t.Context(), token)
		} else {
			c, err = d.DialOn(t.Context(), pc, token)
		}
		require.NoError(t, err)
		s, err := l.AcceptConn(t.Context())
		require.NoError(t, err)
		return newConn(c, nil), newConn(s, nil)
	}
	pc, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	require.NoError(t, err)
	var dialed volley.TransportStats
	for i, pc := range []net.PacketConn{nil, pc} {
		client, server := session(uint64(i+1), pc)
		batch := [][]byte{[]byte("one"), []byte("two"), []byte("ten")}
		_, err := client.WriteBatch(nil, batch)
		require.NoError(t, err)
		server.SetReadDeadline(time.Now().Add(30 * time.Second))
		for range batch {
			_, err = server.ReadMessage(context.Background(), nil)
			require.NoError(t, err)
		}
		server.Write([]byte("answer"))
		client.SetReadDeadline(time.Now().Add(30 * time.Second))
		_, err = client.ReadMessage(context.Background(), nil)
		require.NoError(t, err)
		for _, c := range []*volley.Conn{client, server} {
			s := c.Stats().Transport
			require.NotZero(t, s.ReadCalls)
			require.NotZero(t, s.SendCalls)
		}
		if s := client.Stats().Transport; pc == nil {
			dialed = s
		} else {
			require.Equal(t, dialed.SegmentedSend, s.SegmentedSend)
			require.Equal(t, dialed.SegmentedReceive, s.SegmentedReceive)
			require.Equal(t, dialed.ReadBuffer, s.ReadBuffer)
		}
		require.NoError(t, client.Close())
		require.NoError(t, server.Close())
	}
}
