package datagram

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"volley/internal/socket"
	"volley/internal/wire"
)

// A peekSocket can tell what is in it, and maps addresses.
type peekSocket struct {
	*endingSocket
	unread bool
	addrs  map[netip.AddrPort]net.Addr
}

func (s *peekSocket) Unread() bool                         { return s.unread }
func (s *peekSocket) AddrPort(net.Addr) netip.AddrPort     { return netip.AddrPort{} }
func (s *peekSocket) NetAddr(addr netip.AddrPort) net.Addr { return s.addrs[addr] }
func (s *peekSocket) Features() socket.Features            { return socket.Features{Peek: s, Addrs: s} }
func (s *peekSocket) Stats() socket.Stats                  { return socket.Stats{ReadCalls: 7} }

func newPeekSocket() *peekSocket {
	return &peekSocket{endingSocket: &endingSocket{fakeSocket: newFakeSocket()}}
}

// What a Single and a Peer offer, and what only some sockets do.
func TestConnFeatures(t *testing.T) {
	plain, peeking := newFakeSocket(), newPeekSocket()
	single := func(s socket.Socket) Features { return NewSingle(s, nil, 1000).Features() }
	f := single(plain)
	require.Nil(t, f.Unread)
	require.False(t, f.Lossless || f.Waits)
	require.Nil(t, f.Gather)
	require.Nil(t, f.Tombstone)
	require.NotNil(t, f.Inline)
	require.NotNil(t, f.Linger)
	require.NotNil(t, f.Refusals)
	require.NotNil(t, f.Errors)
	f = single(peeking)
	require.False(t, f.Unread.Unread())
	peeking.unread = true
	require.True(t, f.Unread.Unread())

	for _, s := range []socket.Socket{plain, peeking} {
		m, conns := dialMany(t, s, 1)
		f := conns[0].Features()
		require.Equal(t, s == peeking, f.Unread != nil)
		require.Nil(t, f.Refusals)
		require.Nil(t, f.Errors)
		require.NotNil(t, f.Inline)
		require.NotNil(t, f.Linger)
		require.NotNil(t, f.Gather)
		require.NotNil(t, f.Tombstone)
		require.Equal(t, m.Stats(), conns[0].Stats())
		require.NoError(t, conns[0].WaitWritable(1, nil))
	}
	require.EqualValues(t, 7, NewSingle(peeking, nil, 1000).Stats().Socket.ReadCalls)
	require.EqualValues(t, 7, NewMux(peeking, MuxConfig{}).Stats().Socket.ReadCalls)
}

// The Handler is being given something: then it is unread, whatever is in the socket.
func TestUnreadWhileHandled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newPeekSocket()
		c := NewSingle(s, nil, 1000)
		var inside bool
		require.NoError(t, c.Attach(&fakeHandler{batch: func([][]byte, *wire.Batch) { inside = c.Unread() }}))
		s.in <- from(peerAddr(1), "x")
		synctest.Wait()
		require.True(t, inside)
		require.False(t, c.Unread())
		require.NoError(t, c.Close())
	})
}

// What a dialed connection remembers of errors: the last one that the system has told
// since the other side was heard, how often that was a refusal, and the first refusal of
// each silence is told at once.
func TestSingleTrouble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFakeSocket()
		c := NewSingle(s, testAddr("there"), 1234)
		told := 0
		c.OnRefusal(func() { told++ })
		require.NoError(t, c.Attach(new(fakeHandler)))
		say := func(x any, last error, refused uint64, wantTold int) {
			t.Helper()
			s.in <- x
			synctest.Wait()
			require.Equal(t, last, c.LastError())
			require.Equal(t, refused, c.Refused())
			require.Equal(t, wantTold, told)
		}
		heard := from(peerAddr(1), "x")
		say(heard, nil, 0, 0)
		say(syscall.EHOSTUNREACH, syscall.EHOSTUNREACH, 0, 0)
		say(syscall.ECONNREFUSED, syscall.ECONNREFUSED, 1, 1)
		say(syscall.EHOSTUNREACH, syscall.EHOSTUNREACH, 1, 1)
		say(syscall.ECONNREFUSED, syscall.ECONNREFUSED, 2, 1)
		say(os.NewSyscallError("read", syscall.ENETDOWN), os.NewSyscallError("read", syscall.ENETDOWN), 2, 1)
		say(errDeadline{}, os.NewSyscallError("read", syscall.ENETDOWN), 2, 1) // not of the system
		say(heard, nil, 2, 1)
		say(heard, nil, 2, 1)
		say(syscall.ECONNREFUSED, syscall.ECONNREFUSED, 3, 2)
		require.EqualValues(t, 7, c.Stats().ReadErrors)
		require.Zero(t, c.Stats().WriteErrors)

		say(heard, nil, 3, 2)
		s.refuses = func(int) error { return syscall.ECONNREFUSED }
		require.Equal(t, syscall.ECONNREFUSED, write(c, "x"))
		require.Equal(t, syscall.ECONNREFUSED, c.LastError())
		require.EqualValues(t, 4, c.Refused())
		require.Equal(t, 3, told)
		var b wire.Batch
		b.Append([]byte("x"))
		n, err := c.WriteBatchBy(&b, nil)
		require.Equal(t, 1, n)
		require.Equal(t, syscall.ECONNREFUSED, err)
		require.EqualValues(t, 5, c.Refused())
		require.EqualValues(t, 2, c.Stats().WriteErrors)
		s.refuses = nil
		require.NoError(t, write(c, "x"))
		n, err = c.WriteBatchBy(&b, nil)
		require.NoError(t, err)
		require.Equal(t, 1, n)
		require.EqualValues(t, 5, c.Refused())

		require.Equal(t, s.LocalAddr(), c.LocalAddr())
		require.Equal(t, testAddr("there"), c.RemoteAddr())
		require.Equal(t, 1234, c.MaxDatagram())
		require.NoError(t, c.WaitWritable(1, nil))
		require.NoError(t, c.Close())
		require.Equal(t, syscall.ECONNREFUSED, c.LastError())
	})
	// Nobody wants to be told.
	c := NewSingle(newFakeSocket(), nil, 1000)
	c.noteError(syscall.ECONNREFUSED)
	require.EqualValues(t, 1, c.Refused())
}

// Each Close returns what the first one met, and Attach then fails; a second Handler is
// refused.
func TestSingleCloseFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &endingSocket{fakeSocket: newFakeSocket(), err: errors.New("failed")}
		c := NewSingle(s, nil, 1000)
		require.NoError(t, c.Attach(new(fakeHandler)))
		err := c.Attach(new(fakeHandler))
		require.Error(t, err)
		require.NotErrorIs(t, err, net.ErrClosed)
		for range 2 {
			require.Equal(t, s.err, c.Close())
		}
		require.EqualValues(t, 2, s.closes.Load()) // sockets know the result of the first
		c = NewSingle(newFakeSocket(), nil, 1000)
		require.NoError(t, c.Close())
		require.Equal(t, net.ErrClosed, c.Attach(new(fakeHandler)))
	})
}

// A tombstone is of whole milliseconds, rounded up, and of 49 days at most.
func TestPeerTombstone(t *testing.T) {
	p := new(Peer)
	for d, want := range map[time.Duration]time.Duration{
		-1:                         0,
		-time.Hour:                 0,
		0:                          0,
		1:                          time.Millisecond,
		time.Millisecond - 1:       time.Millisecond,
		time.Millisecond:           time.Millisecond,
		time.Millisecond + 1:       2 * time.Millisecond,
		time.Hour:                  time.Hour,
		1<<63 - 1:                  (1<<32 - 1) * time.Millisecond,
		1 << 32 * time.Millisecond: (1<<32 - 1) * time.Millisecond,
	} {
		p.SetTombstone(d)
		require.Equal(t, want, p.tombstone(), "%d", d)
	}
}

// The layer below may close the Peer while the one above says for how long its address stays closed.
func TestTombstoneOfClosing(t *testing.T) {
	p, _ := dial(t, NewMux(newPeekSocket(), MuxConfig{}), peerAddr(0))
	var both sync.WaitGroup
	both.Go(func() { p.Close() })
	both.Go(func() { p.SetTombstone(time.Second) })
	both.Wait()
	require.Equal(t, time.Second, p.tombstone())
}

// A Peer's address is what the socket knows it by, or its UDP address, the same value
// each time.
func TestPeerAddrs(t *testing.T) {
	s := newPeekSocket()
	s.addrs = map[netip.AddrPort]net.Addr{peerAddr(0): testAddr("stand-in"), peerAddr(1): net.UDPAddrFromAddrPort(peerAddr(1))}
	m := NewMux(s, MuxConfig{MaxDatagram: 1234})
	var peers []*Peer
	for i := range 3 {
		p, _ := dial(t, m, peerAddr(i))
		peers = append(peers, p)
		require.Equal(t, peerAddr(i), p.AddrPort())
		require.Equal(t, 1234, p.MaxDatagram())
		require.Equal(t, m.Addr(), p.LocalAddr())
	}
	require.Equal(t, testAddr("stand-in"), peers[0].RemoteAddr())
	for i, p := range peers[1:] {
		require.Equal(t, net.UDPAddrFromAddrPort(peerAddr(i+1)), p.RemoteAddr())
		require.Same(t, p.RemoteAddr(), p.RemoteAddr())
	}
	delete(s.addrs, peerAddr(0)) // after a long silence
	require.Equal(t, net.UDPAddrFromAddrPort(peerAddr(0)), peers[0].RemoteAddr())
	m.Close()
	for _, p := range peers {
		p.Close()
	}
}

// A tick that finds its Conn closed, or closes it, is the last one, and asks for nothing;
// what it has appended before leaves all the same.
func TestPeerLastTick(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFakeSocket()
		m := NewMux(s, MuxConfig{})
		p, h := dial(t, m, peerAddr(1))
		h.tick = func(now time.Time, out *wire.Batch) time.Time {
			out.Append([]byte("farewell"))
			if len(h.ticked()) == 2 {
				p.closed.Store(true) // as Close does on another goroutine, which has not come further
			}
			return now.Add(time.Second)
		}
		p.Schedule(time.Now())
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Len(t, h.ticked(), 2)
		require.Len(t, s.datagrams(), 2)
		require.Zero(t, p.tick(time.Now()))
		p.Schedule(time.Now())
		time.Sleep(time.Second)
		require.Len(t, h.ticked(), 2)
		m.end()
	})
}
