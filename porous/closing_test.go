package porous

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"volley/internal/wire"
	"volley/porous/internal/core"
	"volley/simnet"
)

// The peer learns of the end also where it verifies it, however long the path is.
func TestCloseIsVerified(t *testing.T) {
	bubbles(t, func(t *testing.T, pair pairing) {
		for _, latency := range []time.Duration{time.Millisecond, 50 * time.Millisecond, 100 * time.Millisecond, 400 * time.Millisecond} {
			for _, idle := range []time.Duration{0, time.Minute} {
				a, b, _ := pair(t, simnet.Link{Latency: latency}, &Config{VerifyDisconnect: true})
				a.Write([]byte("the last word"))
				require.NoError(t, b.Flush(t.Context()))
				time.Sleep(idle)
				start := time.Now()
				require.NoError(t, a.Close())
				if latency < 400*time.Millisecond {
					a.mu.Lock()
					state := a.peer.State()
					a.mu.Unlock()
					require.GreaterOrEqual(t, state, core.Disconnected, "Close waits for the answer while pings come")
				}
				require.Equal(t, "the last word", readString(t, b))
				_, err := b.Read(make([]byte, 1))
				require.Equal(t, io.EOF, err, "latency %v", latency)
				require.Less(t, time.Since(start), 7*time.Second)
				require.NoError(t, b.Close())
			}
		}
	})
}

// Whoever closes, and in which way, and whatever is lost, up to 40 %: the other side
// learns of it.
func TestEveryEndIsLearned(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for i := range 600 {
		link := simnet.Link{Latency: time.Duration(rng.IntN(150)) * time.Millisecond, Loss: rng.Float64() * 0.4}
		listens, aborts := i&1 != 0, i%5 == 0
		cfg := &Config{VerifyDisconnect: i%3 == 0}
		name := fmt.Sprintf("%d: %+v, %+v", i, link, cfg)
		bubble(t, func(t *testing.T) {
			n := simnet.New(uint64(i))
			defer n.Close()
			n.SetDefault(link)
			l := simListener(t, n, "10.0.0.1:7", &ListenConfig{Config: cfg})
			defer l.Close()
			x := simDial(t, n, "10.0.0.2:7", "10.0.0.1:7", cfg)
			y, err := l.AcceptConn(context.Background())
			require.NoError(t, err, name)
			require.NoError(t, x.Flush(t.Context()), name)
			if listens {
				x, y = y, x
			}
			for range rng.IntN(5) {
				x.Write(make([]byte, rng.IntN(3000)))
				y.Write(make([]byte, rng.IntN(3000)))
				time.Sleep(time.Duration(rng.IntN(300)) * time.Millisecond)
			}
			done := make(chan error)
			go func() {
				var err error
				for err == nil {
					_, err = y.Read(make([]byte, 4000))
				}
				done <- err
			}()
			if aborts {
				x.Abort()
			} else {
				x.Close()
			}
			require.Equal(t, io.EOF, <-done, name)
			abort(y)
			time.Sleep(time.Minute)
		})
	}
}

// What Close has not brought about in time goes on: a peer that was out of reach
// learns of the end when it is back, and what is below is closed then.
func TestCloseGoesOn(t *testing.T) {
	for _, aborts := range []bool{false, true} {
		bubble(t, func(t *testing.T) {
			n := simnet.New(1)
			defer n.Close()
			x, err := n.Dial("10.0.0.1:1", "10.0.0.2:1")
			require.NoError(t, err)
			below := &closeCounter{Conn: x}
			y, err := n.Dial("10.0.0.2:1", "10.0.0.1:1")
			require.NoError(t, err)
			a, b := wrapped(below, nil), wrapped(y, nil)
			a.Write([]byte("x"))
			require.Equal(t, "x", readString(t, b))
			require.NoError(t, a.Flush(t.Context()))
			start := time.Now()
			n.SetDefault(simnet.Link{Blackout: true})
			time.AfterFunc(3*time.Second, func() { n.SetDefault(simnet.Link{}) })
			if aborts {
				require.NoError(t, a.Abort())
				require.Zero(t, time.Since(start))
			} else {
				require.NoError(t, a.Close())
			}
			require.Zero(t, below.closed.Load())
			_, err = a.Write([]byte("x"))
			require.ErrorIs(t, err, net.ErrClosed)
			require.NoError(t, a.Close())
			require.NoError(t, a.Abort())
			_, err = b.Read(make([]byte, 1))
			require.Equal(t, io.EOF, err)
			require.Less(t, time.Since(start), 3600*time.Millisecond)
			time.Sleep(10 * time.Second)
			require.EqualValues(t, 1, below.closed.Load())
			abort(b)
		})
	}
}

// What lingers closes what is below as soon as the peer has answered, and answers a
// peer that asks again, for two seconds since it did, but not for ever.
func TestLingering(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := simnet.New(1)
		defer n.Close()
		for i, first := range []bool{true, false} {
			addr, other := fmt.Sprintf("10.0.0.1:%d", i+1), fmt.Sprintf("10.0.0.2:%d", i+1)
			x, err := n.Dial(addr, other)
			require.NoError(t, err)
			below := &closeCounter{Conn: x}
			a, b := wrapped(below, nil), simDial(t, n, other, addr, nil)
			require.NoError(t, a.Flush(t.Context()))
			require.NoError(t, b.Flush(t.Context()))
			hear := func(b []byte) { (*handler)(a).HandleBatch(time.Now(), [][]byte{b}, nil) }
			if first {
				n.SetDefault(simnet.Link{Blackout: true})
				require.NoError(t, a.Close())
				require.Zero(t, below.closed.Load())
				hear(core.AppendDisconnectAck(nil))
				require.EqualValues(t, 1, below.closed.Load())
				n.SetDefault(simnet.Link{})
				abort(b)
				continue
			}
			require.NoError(t, b.Close())
			_, err = a.Read(make([]byte, 1))
			require.Equal(t, io.EOF, err)
			require.NoError(t, a.Close())
			for range 4 {
				time.Sleep(1100 * time.Millisecond)
				require.Zero(t, below.closed.Load())
				before := below.acks.Load()
				hear(core.AppendDisconnect(nil))
				synctest.Wait()
				require.Equal(t, before+1, below.acks.Load())
			}
			time.Sleep(time.Second)
			require.EqualValues(t, 1, below.closed.Load(), "CloseTimeout")
		}
	})
}

// What lingers holds nobody up: there is no goroutine, and the test may end.
func TestLingeringHoldsNobodyUp(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := simnet.New(1)
		a := simDial(t, n, "10.0.0.1:1", "10.0.0.2:1", nil)
		b := simDial(t, n, "10.0.0.2:1", "10.0.0.1:1", nil)
		require.NoError(t, a.Flush(t.Context()))
		require.NoError(t, b.Flush(t.Context()))
		n.SetDefault(simnet.Link{Blackout: true})
		abort(a, b)
	}) // or it panics
}

// The last acknowledgements go with each request to end, however late it is.
func TestLateEndHasTheAcks(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := simnet.New(1)
		defer n.Close()
		n.SetDefault(simnet.Link{Latency: 100 * time.Millisecond})
		a := simDial(t, n, "10.0.0.1:1", "10.0.0.2:1", nil)
		b := simDial(t, n, "10.0.0.2:1", "10.0.0.1:1", nil)
		require.NoError(t, b.Flush(t.Context()))
		b.Write([]byte("x"))
		time.AfterFunc(50*time.Millisecond, func() { n.SetDefault(simnet.Link{Blackout: true}) })
		require.Equal(t, "x", readString(t, a))
		time.AfterFunc(4*time.Second, func() { n.SetDefault(simnet.Link{Latency: 100 * time.Millisecond}) })
		require.NoError(t, a.Abort())
		_, err := b.Read(make([]byte, 1))
		require.Equal(t, io.EOF, err)
		require.NoError(t, b.Close())
	})
}

// A closeCounter counts calls of Close, and requests to end that are acknowledged.
type closeCounter struct {
	net.Conn
	closed, acks atomic.Int32
}

func (c *closeCounter) Write(b []byte) (int, error) {
	if core.ParseBare(b, core.TypeDisconnectAck) {
		c.acks.Add(1)
	}
	return c.Conn.Write(b)
}

func (c *closeCounter) Close() error {
	c.closed.Add(1)
	return c.Conn.Close()
}

// With CloseTimeout off nothing lingers.
func TestNothingLingers(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := simnet.New(1)
		defer n.Close()
		x, err := n.Dial("10.0.0.1:1", "10.0.0.2:1")
		require.NoError(t, err)
		below := &closeCounter{Conn: x}
		a := wrapped(below, &Config{CloseTimeout: -1})
		b := simDial(t, n, "10.0.0.2:1", "10.0.0.1:1", nil)
		require.NoError(t, a.Flush(t.Context()))
		require.NoError(t, a.Close())
		require.EqualValues(t, 1, below.closed.Load())
		_, err = b.Read(make([]byte, 1))
		require.Equal(t, io.EOF, err)
		abort(b)
	})
}

// A peer of a Listener that has not heard of the end is told when it goes on.
func TestListenerTellsOfTheEnd(t *testing.T) {
	for _, speaks := range []bool{true, false} {
		bubble(t, func(t *testing.T) {
			n := simnet.New(1)
			defer n.Close()
			l := simListener(t, n, "10.0.0.1:7", &ListenConfig{})
			defer l.Close()
			c, s := simAccept(t, n, l, "10.0.0.2:7")
			n.SetDefault(simnet.Link{Blackout: true})
			s.Abort()
			require.Zero(t, l.Stats().Conns)
			n.SetDefault(simnet.Link{})
			start := time.Now()
			within := 6 * time.Second // its next ping
			if speaks {
				c.Write([]byte("is there anybody"))
				within = time.Second
			}
			_, err := c.Read(make([]byte, 1))
			require.Equal(t, io.EOF, err)
			require.Less(t, time.Since(start), within)
			abort(c)
		})
	}
}

// What an address answers after the end is no more than what comes, and nothing to
// what a peer that has heard of it may still send.
func TestAnswerLate(t *testing.T) {
	l, err := (&ListenConfig{}).newListener()
	require.NoError(t, err)
	for want, list := range map[string][][]byte{
		"\x03": {core.AppendDisconnect(nil)},
		"\x02": {core.AppendPing(nil, core.TypePing, 1), core.AppendDataHeader(nil, 1, 0)},
		"": {nil, {4}, {6, 1}, {9}, core.AppendDisconnectAck(nil), core.AppendPing(nil, core.TypePingAck, 1), core.AppendDataAck(nil, nil),
			core.AppendConnect(nil, core.Connect{Channels: 1}), core.AppendConnectAck(nil, 7)},
	} {
		for _, b := range list {
			var out wire.Batch
			require.Nil(t, (*acceptor)(l).HandleUnknown(time.Now(), netip.MustParseAddrPort("10.0.0.9:1"), true, [][]byte{b, b}, &out))
			if want == "" {
				require.Zero(t, out.Len(), "%x", b)
				continue
			}
			require.Equal(t, 1, out.Len(), "%x", b)
			require.Equal(t, want, string(out.At(0)), "%x", b)
		}
	}
}

// A second call of Shutdown or Close waits as long as its own context allows, and
// then has the first one's result, however late it comes.
func TestSecondShutdown(t *testing.T) {
	bubbles(t, func(t *testing.T, pair pairing) {
		a, b, change := pair(t, simnet.Link{}, nil)
		require.NoError(t, a.Flush(t.Context()))
		change(simnet.Link{Blackout: true})
		a.Write([]byte("nobody hears"))
		first := make(chan error, 1)
		go func() {
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			defer cancel()
			first <- a.Shutdown(ctx)
		}()
		synctest.Wait()
		start := time.Now()
		over, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, a.Shutdown(over), context.Canceled)
		require.Zero(t, time.Since(start))
		require.ErrorIs(t, a.Close(), context.DeadlineExceeded)
		require.Equal(t, 5*time.Second, time.Since(start))
		err := a.Shutdown(context.Background())
		require.Equal(t, 10*time.Second, time.Since(start))
		require.ErrorAs(t, err, new(*UndeliveredError))
		require.Equal(t, err, <-first)
		require.Equal(t, err, a.Shutdown(over))
		abort(b)
	})
}

// Close and the end that the peer brings may release a connection at once: the race detector
// looks at what they share.
func TestReleasedTwice(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := simnet.New(1)
		defer n.Close()
		l := simListener(t, n, "10.0.0.1:7", &ListenConfig{})
		defer l.Close()
		c, s := simAccept(t, n, l, "10.0.0.2:7")
		s.mu.Lock()
		s.vanished = true
		s.mu.Unlock()
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() { s.release() })
		}
		wg.Wait()
		require.Zero(t, l.Stats().Conns)
		abort(c)
		abort(s)
	})
}
