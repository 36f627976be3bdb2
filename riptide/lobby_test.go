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
	require.Len(t, l.pending[overDatagrams].peers, 1)
	require.Nil(t, l.unanswered(start.Add(confirmAfter-1)))
	require.Equal(t, silent, l.unanswered(start.Add(confirmAfter)))
}

// There are as many clients as the lobby has ids: the last one comes in, and the
// next one when one has gone, with the id that has been free for the longest time.
func TestLobbyIDs(t *testing.T) {
	for _, most := range []int{1, 2, 7, maxMaxClients} {
		var l lobby
		l.init(most, most+1)
		for want := 1; want <= most; want++ {
			full := l.full()
			if id, ok := l.accept(new(Peer), start); full || !ok || int(id) != want {
				t.Fatalf("of %d clients the next one is %d, %v, full %v, want %d", most, id, ok, full, want)
			}
		}
		require.True(t, l.full())
		_, ok := l.accept(new(Peer), start)
		require.False(t, ok)
		for _, id := range []int{most, 1} {
			l.free(uint16(id))
		}
		for _, id := range []int{most, 1} {
			got, ok := l.accept(new(Peer), start)
			require.True(t, ok)
			require.EqualValues(t, id, got)
		}
		require.True(t, l.full())
	}
}

// No more clients are decided about at a time than the lobby may hold.
func TestLobbyPending(t *testing.T) {
	var l lobby
	l.init(10, 3)
	var ps [4]Peer
	for i := range ps {
		require.Equal(t, i < 3, l.enter(&ps[i]))
	}
	l.accept(&ps[0], start)
	require.False(t, l.enter(&ps[3]), "one that has not answered")
	l.connected(&ps[0])
	require.True(t, l.enter(&ps[3]))
}
