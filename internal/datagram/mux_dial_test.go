package datagram

import (
	"fmt"
	"net"
	"net/netip"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"volley/internal/socket"
	"volley/internal/wire"
	"volley/simnet"
)

// muxOn returns a Mux on an address of a simulated network.
func muxOn(t *testing.T, n *simnet.Network, addr string, a Acceptor) (*Mux, netip.AddrPort) {
	pc, err := n.Listen(addr)
	require.NoError(t, err)
	m := NewMux(socket.NewPacket(pc), MuxConfig{Acceptor: a, MaxDatagram: 1000})
	m.Start()
	return m, netip.MustParseAddrPort(addr)
}

func dial(t *testing.T, m *Mux, to netip.AddrPort) (*Peer, *fakeHandler) {
	t.Helper()
	p, err := m.Dial(to)
	require.NoError(t, err)
	h := new(fakeHandler)
	require.NoError(t, p.Attach(h))
	return p, h
}

// One socket accepts and dials, and closes with the last of both.
func TestMuxDials(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := simnet.New(1)
		a := &fakeAcceptor{}
		m, here := muxOn(t, n, "10.0.0.1:1", a)
		other, there := muxOn(t, n, "10.0.0.2:1", &fakeAcceptor{handler: func(Conn) Handler { return echoHandler{} }})
		p, h := dial(t, m, there)
		require.NoError(t, write(p, "ping"))
		synctest.Wait()
		require.Equal(t, []string{"ping"}, h.received())
		require.Equal(t, there.String(), p.RemoteAddr().String())

		third, _ := muxOn(t, n, "10.0.0.3:1", nil)
		q, qh := dial(t, third, here)
		require.NoError(t, write(q, "hello"))
		synctest.Wait()
		require.Equal(t, 1, a.made())
		require.NoError(t, write(a.peer(0), "welcome"))
		synctest.Wait()
		require.Equal(t, []string{"welcome"}, qh.received())
		for _, addr := range []string{"10.0.0.2:1", "10.0.0.3:1", "[::ffff:10.0.0.3]:1"} {
			_, err := m.Dial(netip.MustParseAddrPort(addr))
			require.ErrorIs(t, err, ErrPeerExists, addr)
		}

		m.Close()
		_, err := m.Dial(netip.MustParseAddrPort("10.0.0.4:1"))
		require.ErrorIs(t, err, net.ErrClosed)
		a.peer(0).Close()
		require.NoError(t, write(p, "still there"))
		p.Close()
		require.ErrorIs(t, write(p, "gone"), net.ErrClosed)
		q.Close()
		third.Close()
		other.Close()
		other.cfg.Acceptor.(*fakeAcceptor).peer(0).Close()
	})
}

// Both sides dial each other at once: each finds the other's first datagram in
// what it has dialed, also one that comes before the Handler is attached.
func TestMuxDialsAtOnce(t *testing.T) {
	for _, early := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			n := simnet.New(1)
			a1, a2 := new(fakeAcceptor), new(fakeAcceptor)
			m1, addr1 := muxOn(t, n, "10.0.0.1:1", a1)
			m2, addr2 := muxOn(t, n, "10.0.0.2:1", a2)
			p1, h1 := dial(t, m1, addr2)
			p2, err := m2.Dial(addr1)
			require.NoError(t, err)
			h2 := new(fakeHandler)
			if !early {
				require.NoError(t, p2.Attach(h2))
			}
			write(p1, "from 1", "and more")
			write(p2, "from 2")
			synctest.Wait()
			if early {
				require.Empty(t, h2.received())
				require.NoError(t, p2.Attach(h2))
			}
			require.Error(t, p2.Attach(h2), "attached twice")
			require.Equal(t, []string{"from 2"}, h1.received())
			require.Equal(t, []string{"from 1", "and more"}, h2.received())
			require.Zero(t, a1.unknown+a2.unknown)
			for _, c := range []interface{ Close() error }{m1, m2, p1, p2} {
				c.Close()
			}
		})
	}
}

// What is kept for a Conn without a Handler is bounded, and a Conn that never
// gets one holds nothing once it is closed.
func TestMuxDialedUnattached(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFakeSocket()
		m := NewMux(s, MuxConfig{})
		m.Start()
		p, err := m.Dial(peerAddr(1))
		require.NoError(t, err)
		large := string(make([]byte, 1000))
		for range 100 {
			s.in <- from(peerAddr(1), large)
			synctest.Wait()
		}
		m.mu.Lock()
		size := m.dialing[peerAddr(1)].early.Size()
		m.mu.Unlock()
		require.LessOrEqual(t, size, maxEarly)
		m.Close()
		require.False(t, s.closed())
		p.Close()
		require.True(t, s.closed())
		require.ErrorIs(t, p.Attach(new(fakeHandler)), net.ErrClosed)
	})
}

// A Conn dialed while the socket breaks learns of it, by Attach or HandleClose.
func TestMuxDialBroken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFakeSocket()
		m := NewMux(s, MuxConfig{})
		m.Start()
		p, h := dial(t, m, peerAddr(1))
		q, err := m.Dial(peerAddr(2))
		require.NoError(t, err)
		s.in <- errBroken
		synctest.Wait()
		require.Equal(t, []error{errBroken}, h.ended())
		require.ErrorIs(t, q.Attach(new(fakeHandler)), errBroken)
		p.Close()
		q.Close()
	})
}

// An address that is dialed while the Acceptor lets it in has one Conn.
func TestMuxDialedWhileDeciding(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFakeSocket()
		a := &deciding{fakeAcceptor: new(fakeAcceptor)}
		m := NewMux(s, MuxConfig{Acceptor: a})
		h := new(fakeHandler)
		var p *Peer
		a.meanwhile = func() { p, _ = m.Dial(peerAddr(1)) }
		m.Start()
		s.in <- from(peerAddr(1), "hello")
		synctest.Wait()
		require.NotNil(t, p)
		require.NoError(t, p.Attach(h))
		require.Equal(t, []string{"hello"}, h.received())
		require.Zero(t, a.made())
		m.Close()
		p.Close()
		require.True(t, s.closed())
	})
}

// Dialing, accepting and closing at once, for the race detector.
func TestMuxDialConcurrent(t *testing.T) {
	s := newFakeSocket()
	a := &fakeAcceptor{}
	m := NewMux(s, MuxConfig{Acceptor: a, Tombstone: time.Millisecond, MaxTombstones: 10})
	m.Start()
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for i := range 200 {
				addr := peerAddr(i % 7)
				s.in <- from(addr, fmt.Sprint(g))
				p, err := m.Dial(addr)
				if err != nil {
					continue
				}
				if err := p.Attach(&fakeHandler{batch: func(_ [][]byte, out *wire.Batch) { out.Append([]byte("x")) }}); err != nil {
					t.Error(err)
				}
				write(p, "y")
				p.Close()
			}
		})
	}
	wg.Wait()
	m.Close()
	for !s.closed() { // one more may have been let in meanwhile
		for i := range a.made() {
			a.peer(i).Close()
		}
		runtime.Gosched()
	}
}

// A Mux that has dialed reads nothing before Start.
func TestMuxDialBeforeStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFakeSocket()
		m := NewMux(s, MuxConfig{})
		p, h := dial(t, m, peerAddr(1))
		s.in <- from(peerAddr(1), "early")
		synctest.Wait()
		require.Zero(t, s.reads)
		m.Start()
		synctest.Wait()
		require.Equal(t, []string{"early"}, h.received())
		m.Close()
		p.Close()
	})
}

// A Close that comes while another is at work returns with the address free, too.
func TestDialAfterConcurrentClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := simnet.New(1)
		m, _ := muxOn(t, n, "10.0.0.1:1", &fakeAcceptor{})
		defer m.Close()
		there := netip.MustParseAddrPort("10.0.0.2:1")
		for _, attached := range []bool{false, true} {
			p, err := m.Dial(there)
			require.NoError(t, err)
			if attached {
				require.NoError(t, p.Attach(new(fakeHandler)))
			}
			p.closed.Store(true) // the other call has come so far
			require.NoError(t, p.Close())
			next, _ := dial(t, m, there)
			require.NoError(t, m.remove(p))
			_, err = m.Dial(there)
			require.ErrorIs(t, err, ErrPeerExists)
			require.NoError(t, next.Close())
		}
	})
}
