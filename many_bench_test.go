package volley

import (
	"net"
	"net/netip"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"volley/internal/datagram"
	"volley/internal/socket"
)

// A nowhere is a socket that takes everything.
type nowhere struct{ done chan struct{} }

func (n nowhere) ReadBatch([]socket.Packet) (int, error)     { <-n.done; return 0, net.ErrClosed }
func (n nowhere) WriteBatch(ps []socket.Packet) (int, error) { return len(ps), nil }
func (n nowhere) LocalAddr() net.Addr                        { return &net.UDPAddr{} }
func (n nowhere) Stats() socket.Stats                        { return socket.Stats{} }
func (n nowhere) Features() socket.Features                  { return socket.Features{} }
func (n nowhere) Close() error                               { close(n.done); return nil }

// BenchmarkWriteAllWithoutSocket is what WriteAll costs beside the system calls,
// for 1,000 connections.
func BenchmarkWriteAllWithoutSocket(b *testing.B) {
	m := datagram.NewMux(nowhere{make(chan struct{})}, datagram.MuxConfig{MaxDatagram: datagram.MaxUDP})
	defer m.Close()
	set, err := newSettings(nil, datagram.MaxUDP, nil)
	require.NoError(b, err)
	var conns []*Conn
	for i := range 1000 {
		p, err := m.Dial(netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}), 1))
		require.NoError(b, err)
		c := new(Conn)
		require.NoError(b, c.start(p, set, nil))
		defer c.Close()
		conns = append(conns, c)
	}
	all := slices.Values(conns)
	msg := make([]byte, 200)
	for range 300 {
		WriteAll(msg, all) // the windows grow
	}
	b.ReportAllocs()
	for b.Loop() {
		WriteAll(msg, all)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(conns)), "ns/message")
}
