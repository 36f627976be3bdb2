package riptide

import (
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"volley/internal/datagram"
	"volley/internal/socket"

	"volley/internal/testenv"
)

// A nowhere is a socket that takes everything.
type nowhere struct{ done chan struct{} }

func (n nowhere) ReadBatch([]socket.Packet) (int, error)     { <-n.done; return 0, net.ErrClosed }
func (n nowhere) WriteBatch(ps []socket.Packet) (int, error) { return len(ps), nil }
func (n nowhere) LocalAddr() net.Addr                        { return &net.UDPAddr{} }
func (n nowhere) Stats() socket.Stats                        { return socket.Stats{} }
func (n nowhere) Features() socket.Features                  { return socket.Features{} }
func (n nowhere) Close() error                               { close(n.done); return nil }

// manyPeers are connected clients of which nothing is heard.
func manyPeers(tb testing.TB, n int) (s *Server, peers []*Peer) {
	tb.Helper()
	s = &Server{MaxClients: n, Config: &Config{Timeout: -1}}
	require.NoError(tb, s.init())
	m := datagram.NewMux(nowhere{make(chan struct{})}, datagram.MuxConfig{MaxDatagram: 1200})
	for i := range n {
		conn, err := m.Dial(netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}), 1))
		require.NoError(tb, err)
		p := &Peer{server: s, stage: stageGone} // not in the lobby
		p.s.init((*peerOwner)(p), conn, s.set, serverSide, time.Now())
		require.NoError(tb, conn.Attach(&p.s))
		p.s.core.state = stateConnected
		peers = append(peers, p)
	}
	s.list.Store(&peers)
	tb.Cleanup(func() {
		for _, p := range peers {
			p.s.conn.Close()
		}
		m.Close()
	})
	return s, peers
}

func TestBroadcastNoAllocation(t *testing.T) {
	if testenv.Race {
		t.Skip("the race detector changes what is allocated")
	}
	s, _ := manyPeers(t, 100)
	for _, mode := range []Mode{Unreliable, Notify} {
		m := NewMessage(mode, 3)
		Add[uint64](m, 1)
		s.SendAll(m)
		if n := testing.AllocsPerRun(100, func() { s.SendAll(m) }); n > 0 {
			t.Errorf("%v: %v allocations for 100 messages, want 0", mode, n)
		}
	}
}

// BenchmarkBroadcastWithoutSocket is what a message to 1,000 clients costs beside
// the system calls.
func BenchmarkBroadcastWithoutSocket(b *testing.B) {
	s, peers := manyPeers(b, 1000)
	m := NewMessage(Unreliable, 3)
	AddSlice(m, make([]byte, 100))
	b.ReportAllocs()
	for b.Loop() {
		s.SendAll(m)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(peers)), "ns/message")
}
