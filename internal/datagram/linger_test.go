package datagram

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"volley/internal/socket"
	"volley/internal/wire"
	"volley/simnet"
)

// A Conn that lingers says farewell at its ticks, and holds no test bubble: it
// may be left alone at any time.
func TestLinger(t *testing.T) {
	for name, open := range map[string]func(t *testing.T, n *simnet.Network) Conn{
		"foreign": func(t *testing.T, n *simnet.Network) Conn {
			c, err := n.Dial("10.0.0.1:1", "10.0.0.2:1")
			require.NoError(t, err)
			return NewForeign(c, 1000, 1000)
		},
		"mux": func(t *testing.T, n *simnet.Network) Conn {
			m, _ := muxOn(t, n, "10.0.0.1:1", nil)
			p, err := m.Dial(peerAddr(2))
			require.NoError(t, err)
			m.Close()
			return p
		},
		"single": func(t *testing.T, n *simnet.Network) Conn {
			pc, err := n.Listen("10.0.0.1:1")
			require.NoError(t, err)
			return NewSingle(socket.NewPacket(pc), nil, 1000)
		},
		"listener of a socket that tells of packets": func(t *testing.T, n *simnet.Network) Conn {
			s := newSteppedSocket()
			a := &fakeAcceptor{handler: func(Conn) Handler { return nil }}
			m := NewMux(s, MuxConfig{Acceptor: a})
			m.Start()
			p, err := m.Dial(peerAddr(2))
			require.NoError(t, err)
			m.Close()
			return p
		},
		"steps": func(t *testing.T, n *simnet.Network) Conn {
			c := NewSingle(newSteppedSocket(), nil, 1000)
			c.turns.sleeps = false
			return c
		},
	} {
		t.Run(name, func(t *testing.T) {
			ticks := 0
			synctest.Test(t, func(t *testing.T) {
				c := open(t, simnet.New(1))
				h := &fakeHandler{tick: func(now time.Time, out *wire.Batch) time.Time {
					ticks++
					return now.Add(time.Second)
				}}
				require.NoError(t, c.Attach(h))
				synctest.Wait()
				c.Schedule(time.Now().Add(time.Second))
				c.Features().Linger.Linger()
				c.Features().Linger.Linger()
				time.Sleep(3 * time.Second)
				require.Empty(t, h.ended())
			}) // or it panics, for somebody waits who cannot be woken
			require.Equal(t, 3, ticks)
		})
	}
}

// Where the socket tells of packets, a Conn that lingers hears them.
func TestLingerHears(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSteppedSocket()
		c := NewSingle(s, nil, 1000)
		h := new(fakeHandler)
		require.NoError(t, c.Attach(h))
		c.Linger()
		s.push(from(peerAddr(1), "heard")...)
		synctest.Wait()
		require.Equal(t, []string{"heard"}, h.received())
		require.NoError(t, c.Close())
	})
}

// A Mux that accepts, or has other Conns, is read on.
func TestLingerOfOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFakeSocket()
		a := new(fakeAcceptor)
		m := NewMux(s, MuxConfig{Acceptor: a})
		m.Start()
		s.in <- append(from(peerAddr(1), "1"), from(peerAddr(2), "2")...)
		synctest.Wait()
		a.peer(0).Linger()
		m.Close()
		a.peer(0).Linger()
		s.in <- from(peerAddr(2), "more")
		synctest.Wait()
		require.Equal(t, []string{"2", "more"}, a.peer(1).handler.(*fakeHandler).received())
		a.peer(0).Close()
		a.peer(1).Close()
	})
}
