package secure

import (
	"context"
	"net/http"
	"net/netip"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"volley/internal/handover"
	"volley/internal/testenv"
	"volley/netcode"
	"volley/simnet"
)

// A server that is about to stop sends its clients to another one, with what it knows of them.
func TestDrain(t *testing.T) {
	inWorld(t, simnet.Link{Latency: 20 * time.Millisecond}, func(t *testing.T, w *world) {
		hs := new(hosts)
		lc := ListenConfig{KeyFile: filepath.Join(t.TempDir(), "key")}
		lc2 := lc
		lc.Authorize = func(*http.Request) (*Grant, error) { return &Grant{ClientID: 7, Identity: []byte("ann")}, nil }
		a := hs.add(t, w, "10.0.0.1:7777", &lc)
		b := hs.add(t, w, "10.0.0.2:7777", &lc2)
		client, err := hs.dialer(w).Dial(t.Context(), a.URL("10.0.0.1"))
		require.NoError(t, err)
		server, err := a.AcceptConn(t.Context())
		require.NoError(t, err)
		_, resumed := server.Resumed()
		require.False(t, resumed)
		_, err = server.Write([]byte("last words"))
		require.NoError(t, err)
		begin := time.Now()
		require.NoError(t, a.Drain(t.Context(), b.URL("10.0.0.2"), func(c *Conn) []byte { return append([]byte("level 3 of "), c.Identity()...) }))
		require.Less(t, time.Since(begin), time.Second)
		require.Equal(t, ErrMoved, server.Err())
		require.NoError(t, a.Close())

		msg := make([]byte, 100)
		n, err := client.Read(msg)
		require.NoError(t, err)
		require.Equal(t, "last words", string(msg[:n]))
		_, err = client.Read(msg)
		require.ErrorIs(t, err, ErrMoved)
		next, err := client.Next(t.Context())
		require.NoError(t, err)
		there, err := b.AcceptConn(t.Context())
		require.NoError(t, err)
		state, resumed := there.Resumed()
		require.True(t, resumed)
		require.Equal(t, "level 3 of ann", string(state))
		require.Equal(t, "ann", string(there.Identity()))
		require.EqualValues(t, 7, there.ClientID())
		go echo(there)
		time.Sleep(time.Second)
		require.NoError(t, next.Rebind(t.Context()), "the new server gives spare tokens, too")
		k := talkFor(next, 100*time.Millisecond, time.Second)
		require.Equal(t, k.sent, k.heard)
		next.Close()
		synctest.Wait()
		require.NoError(t, b.Close())
	})
}

// A client that does not ask for the session that follows leaves none at the other server.
func TestNextLapses(t *testing.T) {
	inWorld(t, simnet.Link{Latency: 20 * time.Millisecond}, func(t *testing.T, w *world) {
		hs := new(hosts)
		lc := ListenConfig{KeyFile: filepath.Join(t.TempDir(), "key")}
		lc2 := lc
		a, b := hs.add(t, w, "10.0.0.1:7777", &lc), hs.add(t, w, "10.0.0.2:7777", &lc2)
		var clients []*Conn
		for range 2 {
			c, err := hs.dialer(w).Dial(t.Context(), a.URL("10.0.0.1"))
			require.NoError(t, err)
			clients = append(clients, c)
		}
		time.Sleep(time.Second)
		require.NoError(t, a.Drain(t.Context(), b.URL("10.0.0.2"), nil))
		require.NoError(t, a.Close())
		next, err := clients[0].Next(t.Context())
		require.NoError(t, err)
		time.Sleep(nextTime - time.Second)
		require.Equal(t, 2, b.Stats().Conns)
		time.Sleep(2 * time.Second)
		require.Equal(t, 1, b.Stats().Conns)
		require.NoError(t, next.Err(), "somebody has asked for it")
		again, err := clients[0].Next(t.Context())
		require.NoError(t, err)
		require.Equal(t, next, again)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		_, err = clients[1].Next(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded, "it dials its URL again, in vain")
		next.Close()
		synctest.Wait()
		require.NoError(t, b.Close())
	})
}

// A server with another key gets no clients.
func TestDrainToStranger(t *testing.T) {
	inWorld(t, simnet.Link{}, func(t *testing.T, w *world) {
		hs := new(hosts)
		a := hs.add(t, w, "10.0.0.1:7777", &ListenConfig{})
		b := hs.add(t, w, "10.0.0.2:7777", &ListenConfig{})
		client, err := hs.dialer(w).Dial(t.Context(), a.URL("10.0.0.1"))
		require.NoError(t, err)
		_, err = a.AcceptConn(t.Context())
		require.NoError(t, err)
		err = a.Drain(t.Context(), b.URL("10.0.0.2"), nil)
		require.ErrorContains(t, err, "another key")
		require.NoError(t, client.Err())
		other, err := hs.dialer(w).Dial(t.Context(), a.URL("10.0.0.1"))
		require.NoError(t, err, "the server did not stop, so that clients can come")
		other.Close()
		client.Close()
		require.NoError(t, a.Close())
		require.NoError(t, b.Close())
		time.Sleep(2 * time.Second) // the pipe in place of TCP ends
	})
}

// After a restart, and after a death that nobody tells of, a client dials again.
func TestNextAfterRestart(t *testing.T) {
	for _, planned := range []bool{true, false} {
		inWorld(t, simnet.Link{Latency: 20 * time.Millisecond}, func(t *testing.T, w *world) {
			hs := new(hosts)
			key := filepath.Join(t.TempDir(), "key")
			a := hs.add(t, w, "10.0.0.1:7777", &ListenConfig{KeyFile: key})
			d := hs.dialer(w)
			client, err := d.Dial(t.Context(), a.URL("10.0.0.1"))
			require.NoError(t, err)
			go echo(client)
			server, err := a.AcceptConn(t.Context())
			require.NoError(t, err)
			time.Sleep(time.Second)
			if planned {
				require.NoError(t, a.Drain(t.Context(), "", nil))
				require.NoError(t, a.Close())
			} else {
				w.net.SetDefault(simnet.Link{Loss: 1})
				server.Close()
				a.Close()
				time.Sleep(time.Second)
				w.net.SetDefault(simnet.Link{Latency: 20 * time.Millisecond})
			}
			hs.at.Delete("10.0.0.1:7777")
			started := make(chan *Listener, 1)
			time.AfterFunc(300*time.Millisecond, func() { started <- hs.add(t, w, "10.0.0.1:7777", &ListenConfig{KeyFile: key}) })
			begin := time.Now()
			next, err := client.Next(t.Context())
			require.NoError(t, err)
			require.Less(t, time.Since(begin), 4*time.Second)
			t.Log(time.Since(begin), client.Err())
			if planned {
				require.Equal(t, ErrMoved, client.Err())
			}
			next.Close()
			synctest.Wait()
			require.NoError(t, (<-started).Close())
		})
	}
}

// A server that sends a thousand clients away, which talk at 10 Hz, interrupts none for 250 ms, in
// 99 of 100 cases. Each is at the other server then, once.
func TestDrainMany(t *testing.T) {
	n := testenv.Sized(100, 1000)
	inWorld(t, simnet.Link{Latency: 10 * time.Millisecond}, func(t *testing.T, w *world) {
		hs := new(hosts)
		key := filepath.Join(t.TempDir(), "key")
		a := hs.add(t, w, "10.0.0.1:7777", &ListenConfig{KeyFile: key})
		b := hs.add(t, w, "10.0.0.2:7777", &ListenConfig{KeyFile: key})
		d := hs.dialer(w)
		var mu sync.Mutex
		var longest []time.Duration
		var wg sync.WaitGroup
		talk := func(c *Conn) {
			defer wg.Done()
			var gap time.Duration
			last := time.Now()
			for moved := 0; ; moved++ {
				go func(c *Conn) {
					for c.Err() == nil {
						c.Write([]byte("hello"))
						time.Sleep(100 * time.Millisecond)
					}
				}(c)
				buf := make([]byte, 100)
				for {
					if _, err := c.Read(buf); err != nil {
						break
					}
					gap = max(gap, time.Since(last))
					last = time.Now()
				}
				if c.Err() != ErrMoved {
					mu.Lock()
					longest = append(longest, gap)
					mu.Unlock()
					return
				}
				next, err := c.Next(context.Background())
				if err != nil {
					panic(err)
				}
				c = next
			}
		}
		for range n {
			c, err := d.Dial(t.Context(), a.URL("10.0.0.1"))
			require.NoError(t, err)
			s, err := a.AcceptConn(t.Context())
			require.NoError(t, err)
			go echo(s)
			wg.Add(1)
			go talk(c)
		}
		go echoAll(b)
		time.Sleep(time.Second)
		begin := time.Now()
		require.NoError(t, a.Drain(t.Context(), b.URL("10.0.0.2"), nil))
		took := time.Since(begin)
		require.NoError(t, a.Close())
		time.Sleep(2 * time.Second)
		require.Equal(t, n, b.Stats().Conns)
		require.EqualValues(t, n, b.Stats().Accepted)
		for s := range b.Conns() {
			s.Close()
		}
		wg.Wait()
		slices.Sort(longest)
		t.Logf("%d clients in %v: half of the gaps are at most %v, 99 of 100 %v, all %v", n, took, longest[n/2], longest[n*99/100-1], longest[n-1])
		require.LessOrEqual(t, longest[n*99/100-1], 250*time.Millisecond)
		require.NoError(t, b.Close())
		time.Sleep(2 * time.Second)
	})
}

// Clients of a server that dies go on at the one for which they have a token.
func TestDeath(t *testing.T) {
	link := simnet.Link{Latency: 10 * time.Millisecond}
	inWorld(t, link, func(t *testing.T, w *world) {
		hs := new(hosts)
		key := filepath.Join(t.TempDir(), "key")
		a := hs.add(t, w, "10.0.0.1:7777", &ListenConfig{KeyFile: key})
		b := hs.add(t, w, "10.0.0.2:7777", &ListenConfig{KeyFile: key})
		d := hs.dialer(w)
		var clients []*Conn
		for range 50 {
			client, err := d.Dial(t.Context(), a.URL("10.0.0.1"))
			require.NoError(t, err)
			server, err := a.AcceptConn(t.Context())
			require.NoError(t, err)
			go echo(server)
			give(t, a, server, b)
			clients = append(clients, client)
		}
		time.Sleep(time.Second)
		hs.die(w, link, a)
		begin := time.Now()
		var following sync.WaitGroup
		took := make([]time.Duration, len(clients))
		for i, c := range clients {
			following.Go(func() {
				go talkFor(c, 100*time.Millisecond, 10*time.Second)
				next, err := c.Next(context.Background())
				if err == nil {
					took[i] = time.Since(begin)
					next.Close()
				}
			})
			go func() {
				if s, err := b.AcceptConn(context.Background()); err == nil {
					s.Read(make([]byte, 10))
					s.Close()
				}
			}()
		}
		following.Wait()
		for i, c := range clients {
			require.Equal(t, ErrMoved, c.Err())
			require.NotZero(t, took[i])
			// A message is sent, 250 ms without an answer, 150 ms for a ping, up to 200 ms at random, a step.
			require.LessOrEqual(t, took[i], 1250*time.Millisecond)
		}
		time.Sleep(12 * time.Second)
		require.NoError(t, b.Close())
	})
}

// A client whose server dies, and the one for which it has a token, dials the URL again while the
// session waits for both.
func TestTwoDeaths(t *testing.T) {
	link := simnet.Link{Latency: 20 * time.Millisecond}
	inWorld(t, link, func(t *testing.T, w *world) {
		hs := new(hosts)
		key := filepath.Join(t.TempDir(), "key")
		a := hs.add(t, w, "10.0.0.1:7777", &ListenConfig{KeyFile: key})
		b := hs.add(t, w, "10.0.0.2:7777", &ListenConfig{KeyFile: key})
		c := hs.add(t, w, "10.0.0.3:7777", &ListenConfig{KeyFile: key})
		name := func(address string) {
			at, _ := hs.at.Load(address)
			hs.at.Store("game.example:7777", at)
		}
		name("10.0.0.1:7777")
		client, err := hs.dialer(w).Dial(t.Context(), a.URL("game.example"))
		require.NoError(t, err)
		server, err := a.AcceptConn(t.Context())
		require.NoError(t, err)
		give(t, a, server, b)
		time.Sleep(time.Second)
		name("10.0.0.3:7777")
		hs.die(w, link, a, b)
		begin := time.Now()
		go talkFor(client, 100*time.Millisecond, 10*time.Second)
		next, err := client.Next(t.Context())
		require.NoError(t, err)
		require.LessOrEqual(t, time.Since(begin), 5*time.Second)
		require.Equal(t, netcode.ErrIdleTimeout, client.Err())
		there, err := c.AcceptConn(t.Context())
		require.NoError(t, err)
		_, resumed := there.Resumed()
		require.False(t, resumed)
		next.Close()
		time.Sleep(10 * time.Second)
		require.NoError(t, there.Close())
		require.NoError(t, c.Close())
		time.Sleep(2 * time.Second)
	})
}

// A client whose URL leads to its own server alone waits for that, and keeps its session.
func TestSameServerIsNotDialedAnew(t *testing.T) {
	link := simnet.Link{Latency: 20 * time.Millisecond}
	inWorld(t, link, func(t *testing.T, w *world) {
		hs := new(hosts)
		key := filepath.Join(t.TempDir(), "key")
		a := hs.add(t, w, "10.0.0.1:7777", &ListenConfig{KeyFile: key})
		b := hs.add(t, w, "10.0.0.2:7777", &ListenConfig{KeyFile: key})
		var clients []*Conn
		for range 20 {
			client, err := hs.dialer(w).Dial(t.Context(), a.URL("10.0.0.1"))
			require.NoError(t, err)
			server, err := a.AcceptConn(t.Context())
			require.NoError(t, err)
			go echo(server)
			give(t, a, server, b)
			clients = append(clients, client)
		}
		time.Sleep(time.Second)
		hs.die(w, link, b)
		w.net.SetDefault(simnet.Link{Loss: 1}) // UDP alone
		for _, c := range clients {
			go talkFor(c, 100*time.Millisecond, 15*time.Second)
		}
		time.Sleep(8 * time.Second)
		w.net.SetDefault(link)
		time.Sleep(10 * time.Second)
		for _, c := range clients {
			require.NoError(t, c.Err())
			require.NoError(t, c.Close())
		}
		require.NoError(t, a.Close())
		time.Sleep(2 * time.Second)
	})
}

// A server that is silent for a while may be heard again at each moment of a move to another
// one. The session goes on at one of them, whichever that is.
func TestMovesOfSilentServer(t *testing.T) {
	t.Run("with all ways", func(t *testing.T) { testMovesOfSilentServer(t, false) })
	t.Run("with one spare token", func(t *testing.T) { testMovesOfSilentServer(t, true) })
}

func testMovesOfSilentServer(t *testing.T, few bool) {
	moved, stayed := 0, 0
	for silence := 400 * time.Millisecond; silence < 3*time.Second; silence += 20 * time.Millisecond {
		inWorld(t, simnet.Link{Latency: 10 * time.Millisecond}, func(t *testing.T, w *world) {
			hs := new(hosts)
			key := filepath.Join(t.TempDir(), "key")
			a := hs.add(t, w, "10.0.0.1:7777", &ListenConfig{KeyFile: key})
			b := hs.add(t, w, "10.0.0.2:7777", &ListenConfig{KeyFile: key})
			join(a, b)
			client, there, here := netip.MustParseAddr("10.0.1.1"), netip.MustParseAddr("10.0.0.2"), netip.MustParseAddr("10.0.0.1")
			w.net.SetLink(client, there, simnet.Link{Latency: 150 * time.Millisecond})
			w.net.SetLink(there, client, simnet.Link{Latency: 150 * time.Millisecond})
			for _, l := range []*Listener{a, b} {
				go echoAll(l)
			}
			c, err := hs.dialer(w).Dial(t.Context(), a.URL("10.0.0.1"))
			require.NoError(t, err)
			talk := func(c *Conn) {
				for c.Err() == nil {
					c.Write([]byte("hello"))
					time.Sleep(100 * time.Millisecond)
				}
			}
			go talk(c)
			time.Sleep(500 * time.Millisecond)
			for s := range a.Conns() {
				give(t, a, s, b)
			}
			time.Sleep(2 * time.Second)
			if few {
				hs.at.Delete("10.0.0.1:7777")
				c.roamer.mu.Lock()
				c.roamer.spares = c.roamer.spares[:1]
				c.roamer.askAt = time.Now().Add(time.Minute)
				c.roamer.mu.Unlock()
			}
			w.net.SetLink(here, client, simnet.Link{Loss: 1})
			time.Sleep(silence)
			w.net.SetLink(here, client, simnet.Link{Latency: 10 * time.Millisecond})
			time.Sleep(10 * time.Second)
			switch c.Err() {
			case nil:
				stayed++
			case ErrMoved:
				moved++
				c, err = c.Next(t.Context())
				require.NoError(t, err)
				go talk(c)
				time.Sleep(10 * time.Second)
			}
			require.NoError(t, c.Err(), "after a silence of %v", silence)
			k := talkFor(c, 100*time.Millisecond, time.Second)
			require.NotZero(t, k.heard, "after a silence of %v", silence)
			require.Equal(t, 1, a.Stats().Conns+b.Stats().Conns)
			c.Close()
			time.Sleep(time.Second)
			require.NoError(t, a.Close())
			require.NoError(t, b.Close())
			time.Sleep(2 * time.Second)
		})
	}
	t.Logf("%d sessions have moved, and %d not", moved, stayed)
	require.NotZero(t, moved)
	require.NotZero(t, stayed)
}

// A move that ends after the client has gone to another server does not end the session there:
// its server says that the session has left, and not that it is over.
func TestMoveAfterGoing(t *testing.T) {
	inWorld(t, simnet.Link{Latency: 10 * time.Millisecond}, func(t *testing.T, w *world) {
		l := w.listen(t, &ListenConfig{})
		client, server := w.connect(t, l)
		time.Sleep(time.Second)
		var mu sync.Mutex
		var kinds []handover.Kind
		handover.Of(l).Watch(func(e handover.Event) {
			mu.Lock()
			defer mu.Unlock()
			kinds = append(kinds, e.Kind)
		})
		r := client.roamer
		r.mu.Lock()
		r.next = new(successor)
		r.mu.Unlock()
		s, ok := r.takeSpare()
		require.True(t, ok)
		require.Equal(t, ErrMoved, r.moveBySpare(t.Context(), &s))
		time.Sleep(time.Second)
		require.Equal(t, ErrMoved, server.Err())
		mu.Lock()
		require.Equal(t, []handover.Kind{handover.Moved, handover.Left}, kinds)
		mu.Unlock()
		client.Close()
		require.NoError(t, l.Close())
	})
}

// A server that has been started anew says that the session is over, and its client does not wait
// for long for the other server, which is dead.
func TestRestartOfDialedServer(t *testing.T) {
	link := simnet.Link{Latency: 20 * time.Millisecond}
	inWorld(t, link, func(t *testing.T, w *world) {
		hs := new(hosts)
		lc := ListenConfig{KeyFile: filepath.Join(t.TempDir(), "key"), Public: netip.MustParseAddrPort("10.0.0.1:7777")}
		a := hs.add(t, w, "10.0.0.1:7777", &lc)
		b := hs.add(t, w, "10.0.0.2:7777", &ListenConfig{KeyFile: lc.KeyFile})
		client, err := hs.dialer(w).Dial(t.Context(), a.URL("10.0.0.1"))
		require.NoError(t, err)
		server, err := a.AcceptConn(t.Context())
		require.NoError(t, err)
		give(t, a, server, b)
		time.Sleep(time.Second)
		hs.die(w, link, a, b)
		a = hs.add(t, w, "10.0.0.1:7777", &lc)
		begin := time.Now()
		go talkFor(client, 100*time.Millisecond, 10*time.Second)
		next, err := client.Next(t.Context())
		require.NoError(t, err)
		require.ErrorAs(t, client.Err(), new(*RefusedError))
		require.LessOrEqual(t, time.Since(begin), 5*time.Second)
		next.Close()
		time.Sleep(10 * time.Second)
		require.NoError(t, a.Close())
		time.Sleep(2 * time.Second)
	})
}
