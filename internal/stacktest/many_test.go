package stacktest

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"volley"
	"volley/simnet"
)

// crowd is message connections over sessions, at both ends.
func crowd(t *testing.T, n int) (clients, servers []*volley.Conn) {
	t.Helper()
	s := newSessions(t, simnet.Link{Latency: 10 * time.Millisecond})
	l := newListener(s.inner, nil)
	for range n {
		c := newConn(s.dial(t), nil)
		_, err := c.Write([]byte("hello"))
		require.NoError(t, err)
		a, err := l.Accept()
		require.NoError(t, err)
		clients, servers = append(clients, c), append(servers, a.(*volley.Conn))
	}
	t.Cleanup(func() {
		for i := range n {
			clients[i].Close()
			servers[i].Close()
		}
		l.Close()
		s.net.Close()
	})
	return clients, servers
}

func wantMessage(t *testing.T, c *volley.Conn, want string) {
	t.Helper()
	c.SetReadDeadline(time.Now().Add(time.Second))
	m, err := c.ReadMessage(context.Background(), nil)
	require.NoError(t, err)
	require.Equal(t, want, string(m))
}

// Over sessions one pass serves all, too, before and after the client is known
// to have its index; who has left is told apart.
func TestWriteAllOverSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clients, servers := crowd(t, 80)
		large := make([]byte, 5000)
		for _, msg := range []string{"first", "second", string(large)} {
			require.NoError(t, volley.WriteAll([]byte(msg), slices.Values(servers)))
			for _, c := range clients {
				wantMessage(t, c, msg)
			}
		}
		clients[17].Close()
		time.Sleep(time.Second)
		err := volley.WriteAll([]byte("last"), slices.Values(servers))
		var all *volley.WriteAllError
		require.ErrorAs(t, err, &all)
		require.Len(t, all.Failed, 1)
		require.Contains(t, all.Failed, servers[17])
		require.ErrorIs(t, err, io.ErrClosedPipe)
		require.NotErrorIs(t, err, net.ErrClosed)
		for i, c := range clients {
			if i != 17 {
				wantMessage(t, c, "last")
			}
		}
	})
}

// Whoever writes at the same time, what is sealed leaves in the order of its
// sequence numbers, and all of it arrives in order.
func TestWriteAllOverSessionsConcurrently(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clients, servers := crowd(t, 70)
		const writers, rounds = 4, 150
		var tasks sync.WaitGroup
		for w := range writers {
			rng := rand.New(rand.NewPCG(1, uint64(w)))
			tasks.Go(func() {
				for k := range uint32(rounds) {
					msg := binary.BigEndian.AppendUint32([]byte{byte(w)}, k)
					if rng.IntN(2) == 0 {
						if err := volley.WriteAll(msg, slices.Values(servers)); err != nil {
							t.Error(err)
						}
					} else {
						for _, s := range servers {
							if _, err := s.Write(msg); err != nil {
								t.Error(err)
							}
						}
					}
					time.Sleep(time.Duration(rng.IntN(200)) * time.Microsecond)
				}
			})
		}
		tasks.Wait()
		time.Sleep(time.Second)
		for i, c := range clients {
			var next [writers]uint32
			for range writers * rounds {
				c.SetReadDeadline(time.Now().Add(time.Second))
				m, err := c.ReadMessage(context.Background(), nil)
				require.NoError(t, err, "client %d has %v", i, next)
				require.Equal(t, next[m[0]], binary.BigEndian.Uint32(m[1:]))
				next[m[0]]++
			}
			require.Zero(t, c.Stats().PacketsStale)
		}
	})
}

// One pass may lead through several Listeners, plain ones and sessions.
func TestWriteAllOverAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clients, servers := crowd(t, 10)
		n := simnet.New(2)
		defer n.Close()
		pc, err := n.Listen("10.0.0.1:7777")
		require.NoError(t, err)
		l, err := new(volley.ListenConfig).ListenOn(pc)
		require.NoError(t, err)
		defer l.Close()
		for range 10 {
			inner, err := n.Dial("10.0.0.2:0", "10.0.0.1:7777")
			require.NoError(t, err)
			c := newConn(inner, nil)
			defer c.Close()
			_, err = c.Write([]byte("hello"))
			require.NoError(t, err)
			s, err := l.AcceptConn(context.Background())
			require.NoError(t, err)
			defer s.Close()
			clients, servers = append(clients, c), append(servers, s)
		}
		order := rand.New(rand.NewPCG(1, 1)).Perm(len(servers))
		var shuffled []*volley.Conn
		for _, i := range order {
			shuffled = append(shuffled, servers[i])
		}
		for _, s := range servers {
			s.AppendReceipts(nil) // turns them on
		}
		require.NoError(t, volley.WriteAll([]byte("to all"), slices.Values(shuffled)))
		for _, c := range clients {
			wantMessage(t, c, "to all")
		}
		time.Sleep(time.Second)
		for _, s := range servers {
			r := s.AppendReceipts(nil)
			require.Len(t, r, 1)
			require.Equal(t, volley.Delivered, r[0].Fate)
		}
	})
}

// A session that is closed by the application itself fails alone.
func TestWriteAllOverClosedSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clients, servers := crowd(t, 3)
		servers[1].Close()
		err := volley.WriteAll([]byte("x"), slices.Values(servers))
		require.ErrorIs(t, err, net.ErrClosed)
		require.False(t, errors.Is(err, io.ErrClosedPipe))
		wantMessage(t, clients[0], "x")
		wantMessage(t, clients[2], "x")
	})
}
