package secure

import (
	"bytes"
	"context"
	"net"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"volley/internal/sideband"
	"volley/netcode"
	"volley/simnet"
)

// copySpare returns a copy of a spare token, as a thief of the client's memory has it.
func copySpare(t *testing.T, c *Conn, i int) *netcode.Token {
	t.Helper()
	c.roamer.mu.Lock()
	defer c.roamer.mu.Unlock()
	require.Greater(t, len(c.roamer.spares), i)
	packed := *c.roamer.spares[i].packed
	tok, ok := (&spare{packed: &packed}).token(c.roamer.protocol, netip.MustParseAddrPort(simServer))
	require.True(t, ok)
	return tok
}

// show tries to get in by a token for a while.
func (w *world) show(t *testing.T, tok *netcode.Token) (*netcode.Conn, error) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	pc, err := w.net.Listen("10.6.6.6:0")
	require.NoError(t, err)
	var cfg netcode.Config
	sideband.OwnMove(&cfg, newRoamer(w.dialer(), address{}))
	d := netcode.Dialer{Config: &cfg}
	return d.DialOn(ctx, pc, tok)
}

// An attacker beside the path shows copies of the requests of a move first, and so burns both spare
// tokens. The client goes on by a token over TCP: the attack costs three seconds, and no seat.
func TestCopiedMoves(t *testing.T) {
	inWorld(t, simnet.Link{Latency: 5 * time.Millisecond}, func(t *testing.T, w *world) {
		nat := w.behindNAT(t)
		l := w.listen(t, &ListenConfig{Authorize: player})
		attacker, err := w.net.Listen("10.6.6.6:666")
		require.NoError(t, err)
		to := net.UDPAddrFromAddrPort(netip.MustParseAddrPort(simServer))
		var mu sync.Mutex
		burnt := map[string]bool{}
		attack := false
		d := w.tap(func(b []byte) {
			mu.Lock()
			burns := attack && len(b) > 1000 && !burnt[string(b)] && len(burnt) < 2
			if burns {
				burnt[string(b)] = true
				attacker.WriteTo(b, to)
			}
			mu.Unlock() // or the time of the bubble stands still for another writer
			if burns {
				time.Sleep(10 * time.Millisecond)
			}
		})
		client, err := d.Dial(t.Context(), l.URL("10.0.0.1"))
		require.NoError(t, err)
		server, err := l.AcceptConn(t.Context())
		require.NoError(t, err)
		go echo(server)
		time.Sleep(time.Second)
		mu.Lock()
		attack = true
		mu.Unlock()
		nat.Rebind()
		k := talkFor(client, 100*time.Millisecond, 6*time.Second)
		require.Len(t, burnt, 2)
		require.Less(t, k.gap, 3*time.Second)
		require.NoError(t, client.Err())
		require.Equal(t, 1, l.Stats().Conns)
		require.EqualValues(t, 1, server.Stats().Moves)
		attacker.SetReadDeadline(time.Now().Add(time.Second))
		n, _, err := attacker.ReadFrom(make([]byte, 2000))
		require.NoError(t, err)
		require.Less(t, n, 400, "a challenge, which only the client can answer")
		attacker.Close()
		client.Close()
		synctest.Wait()
		require.NoError(t, l.Close())
		time.Sleep(time.Minute)
	})
}

// What was recorded of moves changes nothing when it is shown again, from the same address or
// another one, and is not answered.
func TestReplayedMoves(t *testing.T) {
	inWorld(t, simnet.Link{Latency: 5 * time.Millisecond}, func(t *testing.T, w *world) {
		l := w.listen(t, &ListenConfig{})
		var mu sync.Mutex
		var recorded [][]byte
		client, err := w.tap(func(b []byte) {
			mu.Lock()
			recorded = append(recorded, bytes.Clone(b))
			mu.Unlock()
		}).Dial(t.Context(), l.URL("10.0.0.1"))
		require.NoError(t, err)
		server, err := l.AcceptConn(t.Context())
		require.NoError(t, err)
		go echo(server)
		var left []string
		for range 3 {
			time.Sleep(time.Second)
			left = append(left, client.LocalAddr().String())
			require.NoError(t, client.Rebind(t.Context()))
		}
		time.Sleep(time.Second)
		for _, from := range append(left, "10.6.6.6:666") {
			attacker, err := w.net.Listen(from)
			require.NoError(t, err)
			mu.Lock()
			all := recorded
			mu.Unlock()
			for _, b := range all {
				attacker.WriteTo(b, net.UDPAddrFromAddrPort(netip.MustParseAddrPort(simServer)))
				time.Sleep(5 * time.Millisecond)
			}
			attacker.SetReadDeadline(time.Now().Add(time.Second))
			_, _, err = attacker.ReadFrom(make([]byte, 2000))
			require.Error(t, err, "it is answered")
			attacker.Close()
		}
		require.EqualValues(t, 3, server.Stats().Moves)
		require.Equal(t, client.LocalAddr().String(), server.RemoteAddr().String())
		k := talkFor(client, 100*time.Millisecond, time.Second)
		require.Equal(t, k.sent, k.heard)
		client.Close()
		synctest.Wait()
		require.NoError(t, l.Close())
	})
}

// Of two holders of a spare token one moves the session. The other gets nothing, and no second seat.
func TestTwoHoldersOfASpare(t *testing.T) {
	inWorld(t, simnet.Link{Latency: 5 * time.Millisecond}, func(t *testing.T, w *world) {
		l := w.listen(t, &ListenConfig{})
		client, server := w.connect(t, l)
		go echo(server)
		time.Sleep(time.Second)
		stolen := copySpare(t, client, 0)
		later := copySpare(t, client, 1)
		require.NoError(t, client.Rebind(t.Context()))
		_, err := w.show(t, stolen)
		require.Error(t, err)
		require.EqualValues(t, 1, server.Stats().Moves)
		require.Equal(t, 1, l.Stats().Conns)

		// By the next one, a thief has the session for a moment: the client takes it back.
		time.Sleep(time.Second)
		thief, err := w.show(t, later)
		require.NoError(t, err)
		require.Equal(t, 1, l.Stats().Conns, "one seat")
		k := talkFor(client, 100*time.Millisecond, 4*time.Second)
		require.NoError(t, client.Err())
		require.Less(t, k.gap, 2500*time.Millisecond)
		require.EqualValues(t, 3, server.Stats().Moves)
		require.Equal(t, client.LocalAddr().String(), server.RemoteAddr().String())
		_, err = thief.Write([]byte("mine"))
		require.NoError(t, err)
		time.Sleep(time.Second)
		require.Equal(t, client.LocalAddr().String(), server.RemoteAddr().String())
		thief.Close()
		client.Close()
		synctest.Wait()
		require.NoError(t, l.Close())
		time.Sleep(time.Minute)
	})
}

// After a kick, the spare tokens of a client are void.
func TestKickVoidsSpares(t *testing.T) {
	inWorld(t, simnet.Link{Latency: 5 * time.Millisecond}, func(t *testing.T, w *world) {
		l := w.listen(t, &ListenConfig{Authorize: player})
		client, server := w.connect(t, l)
		time.Sleep(time.Second)
		kept := []*netcode.Token{copySpare(t, client, 0), copySpare(t, client, 1)}
		require.NoError(t, server.CloseWithReason("cheating"))
		synctest.Wait()
		time.Sleep(time.Second)
		var ce *CloseError
		require.ErrorAs(t, client.Err(), &ce)
		require.Equal(t, "cheating", ce.Reason)
		_, err := client.Next(t.Context())
		require.ErrorAs(t, err, &ce)
		for _, tok := range kept {
			_, err := w.show(t, tok)
			require.Error(t, err)
		}
		require.Zero(t, l.Stats().Conns)
		client.Close()
		require.NoError(t, l.Close())
	})
}

// A full server, whose history of tokens is full, too, still lets a session move.
func TestFullServerMoves(t *testing.T) {
	inWorld(t, simnet.Link{Latency: 5 * time.Millisecond}, func(t *testing.T, w *world) {
		nat := w.behindNAT(t)
		l := w.listen(t, &ListenConfig{Sessions: &netcode.ListenConfig{MaxClients: 1}})
		client, server := w.connect(t, l)
		go echo(server)
		time.Sleep(time.Second)
		l.service.shares.max = 1 << 20
		attacker, err := w.net.Listen("10.6.6.6:666")
		require.NoError(t, err)
		public := netip.MustParseAddrPort(simServer)
		for l.Stats().Drops["history_full"] == 0 {
			tok, err := l.keys.issue(&ticket{session: newSessionID(), generation: 1}, public, tokenLifetime)
			require.NoError(t, err)
			b, err := tok.MarshalBinary()
			require.NoError(t, err)
			attacker.WriteTo(requestOf(b), net.UDPAddrFromAddrPort(public))
			synctest.Wait()
			require.Less(t, l.Stats().Tokens, minHistory*3/4+1)
			time.Sleep(time.Millisecond)
		}
		nat.Rebind()
		k := talkFor(client, 100*time.Millisecond, 2*time.Second)
		require.Less(t, k.gap, time.Second)
		require.EqualValues(t, 1, server.Stats().Moves)
		attacker.Close()
		client.Close()
		synctest.Wait()
		require.NoError(t, l.Close())
	})
}

// requestOf returns the request of netcode 1.02 for a token in its wire form.
func requestOf(b []byte) []byte {
	const version, created, nonce, private = 13, 8, 24, 1024
	r := append([]byte{0}, b[:version+8]...) // and the protocol
	r = append(r, b[version+8+created:version+8+created+8]...)
	return append(r, b[version+8+created+8:version+8+created+8+nonce+private]...)
}

// A client gets four spare tokens at once, and then four a second: what it asks for costs the server
// no more.
func TestSparesAreBounded(t *testing.T) {
	inWorld(t, simnet.Link{}, func(t *testing.T, w *world) {
		l := w.listen(t, &ListenConfig{})
		client, server := w.connect(t, l)
		time.Sleep(10 * time.Second)
		given := func() uint64 {
			l.seats.mu.Lock()
			defer l.seats.mu.Unlock()
			return server.issued
		}
		before := given()
		for range 1000 {
			sideband.Of(client.Conn).Send([]byte{controlWant, wantElsewhere})
			time.Sleep(10 * time.Millisecond)
		}
		require.InDelta(t, 4+40, given()-before, 1)
		client.Close()
		server.Close()
		require.NoError(t, l.Close())
	})
}

// A session moves twice a second at most, however many tokens its client shows.
func TestPaceOfMoves(t *testing.T) {
	inWorld(t, simnet.Link{Latency: time.Millisecond}, func(t *testing.T, w *world) {
		l := w.listen(t, &ListenConfig{})
		client, server := w.connect(t, l)
		go echo(server)
		time.Sleep(time.Second)
		begin := time.Now()
		for range 10 {
			require.NoError(t, client.Rebind(t.Context()))
			time.Sleep(300 * time.Millisecond) // for the next spare token
		}
		require.GreaterOrEqual(t, time.Since(begin), 9*movePace)
		require.EqualValues(t, 10, server.Stats().Moves)
		client.Close()
		synctest.Wait()
		require.NoError(t, l.Close())
	})
}

// A move takes no place in the history of tokens, because the token is refused by its generation.
func TestMovesTakeNoPlaces(t *testing.T) {
	inWorld(t, simnet.Link{Latency: time.Millisecond}, func(t *testing.T, w *world) {
		l := w.listen(t, &ListenConfig{})
		client, server := w.connect(t, l)
		go echo(server)
		var spent []*netcode.Token
		for range 10 {
			time.Sleep(time.Second)
			spent = append(spent, copySpare(t, client, 0))
			require.NoError(t, client.Rebind(t.Context()))
		}
		require.Equal(t, 1, l.Stats().Tokens, "that of the login")
		for _, tok := range spent {
			_, err := w.show(t, tok)
			require.Error(t, err)
		}
		require.EqualValues(t, 10, server.Stats().Moves)
		client.Close()
		synctest.Wait()
		require.NoError(t, l.Close())
	})
}

// A client that shows its tokens and makes no session of them has eight places at most.
func TestShownSparesAreBounded(t *testing.T) {
	inWorld(t, simnet.Link{}, func(t *testing.T, w *world) {
		l := w.listen(t, &ListenConfig{})
		client, server := w.connect(t, l)
		go echo(server)
		time.Sleep(time.Second)
		attacker, err := w.net.Listen("10.6.6.6:666")
		require.NoError(t, err)
		public := netip.MustParseAddrPort(simServer)
		show := func() {
			for range 3 * maxShown {
				ticket, err := l.seats.next(server, nil)
				require.NoError(t, err)
				tok, err := l.keys.issue(&ticket, public, spareLifetime)
				require.NoError(t, err)
				b, err := tok.MarshalBinary()
				require.NoError(t, err)
				for range 2 {
					attacker.WriteTo(requestOf(b), net.UDPAddrFromAddrPort(public))
					synctest.Wait()
				}
			}
		}
		show()
		require.Equal(t, 1+maxShown, l.Stats().Tokens)
		refused := l.Stats().Drops["token_used"]
		time.Sleep(time.Second)
		show()
		require.Equal(t, 1+maxShown, l.Stats().Tokens)
		require.Equal(t, refused+2*3*maxShown, l.Stats().Drops["token_used"])
		time.Sleep(spareLifetime)
		require.NoError(t, client.Rebind(t.Context()), "those have expired")
		attacker.Close()
		client.Close()
		synctest.Wait()
		require.NoError(t, l.Close())
		time.Sleep(time.Minute)
	})
}

// A session that another server has handed over begins once, whichever of its tokens comes, also
// after it has moved.
func TestHandedTokensOpenOnce(t *testing.T) {
	inWorld(t, simnet.Link{Latency: time.Millisecond}, func(t *testing.T, w *world) {
		l := w.listen(t, &ListenConfig{})
		var tokens []*netcode.Token
		session := newSessionID()
		for generation := range uint64(3) {
			handed := ticket{session: session, generation: 5 + generation, handed: true}
			tok, err := l.keys.issue(&handed, netip.MustParseAddrPort(simServer), spareLifetime)
			require.NoError(t, err)
			tokens = append(tokens, tok)
		}
		show := func(i int) error {
			b, err := tokens[i].MarshalBinary()
			require.NoError(t, err)
			copied := new(netcode.Token)
			require.NoError(t, copied.UnmarshalBinary(b))
			_, err = w.show(t, copied)
			return err
		}
		at := func() *Conn {
			l.seats.mu.Lock()
			defer l.seats.mu.Unlock()
			return l.seats.sessions[session]
		}
		require.NoError(t, show(0))
		server := at()
		time.Sleep(time.Second)
		require.NoError(t, show(1))
		require.EqualValues(t, 1, server.Stats().Moves)
		server.Close()
		for i := range 2 {
			require.Error(t, show(i), "token %d", i)
		}
		require.NoError(t, show(2), "it is at the other server again, and comes back")
		at().Close()

		// Another one has begun here, and only moves by such a token.
		client, own := w.connect(t, l)
		session = own.session
		handed := ticket{session: session, generation: own.issued + 10, handed: true}
		tok, err := l.keys.issue(&handed, netip.MustParseAddrPort(simServer), spareLifetime)
		require.NoError(t, err)
		tokens[0] = tok
		require.NoError(t, show(0))
		client.Close()
		own.Close()
		require.Error(t, show(0))
		require.NoError(t, l.Close())
		time.Sleep(time.Minute)
	})
}
