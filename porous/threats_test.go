package porous

import (
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"volley/internal/wire"
	"volley/porous/internal/core"
)

// TestThreatDefaults states the defaults by which docs/THREATS.md bounds what
// peers can make us hold.
func TestThreatDefaults(t *testing.T) {
	d := core.DefaultConfig(0)
	require.EqualValues(t, 4<<20, d.ReceiveBuffer)
	require.EqualValues(t, 4<<20, d.SendBuffer)
	l, err := (&ListenConfig{}).newListener()
	require.NoError(t, err)
	require.EqualValues(t, 256<<20, l.limits.budget.Limit())
	require.Equal(t, 131_072, l.maxConns)
}

// TestThreatRequests floods a Listener for a second from one host: 512 requests
// are looked at at once, and 512 in the second, each answered by 11 bytes as it
// has itself.
func TestThreatRequests(t *testing.T) {
	bubble(t, func(t *testing.T) {
		l, err := (&ListenConfig{}).newListener()
		require.NoError(t, err)
		request := core.AppendConnect(nil, core.Connect{Channels: 1, ID: 7})
		require.Len(t, request, 11)
		var out wire.Batch
		for i := range 1000 {
			for range 5 {
				from := netip.AddrPortFrom(netip.MustParseAddr("10.0.0.1"), uint16(i))
				require.Nil(t, (*acceptor)(l).HandleUnknown(time.Now(), from, false, [][]byte{request}, &out))
			}
			time.Sleep(time.Millisecond)
		}
		require.InDelta(t, 1024, out.Len(), 1)
		require.Equal(t, 11*out.Len(), out.Size())
		require.Zero(t, l.side.Conns())
	})
}
