package porous

import (
	"context"
	"fmt"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"volley/porous/internal/core"
	"volley/simnet"
)

// H1, C7: two that listen dial each other, at the same moment or one after the
// other, on links that lose: they meet in one connection each time.
func TestListenersMeet(t *testing.T) {
	for i, delay := range []time.Duration{0, time.Millisecond, 5 * time.Millisecond, 11 * time.Millisecond,
		15 * time.Millisecond, 21 * time.Millisecond, 35 * time.Millisecond, 100 * time.Millisecond, time.Second} {
		for _, loss := range []float64{0, 0.3} {
			t.Run(fmt.Sprint(delay, loss), func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					n := simnet.New(uint64(i))
					defer n.Close()
					n.SetDefault(simnet.Link{Latency: 10 * time.Millisecond, Loss: loss})
					a := simListener(t, n, "10.0.0.1:7", &ListenConfig{})
					b := simListener(t, n, "10.0.0.2:7", &ListenConfig{})
					defer a.Close()
					defer b.Close()
					type result struct {
						c   *Conn
						err error
					}
					dialed := make(chan result)
					go func() {
						time.Sleep(delay)
						c, err := b.Dial(t.Context(), "10.0.0.1:7")
						dialed <- result{c, err}
					}()
					c, err := a.Dial(t.Context(), "10.0.0.2:7")
					require.NoError(t, err)
					r := <-dialed
					require.NoError(t, r.err)
					defer abort(c, r.c)
					c.Write([]byte("from a"))
					r.c.Write([]byte("from b"))
					require.Equal(t, "from a", readString(t, r.c))
					require.Equal(t, "from b", readString(t, c))
					require.Equal(t, 1, a.Stats().Conns)
					require.Equal(t, 1, b.Stats().Conns)
					_, err = a.Dial(t.Context(), "10.0.0.2:7")
					require.ErrorIs(t, err, ErrConnExists)
				})
			})
		}
	}
}

// Through two address translators that let in only what answers.
func TestHolePunching(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := simnet.New(1)
		defer n.Close()
		a := simListener(t, n, "10.0.0.1:7", &ListenConfig{})
		b := simListener(t, n, "10.0.0.2:7", &ListenConfig{})
		defer a.Close()
		defer b.Close()
		// What reaches a before a has sent anything to b is dropped.
		n.SetDefault(simnet.Link{Latency: 10 * time.Millisecond, Blackout: true})
		time.AfterFunc(700*time.Millisecond, func() { n.SetDefault(simnet.Link{Latency: 10 * time.Millisecond}) })
		done := make(chan error)
		go func() {
			c, err := b.Dial(t.Context(), "10.0.0.1:7")
			if err == nil {
				_, err = c.Write([]byte("through"))
			}
			if err == nil {
				err = c.Close()
			}
			done <- err
		}()
		c, err := a.Dial(t.Context(), "10.0.0.2:7")
		require.NoError(t, err)
		require.Equal(t, "through", readString(t, c))
		require.NoError(t, <-done)
		require.NoError(t, c.Close())
	})
}

// A connection that the peer has begun, and Dial has taken over before it was
// established, is not for Accept.
func TestDialTakesOver(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := simnet.New(1)
		defer n.Close()
		l := simListener(t, n, "10.0.0.1:7", &ListenConfig{})
		defer l.Close()
		x, err := n.Dial("10.0.0.3:1", "10.0.0.1:7")
		require.NoError(t, err)
		defer x.Close()
		proveAddress(t, x)
		synctest.Wait()
		time.AfterFunc(time.Second, func() { x.Write(core.AppendConnect(nil, core.Connect{Channels: 1, ID: 7})) })
		c, err := l.Dial(t.Context(), "10.0.0.3:1")
		require.NoError(t, err)
		_, err = acceptWithin(l, time.Second)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		abort(c)
	})
}

func TestListenerDialErrors(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := simnet.New(1)
		defer n.Close()
		a := simListener(t, n, "10.0.0.1:7", &ListenConfig{})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := a.Dial(ctx, "10.0.0.2:7")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Zero(t, a.Stats().Conns)
		_, err = a.Dial(t.Context(), "10.0.0.2:7")
		require.ErrorIs(t, err, ErrHandshakeTimeout)
		_, err = a.Dial(t.Context(), "no port")
		require.ErrorAs(t, err, new(*net.AddrError))
		require.NoError(t, a.Close())
		_, err = a.Dial(t.Context(), "10.0.0.2:7")
		require.ErrorIs(t, err, net.ErrClosed)
	})
}

// R12: what was answered before the code changes, which it does each ten seconds,
// is good for a connection that is dialed, or accepted, after that.
func TestListenersMeetAsTheCodeChanges(t *testing.T) {
	for _, latency := range []time.Duration{20 * time.Millisecond, 700 * time.Millisecond} {
		for _, loss := range []float64{0, 0.2} {
			for step := range 40 {
				// The other side's request comes before the change, and we dial around it.
				first := 10*time.Second - latency - time.Duration(step)*latency/10
				bubble(t, func(t *testing.T) {
					n := simnet.New(uint64(step))
					defer n.Close()
					n.SetDefault(simnet.Link{Latency: latency, Loss: loss, Reorder: loss, ReorderBy: latency})
					a := simListener(t, n, "10.0.0.1:7", &ListenConfig{})
					b := simListener(t, n, "10.0.0.2:7", &ListenConfig{})
					defer a.Close()
					defer b.Close()
					time.Sleep(first)
					dialed := make(chan *Conn)
					go func() {
						c, _ := b.Dial(t.Context(), "10.0.0.1:7")
						dialed <- c
					}()
					time.Sleep(latency + time.Duration(step%20)*latency/5)
					c, err := a.Dial(t.Context(), "10.0.0.2:7")
					require.NoError(t, err, "loss %v, step %d", loss, step)
					d := <-dialed
					require.NotNil(t, d)
					c.Write([]byte("from a"))
					d.Write([]byte("from b"))
					require.Equal(t, "from a", readString(t, d))
					require.Equal(t, "from b", readString(t, c))
					abort(c, d)
				})
			}
		}
	}
}

// The same for a peer that only dials, on a path so long that it asks twice.
func TestDialAsTheCodeChanges(t *testing.T) {
	for step := range 40 {
		bubble(t, func(t *testing.T) {
			n := simnet.New(uint64(step))
			defer n.Close()
			n.SetDefault(simnet.Link{Latency: 800 * time.Millisecond})
			l := simListener(t, n, "10.0.0.1:7", &ListenConfig{})
			defer l.Close()
			time.Sleep(7*time.Second + time.Duration(step)*100*time.Millisecond)
			c := simDial(t, n, "10.0.0.2:7", "10.0.0.1:7", nil)
			require.NoError(t, c.Flush(t.Context()), "step %d", step)
			s, err := l.AcceptConn(context.Background())
			require.NoError(t, err)
			c.Write([]byte("to the listener"))
			s.Write([]byte("from it"))
			require.Equal(t, "to the listener", readString(t, s))
			require.Equal(t, "from it", readString(t, c))
			abort(c, s)
		})
	}
}
