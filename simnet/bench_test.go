package simnet

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"volley/internal/testenv"
)

// BenchmarkDatagram sends datagrams one at a time over a link without delay.
func BenchmarkDatagram(b *testing.B) {
	for _, size := range []int{64, 1024, 16 << 10} {
		b.Run(fmt.Sprintf("%dB", size), func(b *testing.B) {
			benchmarkPair(b, Link{}, size)
		})
	}
	b.Run("impaired", func(b *testing.B) {
		benchmarkPair(b, Link{Burst: Bursts(0.01, 2), Duplicate: 0.01, Corrupt: 0.01, Bandwidth: 1e12, QueueBytes: -1}, 1024)
	})
}

// benchmarkPair sends batches of 32, and reads what has arrived.
func benchmarkPair(b *testing.B, l Link, size int) {
	src, dst := Pair(1, l, Link{})
	defer src.Close()
	defer dst.Close()
	dst.SetReadBuffer(1 << 30)
	out, in := make([]byte, size), make([]byte, size)
	b.SetBytes(int64(size))
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		src.Write(out)
		if i%32 == 31 {
			for p := dst.queued(); p > 0; p-- {
				dst.Read(in)
			}
		}
	}
}

// BenchmarkDelayed sends datagrams over a link with latency and jitter, 1000
// of them under way at any time, in virtual time.
func BenchmarkDelayed(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		runDelayed(b, 10_000)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/10_000, "ns/datagram")
}

func runDelayed(b *testing.B, count int) {
	n := New(1)
	n.SetDefault(Link{Latency: 50 * ms, Jitter: 20 * ms})
	src, _ := n.Listen(":1")
	dst, _ := n.Listen(":2")
	defer n.Close()
	dst.SetReadBuffer(1 << 30)
	now := time.Duration(0)
	out, in := make([]byte, 100), make([]byte, 100)
	n.mu.Lock()
	f := n.flow(src.ends[0].addr, dst.ends[0].addr)
	for range count {
		now += 50 * time.Microsecond
		n.deliverDue(now)
		n.transmit(f, out, now)
	}
	n.deliverDue(now + time.Second)
	n.mu.Unlock()
	for range count {
		dst.Read(in)
	}
}

func (c *Conn) queued() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.queue.len()
}

// TestAllocs checks that the steady state allocates nothing, with and without
// delay.
func TestAllocs(t *testing.T) {
	if testenv.Race {
		t.Skip("sync.Pool drops items at random under the race detector")
	}
	for _, l := range []Link{{}, {Latency: 5 * ms, Jitter: ms, Bandwidth: 1e9}} {
		synctest.Test(t, func(t *testing.T) {
			a, b := pair(t, 1, l, Link{})
			out, in := make([]byte, 1000), make([]byte, 1000)
			round := func() {
				for range 10 {
					a.Write(out)
				}
				b.SetReadDeadline(time.Now().Add(time.Second))
				for range 10 {
					if _, _, err := b.ReadFromUDPAddrPort(in); err != nil {
						t.Fatal(err)
					}
				}
			}
			round()
			if got := testing.AllocsPerRun(100, round); got > 1 {
				t.Errorf("%+v: %v allocations for 10 datagrams, want at most 1", l, got)
			}
		})
	}
}
