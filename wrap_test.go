package volley

import (
	"context"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"volley/simnet"
)

// A pairListener accepts the other ends of what it has dialed.
type pairListener struct {
	seed  uint64
	conns chan net.Conn
	done  chan struct{}
}

func (l *pairListener) Addr() net.Addr { return &net.UDPAddr{} }
func (l *pairListener) Close() error   { close(l.done); return nil }

func (l *pairListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *pairListener) dial() *Conn {
	l.seed++
	x, y := simnet.Pair(l.seed, simnet.Link{}, simnet.Link{})
	l.conns <- y
	return mustConn(x, nil)
}

// The connections of a Listener over another one have a limit together. Some that fill it,
// with messages or parts of them, leave the last quarter to the others.
func TestNewListenerMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = 1 << 20
		inner := &pairListener{conns: make(chan net.Conn, 10), done: make(chan struct{})}
		l, err := NewListener(inner, nil)
		require.NoError(t, err)
		require.EqualValues(t, 256<<20, l.budget.Limit())
		l.budget.Init(limit)
		var all []*Conn
		defer func() {
			for _, c := range all {
				c.Close()
			}
		}()
		pair := func() (c, s *Conn) {
			c = inner.dial()
			s, err := l.AcceptConn(context.Background())
			require.NoError(t, err)
			all = append(all, c, s)
			return c, s
		}
		for range 4 {
			c, _ := pair()
			for range 400 {
				c.Write(make([]byte, 1000))
				time.Sleep(time.Millisecond)
			}
		}
		full := l.Stats().Memory
		require.Greater(t, full, int64(limit/2))
		require.LessOrEqual(t, full, int64(limit))
		c, s := pair()
		for range 5 {
			for range 8 {
				c.Write(make([]byte, 1000))
			}
			time.Sleep(time.Millisecond)
			for range 8 {
				ctx, cancel := context.WithTimeout(context.Background(), time.Second)
				_, err := s.ReadMessage(ctx, nil)
				cancel()
				require.NoError(t, err)
			}
		}
		require.Zero(t, s.Stats().MessagesRefused)
		require.NotZero(t, all[7].Stats().MessagesRefused, "the limit was never met")
		require.LessOrEqual(t, l.Stats().Memory, int64(limit))
		for _, c := range all {
			c.Close()
		}
		time.Sleep(time.Second)
		require.Zero(t, l.Stats().Memory)
		require.NoError(t, l.Close())
	})
}
