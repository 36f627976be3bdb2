package datagram

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"volley/internal/socket"
	"volley/internal/wire"
)

// ours is one of the addresses of a socket on many.
func ours(n int) netip.Addr { return netip.AddrFrom4([4]byte{192, 0, 2, byte(n)}) }

// sentTo makes packets of an address to one of ours.
func sentTo(local netip.Addr, addr netip.AddrPort, ds ...string) []socket.Packet {
	ps := from(addr, ds...)
	for i := range ps {
		ps[i].Local = local
	}
	return ps
}

// TestMuxRoutes: a peer that turns to another address of ours has another Conn there,
// whatever became of the first, and the Conns of an address come and go in any order.
func TestMuxRoutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFakeSocket()
		a := &fakeAcceptor{}
		m := NewMux(s, MuxConfig{Acceptor: a, MaxDatagram: 1000, Tombstone: time.Minute, MaxTombstones: 100})
		m.Start()
		send := func(local int, d string) {
			s.in <- sentTo(ours(local), peerAddr(1), d)
			synctest.Wait()
		}
		got := func(i int) []string { return a.peer(i).handler.(*fakeHandler).received() }
		send(1, "one")
		require.Same(t, a.peer(0), m.turns.only.Load())
		s.in <- from(peerAddr(1), "to many") // tells none
		synctest.Wait()
		send(2, "two")
		require.Nil(t, m.turns.only.Load(), "there are two")
		send(3, "three")
		send(2, "more")
		require.Equal(t, 3, m.Peers())
		require.Len(t, m.Handlers(), 3)
		require.Equal(t, []string{"one", "to many"}, got(0))
		require.Equal(t, []string{"two", "more"}, got(1))
		first, others := m.HandlersOf(peerAddr(1))
		require.Equal(t, a.peer(0).handler, first)
		require.Equal(t, []Handler{a.peer(1).handler, a.peer(2).handler}, others)

		_, err := m.Dial(peerAddr(1))
		require.ErrorIs(t, err, ErrPeerExists)
		a.peer(0).Close()
		require.Equal(t, a.peer(1).handler, m.Handler(peerAddr(1)))
		send(1, "late")
		send(2, "and more")
		send(4, "four")
		require.Equal(t, 4, a.made(), "the first one's grave is at its own address of ours only")
		require.Equal(t, []string{"two", "more", "and more"}, got(1))
		require.Equal(t, []string{"four"}, got(3))
		a.peer(3).Close()
		a.peer(1).Close()
		require.Same(t, a.peer(2), m.turns.only.Load())
		require.Nil(t, m.more)
		send(3, "still here")
		require.Equal(t, []string{"three", "still here"}, got(2))
		m.Close()
		require.False(t, s.closed())
		a.peer(2).Close()
		require.True(t, s.closed())
	})
}

// TestMuxRoutesAreBounded: one address has Conns at so many of ours, and no more.
func TestMuxRoutesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFakeSocket()
		a := &fakeAcceptor{}
		m := NewMux(s, MuxConfig{Acceptor: a, MaxDatagram: 1000})
		m.Start()
		for i := range 2 * maxRoutes {
			s.in <- sentTo(ours(i+1), peerAddr(1), "x")
			synctest.Wait()
		}
		require.Equal(t, 16, maxRoutes)
		require.Equal(t, maxRoutes, m.Peers())
		require.EqualValues(t, maxRoutes, m.Stats().Unknown)
		a.peer(5).Close()
		s.in <- sentTo(ours(99), peerAddr(1), "x")
		s.in <- sentTo(ours(98), peerAddr(2), "x")
		synctest.Wait()
		require.Equal(t, maxRoutes+1, m.Peers())
		endMux(m)
	})
}

// TestMuxDialedTakesAll: a Conn that was dialed takes what its peer sends to any of
// our addresses, and sends from where the system has it, so nothing that comes can
// change that; one that was dialed again keeps its route.
func TestMuxDialedTakesAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFakeSocket()
		a := &fakeAcceptor{}
		m := NewMux(s, MuxConfig{Acceptor: a, MaxDatagram: 1000})
		m.Start()
		write := func(p *Peer, want netip.Addr) {
			t.Helper()
			var b wire.Batch
			b.Append([]byte("answer"))
			require.NoError(t, p.WriteBatch(&b))
			s.mu.Lock()
			defer s.mu.Unlock()
			require.Equal(t, want, s.sent[len(s.sent)-1].Local)
		}
		p, err := m.Dial(peerAddr(1))
		require.NoError(t, err)
		h := new(fakeHandler)
		s.in <- sentTo(ours(1), peerAddr(1), "early")
		synctest.Wait()
		require.NoError(t, p.Attach(h))
		s.in <- append(sentTo(ours(1), peerAddr(1), "a"), sentTo(ours(2), peerAddr(1), "b")...)
		synctest.Wait()
		require.Equal(t, []string{"early", "a", "b"}, h.received())
		write(p, netip.Addr{})
		p.Close()

		s.in <- sentTo(ours(2), peerAddr(1), "c")
		synctest.Wait()
		old := a.peer(0)
		write(old, ours(2))
		require.Equal(t, old.handler, m.Successor(old))
		old.Close()
		require.Nil(t, m.Successor(old))
		p, err = m.Redial(old)
		require.NoError(t, err)
		_, err = m.Redial(old)
		require.ErrorIs(t, err, ErrPeerExists)
		s.in <- append(sentTo(ours(2), peerAddr(1), "d"), sentTo(ours(3), peerAddr(1), "e")...)
		synctest.Wait()
		require.NoError(t, p.Attach(new(fakeHandler)))
		require.Equal(t, []string{"d"}, p.handler.(*fakeHandler).received())
		require.Equal(t, []string{"e"}, a.peer(1).handler.(*fakeHandler).received())
		require.Equal(t, p.handler, m.Successor(old))
		write(p, ours(2))
		_, err = m.Redial(old)
		require.ErrorIs(t, err, ErrPeerExists)
		endMux(m)
	})
}

// TestMuxRoutesModel: whatever comes and goes, each datagram is its route's Conn's.
func TestMuxRoutesModel(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	m := NewMux(newFakeSocket(), MuxConfig{})
	alive := make(map[route]*Peer)
	for range 20_000 {
		r := route{peerAddr(rng.IntN(4)), ours(rng.IntN(5))}
		require.Equal(t, alive[r], m.peerLocked(r))
		if p := alive[r]; p == nil {
			alive[r] = newPeer(m, r)
			m.addLocked(alive[r])
		} else {
			require.True(t, m.dropLocked(p))
			require.False(t, m.dropLocked(p))
			delete(alive, r)
		}
		require.Equal(t, len(alive), m.Peers())
		n := 0
		for p := range m.allLocked() {
			require.Same(t, p, alive[p.route()])
			n++
		}
		require.Equal(t, len(alive), n)
		for addr, ps := range m.more {
			require.NotNil(t, m.peers[addr])
			require.NotEmpty(t, ps)
			require.False(t, slices.Contains(ps[:cap(ps)][len(ps):], m.peers[addr]), "memory of what is gone")
		}
	}
}
