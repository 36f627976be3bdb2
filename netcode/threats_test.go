package netcode

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestThreatDefaults states the numbers by which docs/THREATS.md bounds what
// others can make a server hold and believe.
func TestThreatDefaults(t *testing.T) {
	set, err := newSettings(nil)
	require.NoError(t, err)
	require.Equal(t, 2048, set.window)
	w := newReplayWindow(set.window)
	w.mark(10_000)
	require.False(t, w.check(10_000), "again")
	require.True(t, w.check(10_000-2047))
	require.False(t, w.check(10_000-2048), "older than the window")
	for _, clients := range []int{1, 4, 256} {
		s := newTestServer(func(c *serverConfig) { c.maxClients = clients })
		require.GreaterOrEqual(t, s.handshakes.max, 1024)
		require.GreaterOrEqual(t, s.history.max, 2048)
	}
	require.Equal(t, time.Second, refusalPatience)
	require.Equal(t, 10*time.Second, handshakeShare)
}
