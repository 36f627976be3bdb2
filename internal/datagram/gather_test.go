package datagram

import (
	"errors"
	"fmt"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"volley/internal/socket"
	"volley/internal/wire"
)

// countingSocket counts the calls that write.
type countingSocket struct {
	*fakeSocket
	calls int
}

func (s *countingSocket) WriteBatch(ps []socket.Packet) (int, error) {
	s.calls++
	return s.fakeSocket.WriteBatch(ps)
}

// What is gathered for many peers of a Mux leaves in one pass: each gets its own,
// in order and in runs, errors keep nobody else from getting theirs, and Conns
// that cannot gather are written to at once.
func TestGathering(t *testing.T) {
	s := &countingSocket{fakeSocket: newFakeSocket()}
	m := NewMux(s, MuxConfig{})
	m.Start()
	const peers = 130
	var conns []*Peer
	for i := range peers {
		p, _ := dial(t, m, peerAddr(i))
		conns = append(conns, p)
	}
	x, y := NewPipe(testAddr("a"), testAddr("b"))
	h := new(fakeHandler)
	require.NoError(t, y.Attach(h))

	s.refuses = func(n int) error {
		if n == 5 {
			return syscall.EMSGSIZE
		}
		return nil
	}
	var g Gathering
	var b wire.Batch
	for i, p := range conns {
		b.Reset()
		b.Append(fmt.Appendf(nil, "one %03d", i))
		b.Append(fmt.Appendf(nil, "two %03d", i))
		g.Write(p, &b)
	}
	g.Write(conns[0], new(wire.Batch))
	require.Zero(t, s.calls)
	g.Write(x, &b)
	require.Len(t, h.received(), 2)
	err := g.Flush()
	require.True(t, errors.Is(err, syscall.EMSGSIZE), "Flush = %v", err)
	require.EqualValues(t, 1, m.Stats().WriteErrors)
	require.Len(t, s.sent, peers-1)
	for _, p := range s.sent {
		i := int(p.Addr.Addr().As4()[3])
		require.Equal(t, fmt.Sprintf("one %03dtwo %03d", i, i), string(p.Buf))
		require.Equal(t, 7, p.Segment)
	}
	require.LessOrEqual(t, s.calls, peers/gatherPackets+2)
	require.NoError(t, g.Flush())

	// Of several sockets each gets its own, and more than fits leaves early.
	s2 := newFakeSocket()
	m2 := NewMux(s2, MuxConfig{})
	q, _ := dial(t, m2, peerAddr(1))
	s.sent, s.calls = nil, 0
	b.Reset()
	b.Append([]byte("x"))
	g.Write(conns[0], &b)
	g.Write(q, &b)
	require.Len(t, s.sent, 1)
	require.NoError(t, g.Flush())
	require.Len(t, s2.sent, 1)
	b.Reset()
	b.Append(make([]byte, gatherBytes/4+1))
	for range 4 {
		g.Write(conns[0], &b)
	}
	require.Len(t, s.sent, 4)
	require.NoError(t, g.Flush())
	require.Len(t, s.sent, 5)

	m.Close()
	m2.Close()
	q.Close()
	for _, p := range conns {
		p.Close()
	}
}

func TestGatheringNoAllocation(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector changes what is allocated")
	}
	m := NewMux(nullSocket{}, MuxConfig{})
	var conns []*Peer
	for i := range 100 {
		p, _ := dial(t, m, peerAddr(i))
		conns = append(conns, p)
	}
	var g Gathering
	var b wire.Batch
	b.Append(make([]byte, 100))
	if n := testing.AllocsPerRun(100, func() {
		for _, p := range conns {
			g.Write(p, &b)
		}
		g.Flush()
	}); n > 0 {
		t.Errorf("%v allocations for a pass, want 0", n)
	}
}
