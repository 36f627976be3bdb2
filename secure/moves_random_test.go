package secure

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"volley/internal/handover"
	"volley/internal/testenv"
	"volley/simnet"
)

// The links between a client and three servers break, and become slow and fast, at any time, so
// that each step of a move meets each step of others. The client always has a session in the end.
func TestMovesAtRandom(t *testing.T) {
	moved, anew := 0, 0
	for seed := range uint64(testenv.Sized(30, 3000)) {
		inWorld(t, goodLink, func(t *testing.T, w *world) {
			f := newTrio(t, w, seed)
			defer f.stop()
			for end := time.Now().Add(20 * time.Second); time.Now().Before(end); {
				time.Sleep(time.Duration(f.random.Int64N(int64(time.Second))))
				link := simnet.Link{Latency: time.Duration(1+f.random.IntN(1<<f.random.IntN(10))) * time.Millisecond}
				if f.random.IntN(2) == 0 {
					link.Loss = 1
				}
				f.setLink(f.random.IntN(3), link, f.random.IntN(3) > 0, f.random.IntN(3) > 0)
			}
			f.setLinks(goodLink)
			time.Sleep(40 * time.Second)
			m, a := f.check(t, seed)
			moved, anew = moved+m, anew+a
		})
	}
	t.Logf("%d moves, %d sessions anew", moved, anew)
}

// A client that has moved once, and whose network is away for some seconds later, reaches its own
// server and another one again at the same moment. Its session goes on at one of them.
func TestOutageOfClient(t *testing.T) {
	for seed := range uint64(testenv.Sized(50, 2000)) {
		inWorld(t, goodLink, func(t *testing.T, w *world) {
			f := newTrio(t, w, seed)
			defer f.stop()
			time.Sleep(2*time.Second + time.Duration(f.random.Int64N(int64(100*time.Second))))
			if seed%2 == 1 {
				for c := range f.servers[0].all() {
					(&seat{c, f.servers[0]}).Go(true)
				}
				time.Sleep(2 * time.Second)
				moved, _ := f.check(t, seed)
				require.Equal(t, 1, moved)
			}
			c := f.now()
			require.NoError(t, c.Rebind(t.Context()))
			c.roamer.mu.Lock()
			require.Zero(t, c.roamer.shown)
			c.roamer.mu.Unlock()
			time.Sleep(time.Second + time.Duration(f.random.Int64N(int64(100*time.Second))))
			f.setLinks(simnet.Link{Loss: 1})
			f.hs.away.Store(true)
			time.Sleep(time.Second + time.Duration(f.random.Int64N(int64(8*time.Second))))
			f.hs.away.Store(false)
			f.setLinks(goodLink)
			time.Sleep(40 * time.Second)
			_, anew := f.check(t, seed)
			require.Zero(t, anew, "seed %d", seed)
		})
	}
}

// The same where the server of the spare token is gone, and the URL leads to a third one: the client
// has a token of that when its network is back, and its own server takes a token at the same moment.
func TestOutageBesideURL(t *testing.T) {
	for seed := range uint64(testenv.Sized(50, 2000)) {
		inWorld(t, goodLink, func(t *testing.T, w *world) {
			f := newTrio(t, w, seed)
			defer f.stop()
			time.Sleep(time.Second)
			for c := range f.servers[0].all() {
				give(t, f.servers[0], c, f.servers[1])
				(&seat{c, f.servers[0]}).Go(true)
			}
			time.Sleep(time.Second)
			for c := range f.servers[1].all() {
				give(t, f.servers[1], c, f.servers[2])
			}
			time.Sleep(time.Second)
			f.setLinks(simnet.Link{Loss: 1})
			time.Sleep(4500*time.Millisecond + time.Duration(f.random.Int64N(int64(3*time.Second))))
			f.setLink(0, goodLink, true, true)
			f.setLink(1, goodLink, true, true)
			time.Sleep(40 * time.Second)
			_, anew := f.check(t, seed)
			require.Zero(t, anew, "seed %d", seed)
		})
	}
}

// A spare token for another server that has expired is as good as none.
func TestExpiredTokenElsewhere(t *testing.T) {
	r := &roamer{other: &elsewhere{spare: spare{generation: 7, since: time.Now().Add(time.Second - spareLifetime)}}}
	require.EqualValues(t, 7, r.generationElsewhere())
	require.Equal(t, shortStep, r.step())
	r.other.since = r.other.since.Add(-time.Second)
	require.Zero(t, r.generationElsewhere())
	require.Equal(t, moveStep, r.step())
	require.Equal(t, errNoWay, r.goElsewhere(t.Context()))
}

// A token of a session that has gone elsewhere since the client's request makes no session.
func TestTokenOfSessionThatLeaves(t *testing.T) {
	inWorld(t, simnet.Link{Latency: 100 * time.Millisecond}, func(t *testing.T, w *world) {
		l := w.listen(t, &ListenConfig{})
		client, server := w.connect(t, l)
		time.Sleep(time.Second)
		s, ok := client.roamer.takeSpare()
		require.True(t, ok)
		time.AfterFunc(250*time.Millisecond, func() { // between the challenge and the answer to it
			handover.Of(l).Yield(server.session, 100)
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, client.roamer.moveBySpare(ctx, &s), context.DeadlineExceeded)
		require.NoError(t, client.Err())
		client.Close()
		require.NoError(t, l.Close())
	})
}

// A client hears no end of its session by a token that was overtaken.
func TestOvertakenToken(t *testing.T) {
	inWorld(t, goodLink, func(t *testing.T, w *world) {
		l := w.listen(t, &ListenConfig{})
		client, server := w.connect(t, l)
		defer client.Close()
		require.True(t, (*accepted)(l).move(server.Conn, &ticket{session: sessionID{1}, generation: 7}))
		time.Sleep(100 * time.Millisecond)
		require.NoError(t, client.Err())
		client.Close()
		require.NoError(t, l.Close())
	})
}
