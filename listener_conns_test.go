package volley

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"volley/internal/testenv"
	"volley/simnet"
)

// listed returns the connections that Conns yields, and fails if one comes twice.
func listed(t *testing.T, l *Listener) map[*Conn]bool {
	t.Helper()
	all := make(map[*Conn]bool)
	for c := range l.Conns() {
		require.False(t, all[c], "a connection comes twice")
		all[c] = true
	}
	return all
}

func set(cs ...*Conn) map[*Conn]bool {
	all := make(map[*Conn]bool)
	for _, c := range cs {
		all[c] = true
	}
	return all
}

func TestConns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, l, dial := network(t, &ListenConfig{})
		require.Empty(t, listed(t, l))
		var dialed, conns []*Conn
		for i := range 5 {
			dialed = append(dialed, dial(fmt.Sprintf("10.0.0.2:%d", i+1), &Dialer{}))
			if i < 4 {
				conns = append(conns, accept(t, l))
			}
		}
		defer func() {
			for _, c := range append(dialed, conns...) {
				c.Close()
			}
		}()
		time.Sleep(time.Second)
		require.Equal(t, 5, l.Stats().Conns)
		require.Equal(t, set(conns...), listed(t, l), "and not the one that waits for Accept")
		conns[0].Close()
		require.Equal(t, set(conns[1:]...), listed(t, l))
		n := 0
		for range l.Conns() {
			if n++; n == 2 {
				break
			}
		}
		require.Equal(t, 2, n)

		var last *Conn // accepted in the loop: it may come, and what is closed there does not
		for c := range l.Conns() {
			if last == nil {
				last = accept(t, l)
				for _, c := range conns {
					c.Close()
				}
			} else {
				require.Same(t, last, c)
			}
		}
		require.Equal(t, set(last), listed(t, l))
		l.Close()
		require.Equal(t, set(last), listed(t, l), "they live on")
		dialed[4].Close()
		time.Sleep(time.Minute)
		require.Empty(t, listed(t, l), "it has timed out")
		last.Close()
	})
}

// Whoever is there during a whole loop comes once in it, while others come and
// go beside several loops at once.
func TestConnsWhileTheyComeAndGo(t *testing.T) {
	lc := ListenConfig{Config: &Config{IdleTimeout: -1}}
	n := simnet.New(1)
	defer n.Close()
	pc, err := n.Listen("10.0.0.1:7777")
	require.NoError(t, err)
	l, err := lc.ListenOn(pc)
	require.NoError(t, err)
	defer l.Close()
	dial := func() (client, server *Conn, err error) {
		inner, err := n.Dial("10.0.0.2:0", "10.0.0.1:7777")
		if err != nil {
			return nil, nil, err
		}
		client, err = new(Dialer).connect(inner)
		if err != nil {
			return nil, nil, err
		}
		server, err = l.AcceptConn(context.Background())
		return client, server, err
	}
	var stay []*Conn
	for range 20 {
		c, s, err := dial()
		require.NoError(t, err)
		defer c.Close()
		defer s.Close()
		stay = append(stay, s)
	}
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		defer close(done)
		for range 200 {
			c, s, err := dial()
			if err != nil {
				t.Error(err)
				return
			}
			c.Close()
			s.Close()
		}
	})
	for range 3 {
		wg.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				seen := make(map[*Conn]int)
				for c := range l.Conns() {
					seen[c]++
				}
				for _, c := range stay {
					if seen[c] != 1 {
						t.Errorf("a connection came %d times", seen[c])
						return
					}
				}
			}
		})
	}
	wg.Wait()
}

// Over several sockets, all connections come.
func TestConnsOfSockets(t *testing.T) {
	lc := ListenConfig{Sockets: 3}
	l, err := lc.Listen(t.Context(), "udp", "127.0.0.1:0")
	if err != nil {
		t.Skip(err)
	}
	defer l.Close()
	want := make(map[*Conn]bool)
	for range 12 {
		c, err := Dial("udp", l.Addr().String())
		require.NoError(t, err)
		defer c.Close()
		l.SetDeadline(time.Now().Add(30 * time.Second))
		s, err := l.AcceptConn(context.Background())
		require.NoError(t, err)
		defer s.Close()
		want[s] = true
	}
	require.Equal(t, want, listed(t, l))
	if !testenv.Race {
		n := testing.AllocsPerRun(100, func() {
			for range l.Conns() {
			}
		})
		require.Less(t, n, 5.0, "allocations of a loop")
	}
}
