package core

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// TestRecordedControllers compares the windows and rates of the controllers with a
// recording: over paths whose rate and delay change, with losses, timeouts,
// applications that send little, limits, and losses that were none.
func TestRecordedControllers(t *testing.T) {
	f := openTrace(t, "controllers")
	for _, mtu := range []int{500, MTU1, MTU0, 9000} {
		for kind, name := range []string{"cubic", "paper", "tolerant", "cubic with redundancy"} {
			for seed := range uint64(3) {
				f.scene(t, fmt.Sprintf("%s, mtu %d, seed %d", name, mtu, seed), func(r *notebook) {
					c := DefaultConfig(0)
					c.MTU, c.Controller, c.Redundancy = mtu, ControllerKind(kind%3), kind == 3
					playController(r, newController(&c, uint32(seed*7+uint64(mtu))), seed)
				})
			}
		}
	}
}

// A controlled is a controller on a path of a rate, a delay, and a queue.
type controlled struct {
	c     Controller
	r     *notebook
	rand  *rand.Rand
	now   Clock
	rate  float64
	least time.Duration
	queue int // bytes, the most
	loss  float64
	idle  float64 // how often the application is the limit
	since Clock   // of the first loss without an acknowledgement

	bandwidth uint64
	avg       time.Duration
	dropped   []Clock
}

func playController(r *notebook, c Controller, seed uint64) {
	m := &controlled{c: c, r: r, rand: rand.New(rand.NewPCG(seed, 9)), bandwidth: NoBandwidthLimit, avg: firstRTT, now: ms(5)}
	for i, path := range []struct {
		rate      float64
		least     time.Duration
		queue     int
		loss      float64
		idle      float64
		bandwidth uint64
	}{
		{1e6, 50 * time.Millisecond, 50_000, 0, 0, NoBandwidthLimit},
		{1e6, 50 * time.Millisecond, 50_000, 0.01, 0.2, NoBandwidthLimit},
		{4e6, 50 * time.Millisecond, 20_000, 0.002, 0, NoBandwidthLimit},
		{8e5, 15 * time.Millisecond, 30_000, 0, 0, NoBandwidthLimit},
		{3e6, 150 * time.Millisecond, 100_000, 0, 0, NoBandwidthLimit},
		{2e6, 90 * time.Millisecond, 400_000, 0, 0, NoBandwidthLimit},
		{2e5, 80 * time.Millisecond, 40_000, 0, 0.1, NoBandwidthLimit - 1},
		{5e6, 10 * time.Millisecond, 9_000, 0.001, 0.7, 3_000_000},
		{3e4, 300 * time.Millisecond, 100_000, 0, 0, 20_000},
		{2e6, 20 * time.Millisecond, 300_000, 0.05, 0, 1 << 31},
		{2e6, 400 * time.Microsecond, 6_000, 0, 0.05, NoBandwidthLimit + 5},
		{3e8, 150 * time.Millisecond, 1 << 28, 0, 0, NoBandwidthLimit},
	} {
		m.rate, m.least, m.queue, m.loss, m.idle, m.bandwidth = path.rate, path.least, path.queue, path.loss, path.idle, path.bandwidth
		if i%2 == 1 {
			m.now += time.Second
			c.HandleTimeout(m.now)
			m.note('t')
		}
		for range 200 {
			m.step(i)
		}
		r.phases = append(r.phases, fmt.Sprintf("path %d %08x %v, window %d, rate %d, reduced %v", i+1, r.digest>>32, m.now, c.Window(), int64(c.Rate()), c.Reduced()))
		r.digest = 0
	}
}

// step is an acknowledgement of a part of the window, or a loss, and what may come
// with it.
func (m *controlled) step(path int) {
	w := m.c.Window()
	full := int(m.rate * m.least.Seconds())
	over := min(max(0, w-full), m.queue)
	rtt := m.least + time.Duration(float64(over)/m.rate*1e9) + time.Duration(m.rand.Uint64N(uint64(m.least/16)))
	parts := 1 + m.rand.IntN(12)
	limited := m.rand.Float64() >= m.idle
	flight := w
	if !limited {
		flight = w / (2 + m.rand.IntN(4))
	}
	m.now += max(rtt/time.Duration(parts), time.Microsecond)
	sentAt := max(0, m.now-rtt)
	n := max(flight/parts, 100)
	switch chance := m.rand.Float64(); {
	case chance < m.loss*5, w > full+m.queue && m.rand.IntN(3) == 0:
		if m.since == 0 {
			m.since = m.now
			if m.rand.IntN(2) == 0 {
				m.since -= min(m.now, time.Duration(m.rand.IntN(30))*rtt/2)
			}
		}
		m.c.HandleLoss(m.now, Loss{Bytes: n, Frames: 1 + n/1500, SentAt: sentAt, First: m.since, RTO: rtt + rtt/2,
			InFlight: flight, Thin: !limited && m.rand.IntN(2) == 0})
		m.dropped = append(m.dropped, sentAt)
		m.note('l')
	case chance > 0.995 && path%3 == 2:
		m.now += 3 * time.Second
		m.c.HandleTimeout(m.now)
		m.note('t')
	case chance > 0.99:
		m.now += time.Duration(m.rand.IntN(12_000)) * time.Millisecond
	}
	if len(m.dropped) > 0 && m.rand.IntN(12) == 0 {
		for _, at := range m.dropped {
			m.c.HandleSpurious(m.now, at)
			m.note('s')
		}
		m.dropped = m.dropped[:0]
	}
	if m.rand.IntN(3) == 0 {
		m.dropped = m.dropped[:0]
	}
	if m.rand.IntN(20) == 0 {
		return
	}
	a := Ack{Now: m.now, Bytes: n, Frames: 1 + n/1500, SentAt: sentAt, RTT: rtt, InFlight: flight, Limited: limited,
		Rate: min(m.rate, float64(flight)/rtt.Seconds()), Starved: !limited}
	if m.rand.IntN(10) == 0 {
		a.RTT = 0
	}
	if m.rand.IntN(10) == 0 {
		a.Rate = 0
	}
	m.since = 0
	m.c.HandleAck(a)
	m.note('a')
	m.avg = (7*m.avg + rtt) / 8
	m.c.SetRTT(m.avg, m.bandwidth)
	m.note('r')
}

func (m *controlled) note(kind byte) {
	m.r.note(kind, nil, int64(m.now), int64(m.c.Window()), int64(m.c.Rate()), truth(m.c.Reduced()))
}
