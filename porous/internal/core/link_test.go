package core

import (
	"cmp"
	"encoding/binary"
	"flag"
	"fmt"
	"slices"
	"testing"
	"time"
)

// The tests of this file and of those that use it measure over the link of the
// figures in docs/porous.md: 20 Mbit/s, 25 ms each way, a queue of one
// bandwidth-delay product, and random loss in both directions.

var seeds = flag.Int("seeds", 3, "how many times each figure is measured")

func theLink(loss float64) simLink {
	return simLink{delay: 25 * time.Millisecond, rate: 20e6 / 8, queue: 125_000, loss: loss}
}

// median returns the median of what f returns for each seed.
func median[T cmp.Ordered](n int, f func(seed uint64) T) T {
	var list []T
	for i := range n {
		list = append(list, f(uint64(i+1)))
	}
	slices.Sort(list)
	return list[len(list)/2]
}

// A flow sends packets of 16 KiB as long as there is room, and counts what
// arrives.
type flow struct {
	from, to *simNode
	bytes    int
}

// quiet keeps a node from recording.
func (n *simNode) quiet() {
	n.onPacket = func(int, []byte) {}
	n.silent = true
}

func newFlow(a, b *simNode) *flow {
	f := &flow{from: a, to: b}
	a.quiet()
	b.quiet()
	b.onPacket = func(_ int, p []byte) { f.bytes += len(p) }
	f.fill()
	return f
}

func (f *flow) fill() {
	s := f.from.s
	msg := make([]byte, 16<<10)
	for {
		if _, ok := f.from.p.Send(s.now, 0, msg, Reliable, 0); !ok {
			break
		}
	}
	f.from.transmit()
	s.at(s.now+10*time.Millisecond, f.fill)
}

// rate returns the goodput in Mbit/s since n bytes, over a duration.
func (f *flow) rate(n int, d time.Duration) float64 { return float64(f.bytes-n) * 8e-6 / d.Seconds() }

type bulkResult struct {
	goodput    float64 // Mbit/s
	duplicates float64 // share of the data frames that had arrived before
	stats      Stats
}

// bulk measures a bulk transfer of ten seconds.
func bulk(t testing.TB, seed uint64, cfg *Config, link simLink) (r bulkResult) {
	s := newSim(seed, cfg, cfg, link)
	s.connect(t)
	s.run(2 * time.Second)
	f := newFlow(s.a, s.b)
	s.run(10 * time.Second)
	r.goodput = f.rate(0, 10*time.Second)
	r.stats = s.a.p.Stats()
	b := s.b.p.Stats()
	r.duplicates = float64(b.Duplicates) / float64(b.Accepted)
	return r
}

type streamResult struct {
	p50, p90, p99, most time.Duration // one way
	bytes               int           // on the wire, from the sender
	duplicates          float64
}

func (r streamResult) String() string {
	ms := func(d time.Duration) float64 { return d.Seconds() * 1e3 }
	return fmt.Sprintf("%.1f/%.1f/%.1f/%.1f ms, %d bytes, %.1f%% duplicates", ms(r.p50), ms(r.p90), ms(r.p99), ms(r.most), r.bytes, 100*r.duplicates)
}

// stream measures 1200 messages of 200 bytes at 60 Hz, whose payload says when
// they were sent.
func stream(t testing.TB, seed uint64, cfg *Config, link simLink) (r streamResult) {
	const total = 1200
	s := newSim(seed, cfg, cfg, link)
	s.connect(t)
	s.run(2 * time.Second)
	s.a.quiet()
	s.b.quiet()
	var list []time.Duration
	s.b.onPacket = func(_ int, p []byte) {
		list = append(list, s.now-Clock(binary.BigEndian.Uint64(p)))
	}
	before := s.a.link.bytes
	sent := 0
	var send func()
	send = func() {
		b := make([]byte, 200)
		binary.BigEndian.PutUint64(b, uint64(s.now))
		if _, ok := s.a.p.Send(s.now, 0, b, Reliable, 0); !ok {
			t.Fatal("no room")
		}
		s.a.transmit()
		if sent++; sent < total {
			s.at(s.now+time.Second/60, send)
		}
	}
	send()
	s.until(t, time.Hour, func() bool { return len(list) == total })
	s.run(time.Second)
	r.bytes = s.a.link.bytes - before
	slices.Sort(list)
	at := func(q float64) time.Duration { return list[min(int(q*total), total-1)] }
	r.p50, r.p90, r.p99, r.most = at(.5), at(.9), at(.99), at(1)
	b := s.b.p.Stats()
	r.duplicates = float64(b.Duplicates) / total
	return r
}
