package netcode

import (
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"volley/simnet"
)

// TestRedundantDisconnects: a client that goes says so ten times, and none of that
// counts as trouble. What nobody has announced does.
func TestRedundantDisconnects(t *testing.T) {
	bubble(t, simnet.Link{Latency: 10 * time.Millisecond}, func(t *testing.T, n *simnet.Network) {
		l := simListen(t, n, nil)
		defer l.Close()
		stray := make([]byte, 30)
		stray[0] = byte(packetDisconnect) | 8<<4
		for round := range 3 {
			c, server := simPair(t, n, l, uint64(round+1))
			local := c.LocalAddr()
			require.NoError(t, c.Close())
			defer server.Close()
			time.Sleep(time.Second)
			s := l.Stats()
			require.EqualValues(t, 2*round, total(s.Drops), "%v", s.Drops)

			again, err := n.Listen(local.String())
			require.NoError(t, err)
			other, err := n.Listen("10.6.6.6:6")
			require.NoError(t, err)
			_, err = again.WriteTo(stray, l.Addr())
			require.NoError(t, err)
			_, err = other.WriteTo(stray, l.Addr())
			require.NoError(t, err)
			time.Sleep(time.Second)
			require.EqualValues(t, 2*round+2, l.Stats().Drops[dropNoHandshake.String()])
			again.Close()
			other.Close()
		}
	})
}

// TestDepartedIsBounded: addresses that have gone are few, and other datagrams of
// theirs are none of the nine.
func TestDepartedIsBounded(t *testing.T) {
	var d departed
	bye := []byte{byte(packetDisconnect) | 8<<4}
	addr := func(i int) netip.AddrPort {
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}), 1)
	}
	require.False(t, d.takes(addr(0), bye))
	for i := range 10 * maxDeparted {
		d.add(addr(i))
		require.LessOrEqual(t, len(d.expect), maxDeparted)
	}
	last := addr(10*maxDeparted - 1)
	require.False(t, d.takes(last, nil))
	require.False(t, d.takes(last, []byte{byte(packetPayload) | 8<<4}))
	for range disconnectPackets - 1 {
		require.True(t, d.takes(last, bye))
	}
	require.False(t, d.takes(last, bye))
}
