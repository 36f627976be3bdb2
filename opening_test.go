package volley

import (
	"bytes"
	"context"
	"net"
	"net/netip"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"volley/internal/listen"
	"volley/internal/socket"
	"volley/internal/testenv"
	"volley/reliable"
)

// An openingSocket receives first datagrams of so many peers, seven at a time: where
// a read leaves more behind, not all strangers are let in.
type openingSocket struct {
	left    int
	peers   uint32
	opening []byte
	drops   uint32        // what packets tell
	asked   atomic.Int64  // calls of Stats
	over    chan struct{} // closed when there are no more
	closed  chan struct{}
}

func newOpeningSocket(n int) *openingSocket {
	return &openingSocket{
		left: n, over: make(chan struct{}), closed: make(chan struct{}),
		opening: append(reliable.AppendHeader(nil, reliable.Header{Ack: 65535}), make([]byte, 32)...),
	}
}

func (s *openingSocket) ReadBatch(ps []socket.Packet) (n int, err error) {
	for ; n < min(len(ps), 7) && s.left > 0; n++ {
		s.left--
		s.peers++
		addr := netip.AddrFrom4([4]byte{10, byte(s.peers >> 16), byte(s.peers >> 8), byte(s.peers)})
		ps[n] = socket.Packet{Buf: s.opening, Addr: netip.AddrPortFrom(addr, 7), Drops: s.drops}
	}
	if n == 0 {
		close(s.over)
		<-s.closed
		return 0, net.ErrClosed
	}
	return n, nil
}

func (s *openingSocket) WriteBatch(ps []socket.Packet) (int, error) { return len(ps), nil }
func (s *openingSocket) LocalAddr() net.Addr                        { return &net.UDPAddr{} }
func (s *openingSocket) Features() socket.Features                  { return socket.Features{Drops: true} }
func (s *openingSocket) Close() error                               { close(s.closed); return nil }

func (s *openingSocket) Stats() socket.Stats {
	s.asked.Add(1)
	return socket.Stats{}
}

// A stranger's first message makes a connection without a system call beside the read,
// which a flood would multiply: what the socket has dropped before, its packet tells.
func TestOpeningAsksNothing(t *testing.T) {
	lc := ListenConfig{}
	l, err := lc.newListener()
	require.NoError(t, err)
	s := newOpeningSocket(1)
	s.drops = 93
	l.serve(listen.PortOf(s))
	asked := s.asked.Load()
	c, err := l.AcceptConn(context.Background())
	require.NoError(t, err)
	require.Equal(t, asked, s.asked.Load())
	require.EqualValues(t, 93, c.extra().earlier.drops)
	require.NoError(t, c.Close())
	require.NoError(t, l.Close())
}

// BenchmarkStranger is what it costs, beside the system calls, to judge a datagram of an
// address without a connection that does not open one. Each comes from another address.
func BenchmarkStranger(b *testing.B) {
	opening := newOpeningSocket(0).opening
	hello := make([]byte, greetingSize)
	salute{token: 1}.put(hello, helloPrefix)
	answer := make([]byte, greetingSize)
	salute{token: 1, echo: 1<<8 | 1}.put(answer, answerPrefix) // of this epoch, so that it is looked at
	for _, bb := range []struct {
		name string
		data []byte
	}{
		{"garbage", bytes.Repeat([]byte{0xfe}, 100)},
		{"short", []byte{0}},
		{"damaged", opening[:5]},
		{"hello of an ended connection", hello},
		{"forged answer", answer},
		{"mid-stream", append(reliable.AppendHeader(nil, reliable.Header{Sequence: 9, Ack: 7, AckBits: 1}), make([]byte, 32)...)},
	} {
		b.Run(bb.name, func(b *testing.B) {
			var lc ListenConfig
			l, err := lc.newListener()
			require.NoError(b, err)
			l.set.departed.add(1)
			s := newOpeningSocket(b.N)
			s.opening = bb.data
			b.ReportAllocs()
			start := testenv.CPUTime()
			l.serve(listen.PortOf(s))
			<-s.over
			b.StopTimer()
			b.ReportMetric(float64(testenv.CPUTime()-start)/float64(b.N), "cpu-ns/op")
			require.EqualValues(b, b.N, l.Stats().Unknown)
			require.NoError(b, l.Close())
		})
	}
}

// BenchmarkOpening is what it costs, beside the system calls, that a stranger's first
// message becomes a connection, up to Accept.
func BenchmarkOpening(b *testing.B) {
	lc := ListenConfig{MaxConns: -1, Backlog: -1, MaxMemory: -1}
	l, err := lc.newListener()
	require.NoError(b, err)
	s := newOpeningSocket(b.N)
	b.ReportAllocs()
	start := testenv.CPUTime()
	l.serve(listen.PortOf(s))
	conns := make([]*Conn, b.N)
	for i := range conns {
		conns[i], err = l.AcceptConn(context.Background())
		require.NoError(b, err)
	}
	b.StopTimer()
	b.ReportMetric(float64(testenv.CPUTime()-start)/float64(b.N), "cpu-ns/op")
	for _, c := range conns {
		c.Close()
	}
	require.NoError(b, l.Close())
}
