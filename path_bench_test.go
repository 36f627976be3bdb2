package volley

import (
	"fmt"
	"net"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"volley/internal/datagram"
	"volley/internal/deadline"
	"volley/internal/wire"
)

// A hop is a network that keeps what comes until deliver is called.
type hop struct {
	up     datagram.Handler
	other  *hop
	mu     sync.Mutex
	came   wire.Batch // guarded by mu
	bufs   [][]byte
	answer wire.Batch
}

func (h *hop) Attach(up datagram.Handler) error        { h.up = up; return nil }
func (h *hop) MaxDatagram() int                        { return datagram.MaxUDP }
func (h *hop) WaitWritable(int, <-chan struct{}) error { return nil }
func (h *hop) Schedule(time.Time)                      {}
func (h *hop) LocalAddr() net.Addr                     { return &net.UDPAddr{} }
func (h *hop) RemoteAddr() net.Addr                    { return &net.UDPAddr{} }
func (h *hop) Stats() datagram.Stats                   { return datagram.Stats{} }
func (h *hop) Features() datagram.Features             { return datagram.Features{} }
func (h *hop) Close() error                            { return nil }
func (h *hop) WriteBatch(b *wire.Batch) error          { _, err := h.WriteBatchBy(b, nil); return err }

func (h *hop) WriteBatchBy(b *wire.Batch, _ *deadline.Deadline) (int, error) {
	h.other.mu.Lock()
	defer h.other.mu.Unlock()
	for i := range b.Len() {
		h.other.came.Append(b.At(i))
	}
	return b.Len(), nil
}

// deliver hands over what has come.
func (h *hop) deliver() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.came.Len() == 0 {
		return
	}
	h.bufs = h.bufs[:0]
	for i := range h.came.Len() {
		h.bufs = append(h.bufs, h.came.At(i))
	}
	h.up.HandleBatch(time.Now(), h.bufs, &h.answer)
	h.came.Reset()
	if h.answer.Len() > 0 {
		h.WriteBatch(&h.answer)
		h.answer.Reset()
	}
}

// hopPair returns two connections with nothing between them.
func hopPair(b *testing.B) (from, to *Conn, x, y *hop) {
	set, err := newSettings(nil, datagram.MaxUDP, nil)
	require.NoError(b, err)
	x, y = new(hop), new(hop)
	x.other, y.other = y, x
	from, to = new(Conn), new(Conn)
	require.NoError(b, from.start(x, set, nil))
	require.NoError(b, to.start(y, set, nil))
	b.Cleanup(func() { from.Close(); to.Close() })
	return from, to, x, y
}

// BenchmarkFloodWithoutSocket is what a message of a flood costs beside the
// system calls, from Write to Read.
func BenchmarkFloodWithoutSocket(b *testing.B) {
	const burst = 112 // less than what makes a Write send the queue itself
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	for _, size := range []int{64, 256, 1200} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			from, to, back, forth := hopPair(b)
			msg, buf := make([]byte, size), make([]byte, size)
			b.ReportAllocs()
			start, n := cpuTime(), 0
			for b.Loop() {
				from.Write(msg)
				if n++; n%burst > 0 {
					continue
				}
				runtime.Gosched() // what is queued leaves
				forth.deliver()
				for unread(to) > 0 {
					to.Read(buf)
				}
				back.deliver()
			}
			b.ReportMetric(float64(cpuTime()-start)/float64(b.N), "cpu-ns/op")
		})
	}
}

func unread(c *Conn) int { return c.user.In.Len() }
