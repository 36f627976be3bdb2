package core

import (
	"fmt"
	"testing"
	"time"

	"volley/internal/wire"
)

// A sinkhole is a Handler that looks at nothing.
type sinkhole struct{ packets, fates int }

func (h *sinkhole) HandlePacket(int, []byte)  { h.packets++ }
func (h *sinkhole) HandleFate(Fate)           { h.fates++ }
func (h *sinkhole) HandleEvent(Event)         {}
func (h *sinkhole) Unread(int) (one, all int) { return 0, 0 }

// BenchmarkPeers sends reliable messages from one peer to another in memory, a
// run of frames at a time: what both cores take for a message, acknowledgements
// included.
func BenchmarkPeers(b *testing.B) {
	for _, size := range []int{64, 1024} {
		b.Run(fmt.Sprint(size), func(b *testing.B) { benchmarkPeers(b, size) })
	}
}

func benchmarkPeers(b *testing.B, size int) {
	const (
		rtt   = 200 * time.Microsecond
		batch = 256
	)
	cfg := DefaultConfig(0)
	var hx, hy sinkhole
	var x, y Peer
	var out, back wire.Batch
	x.Init(0, &cfg, 1000, &hx)
	y.Init(0, &cfg, 2000, &hy)
	x.Tick(0, &out)
	y.Tick(0, &back)
	hand := func(now Clock, from *wire.Batch, to *Peer, answers *wire.Batch) {
		for i := range from.Len() {
			to.Receive(now, from.At(i), answers)
		}
		from.Reset()
		to.EndBatch(now, answers)
	}
	now := Clock(0)
	for range 4 {
		hand(now, &out, &y, &back)
		hand(now, &back, &x, &out)
		now += rtt
	}
	msg := make([]byte, size)
	b.ReportAllocs()
	b.ResetTimer()
	for sent := 0; hx.fates < b.N; {
		for range min(batch, b.N-sent) {
			if _, ok := x.Send(now, 0, msg, Reliable, 0); !ok {
				break
			}
			sent++
		}
		x.Transmit(now, &out, 40)
		now += rtt / 2
		hand(now, &out, &y, &back)
		now += rtt / 2
		y.Transmit(now, &back, 40) // window acknowledgements
		hand(now, &back, &x, &out)
		x.Tick(now, &out)
	}
	b.ReportMetric(float64(hx.fates)/float64(x.Stats().FramesSent), "msgs/frame")
}
