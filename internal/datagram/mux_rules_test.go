package datagram

import (
	"errors"
	"net"
	"net/netip"
	"reflect"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"volley/internal/deadline"
	"volley/internal/socket"
)

// An endingSocket counts calls of Close, which fail, and says when its address is free.
type endingSocket struct {
	*fakeSocket
	closes atomic.Int32
	err    error
	free   chan struct{}
}

func (s *endingSocket) Close() error {
	s.closes.Add(1)
	s.fakeSocket.Close()
	return s.err
}

func (s *endingSocket) Released() <-chan struct{} { return s.free }
func (s *endingSocket) Features() socket.Features { return socket.Features{Release: s} }

// A Mux closes its socket once, and tells of its end once, whether it broke or was
// closed; it then takes nobody in, and calls nobody any more.
func TestMuxEndsOnce(t *testing.T) {
	for _, breaks := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			failed := errors.New("failed")
			s := &endingSocket{fakeSocket: newFakeSocket(), err: failed, free: make(chan struct{})}
			a := new(fakeAcceptor)
			var ends []error
			m := NewMux(s, MuxConfig{Acceptor: a, OnClose: func(err error) { ends = append(ends, err) }})
			m.Start()
			s.in <- from(peerAddr(1), "x")
			synctest.Wait()
			h := a.peer(0).handler.(*fakeHandler)
			a.peer(0).Schedule(time.Now().Add(time.Second))
			want := error(nil)
			if breaks {
				want = errBroken
				s.in <- errBroken
				synctest.Wait()
				require.Equal(t, []error{errBroken}, h.ended())
			} else {
				require.NoError(t, m.Close(), "there is a Conn left")
				require.Empty(t, ends)
				require.Equal(t, failed, a.peer(0).Close(), "that of the socket")
				require.NoError(t, a.peer(0).Close())
			}
			for range 2 {
				require.Equal(t, []error{want}, ends)
				require.EqualValues(t, 1, s.closes.Load())
				_, err := m.Dial(peerAddr(2))
				require.ErrorIs(t, err, net.ErrClosed)
				require.NoError(t, m.Close(), "the error has been told")
				a.peer(0).Close()
			}
			time.Sleep(time.Minute)
			synctest.Wait()
			require.Empty(t, h.ticked())
			require.Equal(t, (<-chan struct{})(s.free), m.Released())
		})
	}
	require.Nil(t, NewMux(newFakeSocket(), MuxConfig{}).Released())
	s := &endingSocket{fakeSocket: newFakeSocket()} // nobody wants to know
	require.NoError(t, NewMux(s, MuxConfig{}).Close())
	require.EqualValues(t, 1, s.closes.Load())
}

// The sockets of a group are closed once each, with the first error, when the last Mux
// needs none any more, however often the others say so.
func TestMuxGroupEndsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one, two := errors.New("one"), errors.New("two")
		g := NewMuxGroup()
		var socks []*endingSocket
		var muxes []*Mux
		told := 0
		for _, err := range []error{nil, one, two} {
			s := &endingSocket{fakeSocket: newFakeSocket(), err: err}
			socks = append(socks, s)
			muxes = append(muxes, NewMux(s, MuxConfig{Group: g, OnClose: func(error) { told++ }}))
		}
		for _, m := range muxes[:2] {
			m.Start()
			for range 2 {
				require.NoError(t, m.Close())
			}
		}
		for _, s := range socks {
			require.Zero(t, s.closes.Load())
		}
		require.Zero(t, told)
		require.Equal(t, one, muxes[2].Close())
		for range 2 {
			for _, s := range socks {
				require.EqualValues(t, 1, s.closes.Load())
			}
			require.Equal(t, 3, told)
			for _, m := range muxes {
				require.NoError(t, m.Close())
			}
		}
	})
	// One that broke is over for its owner, and its socket stays until the others go.
	synctest.Test(t, func(t *testing.T) {
		g := NewMuxGroup()
		broken := &endingSocket{fakeSocket: newFakeSocket(), err: errors.New("not told")}
		other := &endingSocket{fakeSocket: newFakeSocket()}
		m, n := NewMux(broken, MuxConfig{Group: g}), NewMux(other, MuxConfig{Group: g})
		m.Start()
		broken.in <- errBroken
		synctest.Wait()
		require.Zero(t, broken.closes.Load())
		_, err := m.Dial(peerAddr(1))
		require.ErrorIs(t, err, net.ErrClosed)
		require.NoError(t, n.Close())
		require.EqualValues(t, 1, broken.closes.Load())
		require.EqualValues(t, 1, other.closes.Load())
	})
}

// What a Mux has: the Handlers of its Conns, and that of one address.
func TestMuxHandlers(t *testing.T) {
	s := newFakeSocket()
	m, conns := dialMany(t, s, 3)
	var want []Handler
	for i, p := range conns {
		h := m.Handler(peerAddr(i))
		require.NotNil(t, h)
		require.Same(t, p.handler, h)
		want = append(want, h)
	}
	require.Nil(t, m.Handler(peerAddr(3)))
	require.ElementsMatch(t, want, m.Handlers())
	before := []Handler{new(fakeHandler)}
	all := m.AppendHandlers(before)
	require.Same(t, before[0], all[0])
	require.ElementsMatch(t, want, all[1:])
	p, err := m.Dial(peerAddr(4))
	require.NoError(t, err)
	require.Nil(t, m.Handler(peerAddr(4)), "it has none yet")
	require.Len(t, m.Handlers(), 3)
	require.Equal(t, 3, m.Peers())
	require.NoError(t, p.Close())
	require.ErrorIs(t, p.Attach(new(fakeHandler)), net.ErrClosed)

	q, err := m.Dial(peerAddr(4))
	require.NoError(t, err)
	require.NoError(t, p.Close(), "that of an earlier Conn of the address")
	require.NoError(t, q.Attach(new(fakeHandler)))
	require.NoError(t, q.Close())
}

// While its Acceptor makes a Conn of an address, nobody sees it: it has no Handler, and
// does not count as the only one.
func TestMuxWhileAdmitting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFakeSocket()
		var m *Mux
		var old *Peer
		admitted := 0
		a := &fakeAcceptor{handler: func(c Conn) Handler {
			if admitted++; admitted == 2 {
				old.Close()
				require.False(t, c.(*Peer).mayRead())
				require.Empty(t, m.Handlers())
			}
			return new(fakeHandler)
		}}
		m = NewMux(s, MuxConfig{Acceptor: a})
		m.Start()
		s.in <- from(peerAddr(1), "x")
		synctest.Wait()
		old = a.peer(0)
		require.True(t, old.mayRead())
		s.in <- from(peerAddr(2), "x")
		synctest.Wait()
		require.Equal(t, 2, admitted)
		require.True(t, a.peer(1).mayRead())
		require.Len(t, m.Handlers(), 1)
		m.Close()
		a.peer(1).Close()
		require.True(t, s.closed())
	})
}

// The map of peers is made anew when it has held 1024 or more, and an eighth of that is
// left.
func TestMuxShrinksAt(t *testing.T) {
	for _, test := range []struct {
		peak, peers int
		shrinks     bool
	}{{1023, 1, false}, {1024, 128, true}, {1024, 129, false}, {4096, 512, true}, {4096, 513, false}} {
		m := &Mux{peak: test.peak, peers: make(map[netip.AddrPort]*Peer)}
		for i := range test.peers {
			m.peers[peerAddr(i)] = &Peer{addr: peerAddr(i)}
		}
		before := m.peers
		m.shrinkLocked()
		require.Equal(t, test.shrinks, reflect.ValueOf(before).Pointer() != reflect.ValueOf(m.peers).Pointer(), "%+v", test)
		require.Equal(t, before, m.peers)
		if test.shrinks {
			require.Equal(t, test.peers, m.peak)
		}
	}
	m := NewMux(newFakeSocket(), MuxConfig{})
	for i, want := range []int{1, 2, 2, 3} {
		if i == 2 {
			delete(m.peers, peerAddr(0))
		}
		m.addLocked(&Peer{addr: peerAddr(i)})
		require.Equal(t, want, m.peak)
	}
}

// A Conn without a tombstone pushes out none of others. Whoever dials an address opens
// it again.
func TestMuxWithoutTombstone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, s := new(lateAcceptor), newFakeSocket()
		m := NewMux(s, MuxConfig{Acceptor: a, Tombstone: time.Minute, MaxTombstones: 1})
		m.Start()
		say := func(peer int, wantLate int) {
			t.Helper()
			s.in <- from(peerAddr(peer), "hello")
			synctest.Wait()
			require.Equal(t, wantLate, a.late)
		}
		say(1, 0)
		say(2, 0)
		a.peer(0).Close()
		a.peer(1).SetTombstone(0)
		a.peer(1).Close()
		say(1, 1)
		say(2, 1)
		a.peer(2).SetTombstone(0)
		p, err := m.Dial(peerAddr(1))
		require.NoError(t, err)
		p.SetTombstone(0)
		require.NoError(t, p.Close())
		say(1, 1)
		m.Close()
		a.peer(2).Close()
		a.peer(3).Close()
	})
}

// Of what comes for a Conn that waits for its Handler, 64 KiB are kept to the byte, and
// what is smaller than what did not fit.
func TestMuxKeepsEarly(t *testing.T) {
	var d dialing
	large := func(n int) []byte { return make([]byte, n) }
	d.keep([][]byte{large(40 << 10), large(24<<10 + 1), large(20 << 10)})
	require.Equal(t, 2, d.early.Len())
	d.keep([][]byte{large(4 << 10), large(1)})
	require.Equal(t, 3, d.early.Len())
	require.Equal(t, 64<<10, d.early.Size())
}

// What is dropped is counted, datagram by datagram: of strangers, whoever refused them.
func TestMuxCountsUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFakeSocket()
		m := NewMux(s, MuxConfig{})
		m.Start()
		s.in <- from(peerAddr(1), "a", "b", "c")
		synctest.Wait()
		require.EqualValues(t, 3, m.Stats().Unknown)
		m.Close()
	})
}

// When the only Conn whose readers could read is gone, or is not the only one any more,
// the goroutine reads at once: a stranger waits for nobody.
func TestMuxReadsOnAtOnce(t *testing.T) {
	for name, change := range map[string]func(t *testing.T, m *Mux, p *Peer) (others []*Peer){
		"closed": func(_ *testing.T, _ *Mux, p *Peer) []*Peer { p.Close(); return nil },
		"another is dialed": func(t *testing.T, m *Mux, _ *Peer) []*Peer {
			q, _ := dial(t, m, peerAddr(9))
			return []*Peer{q}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSteppedSocket()
				a := new(fakeAcceptor)
				m := NewMux(s, MuxConfig{Acceptor: a})
				m.Start()
				p, _ := dial(t, m, peerAddr(1))
				var d deadline.Deadline
				for !p.ReadInline(&d, noReaders{}) {
					s.push(from(p.addr, "y")...)
					synctest.Wait() // the goroutine makes place
				}
				require.Zero(t, s.reading(), "nobody reads")
				begin := time.Now()
				others := change(t, m, p)
				s.push(from(peerAddr(2), "stranger")...)
				synctest.Wait()
				require.Equal(t, 1, a.made())
				require.Zero(t, time.Since(begin))
				m.Close()
				for _, c := range append(others, p, a.peer(0)) {
					c.Close()
				}
			})
		})
	}
}

// A Conn that lingers has its Mux read on as long as others may come, or are about to.
func TestMuxLingersAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newDeadlineSocket()
		a := new(fakeAcceptor)
		m := NewMux(s, MuxConfig{Acceptor: a})
		m.Start()
		p, h := dial(t, m, peerAddr(1))
		hears := func(want ...string) {
			t.Helper()
			s.in <- from(peerAddr(1), "x")
			synctest.Wait()
			require.Equal(t, want, h.received())
		}
		p.Linger()
		hears("x")
		q, err := m.Dial(peerAddr(2))
		require.NoError(t, err)
		m.Close()
		p.Linger()
		hears("x", "x")
		q.Close()
		p.Linger()
		hears("x", "x")
		p.Close()
		require.True(t, s.closed())
	})
}

// A deadlineSocket has reads that can be interrupted, by a deadline that has passed.
type deadlineSocket struct {
	*fakeSocket
	passed chan struct{}
}

func newDeadlineSocket() *deadlineSocket {
	return &deadlineSocket{newFakeSocket(), make(chan struct{})}
}

func (s *deadlineSocket) SetReadDeadline(at time.Time) error {
	if !at.After(time.Now()) {
		close(s.passed)
	}
	return nil
}

func (s *deadlineSocket) ReadBatch(ps []socket.Packet) (int, error) {
	select {
	case <-s.passed:
		return 0, errDeadline{}
	default:
	}
	select {
	case <-s.passed:
		return 0, errDeadline{}
	case x := <-s.in:
		return copy(ps, x.([]socket.Packet)), nil
	case <-s.done:
		return 0, net.ErrClosed
	}
}

func (s *deadlineSocket) Features() socket.Features { return socket.Features{Deadline: s} }

// errDeadline is a passing error.
type errDeadline struct{}

func (errDeadline) Error() string   { return "deadline" }
func (errDeadline) Timeout() bool   { return true }
func (errDeadline) Temporary() bool { return true }
