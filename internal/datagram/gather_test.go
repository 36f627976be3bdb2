package datagram

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"volley/internal/deadline"
	"volley/internal/socket"
	"volley/internal/testenv"
	"volley/internal/wire"
)

// countingSocket counts the calls that write. With patient it is one that does
// not wait for room, of which there is for some packets only.
type countingSocket struct {
	*fakeSocket
	calls   int
	patient bool
	room    int // packets
}

func (s *countingSocket) WriteBatch(ps []socket.Packet) (int, error) {
	s.calls++
	return s.fakeSocket.WriteBatch(ps)
}

func (s *countingSocket) WriteBatchBy(ps []socket.Packet, d *deadline.Deadline) (int, error) {
	n := len(ps)
	if d.Exceeded() {
		n = min(n, s.room)
		s.room -= n
	}
	if k, err := s.WriteBatch(ps[:n]); err != nil {
		return k, err
	}
	if n < len(ps) {
		return n, socket.ErrLate
	}
	return n, nil
}

func (s *countingSocket) WriteOneBy(b []byte, to netip.AddrPort, from netip.Addr, d *deadline.Deadline) error {
	ps := []socket.Packet{{Buf: b, Addr: to, Local: from}}
	if d == nil {
		_, err := s.WriteBatch(ps)
		return err
	}
	_, err := s.WriteBatchBy(ps, d)
	return err
}

func (s *countingSocket) Features() socket.Features {
	var f socket.Features
	if s.patient {
		f.Late = s
	}
	return f
}

// A fakeSender notes what it is told.
type fakeSender struct {
	told   int
	back   int // times it got something back
	unsent []string
	err    error
}

func (s *fakeSender) Sent(unsent *wire.Batch, err error) {
	s.told++
	s.err = err
	if unsent != nil {
		s.back++
		for i := range unsent.Len() {
			s.unsent = append(s.unsent, string(unsent.At(i)))
		}
	}
}

// gather gathers datagrams for p.
func gather(g *Gathering, p *Peer, ds ...string) *fakeSender {
	out := p.Features().Gather.Gather(g)
	for _, d := range ds {
		out.Append([]byte(d))
	}
	s := new(fakeSender)
	p.Gathered(g, s)
	return s
}

func dialMany(t *testing.T, s socket.Socket, n int) (m *Mux, conns []*Peer) {
	t.Helper()
	m = NewMux(s, MuxConfig{})
	for i := range n {
		p, _ := dial(t, m, peerAddr(i))
		conns = append(conns, p)
	}
	t.Cleanup(func() {
		m.Close()
		for _, p := range conns {
			p.Close()
		}
	})
	return m, conns
}

// What is gathered for many peers of a Mux leaves in one pass: each gets its own,
// in order and in runs, and passing errors keep nobody else from getting theirs.
func TestGathering(t *testing.T) {
	s := &countingSocket{fakeSocket: newFakeSocket()}
	const peers = 130
	m, conns := dialMany(t, s, peers)
	s.refuses = func(n int) error {
		if n == 5 {
			return syscall.EMSGSIZE
		}
		return nil
	}
	var g Gathering
	var senders []*fakeSender
	for i, p := range conns {
		senders = append(senders, gather(&g, p, fmt.Sprintf("one %03d", i), fmt.Sprintf("two %03d", i)))
	}
	require.Equal(t, 2, s.calls-1, "calls beside the one for the packet that was refused") // for 64 each
	require.NoError(t, g.Flush())
	require.EqualValues(t, 1, m.Stats().WriteErrors)
	require.Len(t, s.sent, peers-1)
	for _, p := range s.sent {
		i := int(p.Addr.Addr().As4()[3])
		require.Equal(t, fmt.Sprintf("one %03dtwo %03d", i, i), string(p.Buf))
		require.Equal(t, 7, p.Segment)
	}
	for _, s := range senders {
		require.Equal(t, &fakeSender{told: 1}, s)
	}
	require.LessOrEqual(t, s.calls, peers/gatherPackets+2)
	require.NoError(t, g.Flush())
	require.LessOrEqual(t, s.calls, peers/gatherPackets+2)

	// The time is read again for what leaves later.
	now := g.Now()
	require.Equal(t, now, g.Now())
	for range gatherPackets {
		gather(&g, conns[0], "x")
	}
	require.Equal(t, now, g.now)
	gather(&g, conns[0], "x")
	require.True(t, g.now.IsZero())
	g.Now()
	g.Flush()
	require.True(t, g.now.IsZero())
}

// Each of several sockets gets its own, as many as there are.
func TestGatheringManySockets(t *testing.T) {
	var sockets []*countingSocket
	var conns []*Peer
	for range gatherLanes + 3 {
		s := &countingSocket{fakeSocket: newFakeSocket()}
		_, two := dialMany(t, s, 2)
		sockets, conns = append(sockets, s), append(conns, two...)
	}
	var g Gathering
	for round := range 3 {
		for k := range 2 { // alternating
			for i := range sockets[:gatherLanes-round] {
				gather(&g, conns[2*i+k], "x")
			}
		}
		require.NoError(t, g.Flush())
		for _, s := range sockets[:gatherLanes-round] {
			require.Equal(t, 1, s.calls)
			require.Len(t, s.sent, 2)
			s.calls, s.sent = 0, nil
		}
	}
	for _, p := range conns {
		gather(&g, p, "x")
	}
	require.NoError(t, g.Flush())
	for _, s := range sockets {
		require.Len(t, s.sent, 2)
	}
}

// More than is kept leaves early, and large messages in several packets.
func TestGatheringMuch(t *testing.T) {
	s := &countingSocket{fakeSocket: newFakeSocket()}
	_, conns := dialMany(t, s, 1)
	var g Gathering
	for range 4 {
		gather(&g, conns[0], string(make([]byte, gatherBytes/4)))
	}
	require.Empty(t, s.sent)
	gather(&g, conns[0], "x")
	require.Len(t, s.sent, 4)
	var different []string
	for i := range 3 * gatherPackets {
		different = append(different, string(make([]byte, i+1))) // no runs
	}
	sender := gather(&g, conns[0], different...)
	require.NoError(t, g.Flush())
	require.Len(t, s.datagrams(), 5+len(different))
	require.Equal(t, 1, sender.told)
}

// What finds no room in the socket goes back to who gathered it, datagram by
// datagram; what nobody wants back waits.
func TestGatheringLate(t *testing.T) {
	for room := range 7 {
		s := &countingSocket{fakeSocket: newFakeSocket(), patient: true, room: room}
		_, conns := dialMany(t, s, 3)
		var g Gathering
		var senders []*fakeSender
		for i, p := range conns {
			senders = append(senders, gather(&g, p, fmt.Sprintf("%d long", i), fmt.Sprintf("%d longer", i)))
		}
		require.NoError(t, g.Flush())
		var all []string
		for i, sender := range senders {
			require.Equal(t, 1, sender.told)
			require.NoError(t, sender.err)
			require.Len(t, sender.unsent, min(2, max(0, 2*(i+1)-room)), "room for %d, peer %d", room, i)
			require.Equal(t, len(sender.unsent) > 0, sender.back == 1)
			all = append(all, sender.unsent...)
		}
		require.Equal(t, []string{"0 long", "0 longer", "1 long", "1 longer", "2 long", "2 longer"}, append(s.datagrams(), all...))

		s.room = 0
		s.sent = nil
		conns[0].Gather(&g).Append([]byte("waits"))
		conns[0].Gathered(&g, nil)
		require.NoError(t, g.Flush())
		require.Equal(t, []string{"waits"}, s.datagrams())
	}
}

// A socket that is gone is told to those who have gathered for it, and by Flush,
// once.
func TestGatheringBroken(t *testing.T) {
	s := &countingSocket{fakeSocket: newFakeSocket()}
	s.refuses = func(int) error { return net.ErrClosed }
	_, conns := dialMany(t, s, 2)
	whole := &countingSocket{fakeSocket: newFakeSocket()}
	_, others := dialMany(t, whole, 1)
	var g Gathering
	a, b, c := gather(&g, conns[0], "x"), gather(&g, others[0], "x"), gather(&g, conns[1], "x")
	require.ErrorIs(t, g.Flush(), net.ErrClosed)
	require.ErrorIs(t, a.err, net.ErrClosed)
	require.ErrorIs(t, c.err, net.ErrClosed)
	require.NoError(t, b.err)
	require.Len(t, whole.sent, 1)
	require.NoError(t, g.Flush())
	gather(&g, conns[0], "x")
	require.True(t, errors.Is(g.Flush(), net.ErrClosed))
}

func TestGatheringNoAllocation(t *testing.T) {
	if testenv.Race {
		t.Skip("the race detector changes what is allocated")
	}
	_, conns := dialMany(t, nullSocket{}, 100)
	_, others := dialMany(t, nullSocket{}, 100)
	var g Gathering
	d := make([]byte, 100)
	if n := testing.AllocsPerRun(100, func() {
		for i, p := range conns {
			p.Gather(&g).Append(d)
			p.Gathered(&g, nil)
			others[i].Gather(&g).Append(d)
			others[i].Gathered(&g, nil)
		}
		g.Flush()
	}); n > 0 {
		t.Errorf("%v allocations for a pass, want 0", n)
	}
}

// A batch of one datagram goes a shorter way than others, with the same results.
func TestWriteOneDatagram(t *testing.T) {
	for _, datagrams := range []int{1, 2} {
		s := &countingSocket{fakeSocket: newFakeSocket(), patient: true}
		m, conns := dialMany(t, s, 2)
		var b wire.Batch
		for i := range datagrams {
			b.Append(make([]byte, i+1))
		}
		var passed, none deadline.Deadline
		passed.Expire()
		n, err := conns[1].WriteBatchBy(&b, &passed)
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
		require.Zero(t, n)
		require.Zero(t, m.Stats().WriteErrors)
		require.Empty(t, s.sent)

		s.refuses = func(int) error { return syscall.EMSGSIZE }
		n, err = conns[1].WriteBatchBy(&b, &none)
		require.ErrorIs(t, err, syscall.EMSGSIZE)
		require.Equal(t, datagrams, n)
		require.EqualValues(t, datagrams, m.Stats().WriteErrors)

		s.refuses = nil
		n, err = conns[1].WriteBatchBy(&b, &none)
		require.NoError(t, err)
		require.Equal(t, datagrams, n)
		require.NoError(t, conns[1].WriteBatch(&b))
		require.Len(t, s.sent, 2*datagrams)
		for _, p := range s.sent {
			require.Equal(t, peerAddr(1), p.Addr)
		}
		b.Reset()
		n, err = conns[1].WriteBatchBy(&b, &none)
		require.NoError(t, err)
		require.Zero(t, n)
	}
}

// Of several datagrams that go one by one, those for which there was room in time
// are told.
func TestWriteWithoutRoom(t *testing.T) {
	for room := range 4 {
		s := &countingSocket{fakeSocket: newFakeSocket(), patient: true, room: room}
		_, conns := dialMany(t, s, 1)
		var b wire.Batch
		for i := range 3 {
			b.Append(make([]byte, i+1))
		}
		var passed deadline.Deadline
		passed.Expire()
		n, err := conns[0].WriteBatchBy(&b, &passed)
		require.Equal(t, room, n)
		require.Len(t, s.sent, room)
		if room < 3 {
			require.ErrorIs(t, err, os.ErrDeadlineExceeded)
		} else {
			require.NoError(t, err)
		}
	}
}
