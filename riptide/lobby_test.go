package riptide

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestLobbyForgets: nothing is kept of clients that have come and gone, however
// many, and though one of the first never answers and the server is never full.
func TestLobbyForgets(t *testing.T) {
	var l lobby
	l.init(64, 256)
	come := func(now time.Time) *Peer {
		p := new(Peer)
		require.True(t, l.enter(p))
		var ok bool
		p.id, ok = l.accept(p, now)
		require.True(t, ok)
		return p
	}
	silent := come(start)
	for i := range 100_000 {
		p := come(start.Add(time.Duration(i)))
		if i%3 > 0 {
			l.connected(p)
		}
		require.Equal(t, i%3 > 0, l.left(p) == stageConnected)
		l.free(p.id)
	}
	require.Equal(t, 1, len(l.called))
	require.LessOrEqual(t, cap(l.called)+cap(l.freed), 256)
	require.Len(t, l.peers, 1)
	require.Equal(t, 1, l.pending)
	require.Nil(t, l.unanswered(start.Add(confirmAfter-1)))
	require.Equal(t, silent, l.unanswered(start.Add(confirmAfter)))
}
