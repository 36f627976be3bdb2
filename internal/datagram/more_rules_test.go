package datagram

import (
	"fmt"
	"net"
	"net/netip"
	"runtime"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/stretchr/testify/require"

	"volley/internal/deadline"
	"volley/internal/socket"
	"volley/internal/wire"
)

// A Foreign has one goroutine that writes, however quickly it is given something.
func TestForeignWritesOneAtATime(t *testing.T) {
	for range 50 {
		synctest.Test(t, func(t *testing.T) {
			inner := new(messageConn)
			let := inner.hold()
			s := newConnSocket(inner, 1000, 1000)
			for range 3 {
				for _, d := range []string{"a", "b", "c"} {
					n, err := s.WriteBatch([]socket.Packet{{Buf: []byte(d)}})
					require.NoError(t, err)
					require.Equal(t, 1, n)
				}
				synctest.Wait()
			}
			let()
			synctest.Wait()
			require.Equal(t, []string{"a", "b", "c", "a", "b", "c", "a", "b", "c"}, inner.written())
			require.Equal(t, 1, inner.most)
			require.NoError(t, s.Close())
			n, err := s.WriteBatch([]socket.Packet{{Buf: []byte("late")}})
			require.Equal(t, net.ErrClosed, err)
			require.Zero(t, n)
		})
	}
}

// The time of a pass is that of its first look at the clock, and read again after
// something was sent.
func TestGatheringNow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g Gathering
		for range 2 {
			now := time.Now()
			require.Equal(t, now, g.Now())
			time.Sleep(time.Second)
			require.Equal(t, now, g.Now())
			require.NoError(t, g.Flush())
		}
	})
}

// A flushedSocket has room for some packets in each call.
type flushedSocket struct {
	*countingSocket
	rooms []int // of the calls; then there is room for all
}

func (s *flushedSocket) WriteBatchBy(ps []socket.Packet, d *deadline.Deadline) (int, error) {
	s.room = len(ps)
	if len(s.rooms) > 0 {
		s.room = s.rooms[0]
		s.rooms = s.rooms[1:]
	}
	return s.countingSocket.WriteBatchBy(ps, d)
}

func (s *flushedSocket) Features() socket.Features { return socket.Features{Late: s} }

// Behind what found no room nothing is tried in the same pass, though there may be room
// again: each gets back what is its own.
func TestGatheringLateStops(t *testing.T) {
	for _, room := range []int{62, 63} {
		s := &flushedSocket{&countingSocket{fakeSocket: newFakeSocket()}, []int{room}}
		_, conns := dialMany(t, s, 2)
		var g Gathering
		var many []string
		for i := range 64 { // as many packets as leave in one call
			many = append(many, string(make([]byte, i+1)))
		}
		a, b := gather(&g, conns[0], many...), gather(&g, conns[1], "other")
		require.NoError(t, g.Flush())
		require.Equal(t, many[:room], s.datagrams())
		require.Equal(t, many[room:], a.unsent)
		require.Equal(t, []string{"other"}, b.unsent)
		require.NoError(t, g.Flush())
		require.Len(t, s.sent, room)
	}
}

// A Gathering holds nothing of what it has sent: no Sender and no Mux.
func TestGatheringForgets(t *testing.T) {
	var g Gathering
	pass := func() (weak.Pointer[Mux], weak.Pointer[fakeSender]) {
		m := NewMux(&countingSocket{fakeSocket: newFakeSocket()}, MuxConfig{})
		p, _ := dial(t, m, peerAddr(1))
		s := gather(&g, p, "x")
		require.NoError(t, g.Flush())
		m.Close()
		p.Close()
		return weak.Make(m), weak.Make(s)
	}
	m, s := pass()
	runtime.GC()
	require.Nil(t, m.Value())
	require.Nil(t, s.Value())
	runtime.KeepAlive(&g)

	kept := [][]byte{{1}, {2}}
	(&bufList{kept}).put()
	require.Equal(t, [][]byte{nil, nil}, kept, "lists of what was received hold nothing of it")
}

// The tombstones give room free as soon as anything is added after the time.
func TestGraveyardPurges(t *testing.T) {
	now := time.Unix(1000, 0)
	var g tombstones
	g.init(10)
	for i := range 5 {
		g.add(peerPlace(i), now, now.Add(time.Second))
	}
	require.Len(t, g.oldest, 5)
	later := now.Add(time.Second)
	g.add(peerPlace(9), later, later.Add(time.Second))
	require.Len(t, g.oldest, 1)
	require.Len(t, g.until, 1)
	require.True(t, g.has(peerRoute(9), later.Add(time.Second-1)))
	require.False(t, g.has(peerRoute(9), later.Add(time.Second)))
	require.Nil(t, g.until)
}

// What came before a dialed Conn has its Handler is answered as what comes later.
func TestMuxAnswersEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFakeSocket()
		m := NewMux(s, MuxConfig{})
		m.Start()
		p, err := m.Dial(peerAddr(1))
		require.NoError(t, err)
		s.in <- from(peerAddr(1), "one", "two")
		synctest.Wait()
		require.NoError(t, p.Attach(echoHandler{}))
		require.Equal(t, []string{"one", "two"}, s.datagrams())
		require.Equal(t, peerAddr(1), s.sent[0].Addr)
		m.Close()
		p.Close()
	})
}

// A Peer that is closed, by its own tick too, leaves no alarm behind, which would keep it
// alive.
func TestPeerLeavesNoAlarm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewMux(newFakeSocket(), MuxConfig{})
		p, _ := dial(t, m, peerAddr(1))
		p.Schedule(time.Now().Add(time.Hour))
		require.NotZero(t, m.timers.next.Load())
		p.Close()
		require.Zero(t, m.timers.next.Load())
		p, h := dial(t, m, peerAddr(1))
		h.tick = func(now time.Time, _ *wire.Batch) time.Time {
			p.Close()
			return now.Add(time.Hour)
		}
		p.Schedule(time.Now())
		time.Sleep(time.Second)
		synctest.Wait()
		require.Len(t, h.ticked(), 1)
		require.Zero(t, m.timers.next.Load())
		m.Close()
	})
}

// A caller who reads for a Peer, or for all of a Mux, looks at its deadline again when
// it is interrupted, and not when others are.
func TestInterrupt(t *testing.T) {
	for _, all := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := newSteppedSocket()
			m := NewMux(s, MuxConfig{})
			m.Start()
			p, _ := dial(t, m, peerAddr(1))
			var r InlineReader = p
			if all {
				r = m.Inline()
			}
			var d deadline.Deadline
			mine, others := new(kicked), new(kicked)
			done := make(chan bool, 1)
			go func() { done <- r.ReadInline(&d, mine) }()
			synctest.Wait()
			require.Equal(t, 1, s.reading())
			r.InterruptInline(others)
			synctest.Wait()
			require.Empty(t, done)
			r.InterruptInline(mine)
			require.True(t, <-done)
			m.Close()
			p.Close()
		})
	}
}

// The same for a connection with a socket of its own.
func TestInterruptSingle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s, _ := steppedSingle(true)
		var d deadline.Deadline
		mine := new(kicked)
		done := make(chan bool, 1)
		go func() { done <- c.ReadInline(&d, mine) }()
		synctest.Wait()
		require.Equal(t, 1, s.reading())
		c.InterruptInline(new(kicked))
		synctest.Wait()
		require.Empty(t, done)
		c.InterruptInline(mine)
		require.True(t, <-done)
		require.NoError(t, c.Close())
	})
}

// A closed Single has no tick, not even one that is under way, and no alarm left.
func TestSingleLeavesNoAlarm(t *testing.T) {
	c := NewSingle(newFakeSocket(), nil, 1000)
	h := new(fakeHandler)
	c.handler = h
	c.Schedule(time.Now().Add(time.Hour))
	require.NotZero(t, c.timers.next.Load())
	require.NoError(t, c.Close())
	require.Zero(t, c.timers.next.Load())
	require.Zero(t, c.tick(time.Now()))
	require.Empty(t, h.ticked())
}

// A Single keeps little memory for the answers of its Handler, however large one was.
func TestSingleKeepsLittle(t *testing.T) {
	s := newFakeSocket()
	c := NewSingle(s, nil, 1000)
	size := 0
	c.handler = &fakeHandler{batch: func(_ [][]byte, out *wire.Batch) { out.Append(make([]byte, size)) }}
	for _, n := range []int{100, 50_000, 1000} {
		size = n
		s.sent = nil
		c.handlePackets(time.Now(), from(peerAddr(1), "x"))
		require.Len(t, s.sent, 1)
		require.Len(t, s.sent[0].Buf, n)
		require.LessOrEqual(t, c.out.Cap(), 4<<10)
		require.Equal(t, n < 4<<10, c.out.Cap() > 0)
	}
	require.NoError(t, c.Close())
}

// A packet that comes alone may be a run, one datagram, or empty.
func TestSingleTakesRunsApart(t *testing.T) {
	for want, p := range map[string]socket.Packet{
		"[ab cd]":   {Buf: []byte("abcd"), Segment: 2},
		"[ab cd e]": {Buf: []byte("abcde"), Segment: 2},
		"[abcd]":    {Buf: []byte("abcd"), Segment: 4},
		"[abc]":     {Buf: []byte("abc")},
		"[]":        {},
	} {
		c := NewSingle(newFakeSocket(), nil, 1000)
		h := new(fakeHandler)
		c.handler = h
		for range 2 {
			h.got = nil
			c.handlePackets(time.Now(), []socket.Packet{p})
			require.Equal(t, want, fmt.Sprint(h.received()))
		}
		h.got = nil
		c.handlePackets(time.Now(), append(from(peerAddr(1), "one"), p))
		require.Equal(t, "[one "+want[1:], fmt.Sprint(h.received()))
		require.NoError(t, c.Close())
	}
}

// Behind an error that ends the socket nothing is tried in the same call.
func TestSendStops(t *testing.T) {
	s := &countingSocket{fakeSocket: newFakeSocket()}
	m, conns := dialMany(t, s, 1)
	s.refuses = func(n int) error {
		if n == 1 {
			return net.ErrClosed
		}
		return nil
	}
	require.Equal(t, net.ErrClosed, write(conns[0], "a", "bb", "ccc"))
	require.Equal(t, 1, s.calls)
	require.Equal(t, []string{"a"}, s.datagrams())
	require.EqualValues(t, 1, m.Stats().WriteErrors)
}

// Packets leave in as few calls as may be, and each that fails costs one more; the first
// error is told, though others leave behind it.
func TestSendCalls(t *testing.T) {
	for _, patient := range []bool{false, true} {
		for failing, calls := range map[int]int{-1: 1, 0: 2, 1: 2, 2: 1} {
			s := &countingSocket{fakeSocket: newFakeSocket(), patient: patient}
			m, conns := dialMany(t, s, 1)
			s.refuses = func(n int) error {
				if n == failing {
					return syscall.EMSGSIZE
				}
				return nil
			}
			err := write(conns[0], "a", "bb", "ccc")
			require.Equal(t, failing >= 0, err == syscall.EMSGSIZE)
			require.Equal(t, failing >= 0, m.Stats().WriteErrors == 1)
			require.Equal(t, calls, s.calls)
			require.Len(t, s.sent, 3-min(1, failing+1))
			s.refuses, s.calls = nil, 0
			require.NoError(t, write(conns[0], "x"))
			require.NoError(t, write(conns[0]))
			require.Equal(t, 1, s.calls)
			require.Equal(t, failing >= 0, m.Stats().WriteErrors == 1)
		}
	}
}

// A placedSocket has an address of its own.
type placedSocket struct {
	*fakeSocket
	at net.Addr
}

func (s *placedSocket) LocalAddr() net.Addr { return s.at }

// A Peer's own address is that of the socket, where it is not known to which one the
// other side sends, or the socket has no port.
func TestPeerLocalAddr(t *testing.T) {
	at := &net.UDPAddr{IP: net.IPv4(10, 9, 8, 7), Port: 6}
	for _, test := range []struct {
		socket, want net.Addr
		local        netip.Addr
	}{
		{at, at, netip.Addr{}},
		{testAddr("here"), testAddr("here"), netip.AddrFrom4([4]byte{10, 1, 1, 1})},
		{at, &net.UDPAddr{IP: net.IP{10, 1, 1, 1}, Port: 6}, netip.AddrFrom4([4]byte{10, 1, 1, 1})},
	} {
		m := NewMux(&placedSocket{newFakeSocket(), test.socket}, MuxConfig{})
		p := newPeer(m, route{remote: peerAddr(1), local: test.local})
		require.Equal(t, test.want, p.LocalAddr())
		require.Equal(t, test.socket, m.Addr())
	}
}
