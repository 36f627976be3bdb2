package main

import "time"

// figures are what the demo shows at one moment, over the last second.
type figures struct {
	elapsed      time.Duration
	sentRate     float64       // messages a second
	ackedRate    float64       // messages a second
	rtt, jitter  time.Duration // as Stats has them, smoothed
	messageLoss  float64       // fraction of the messages whose receipts came
	datagramLoss float64       // fraction, as the link counts it
	bandwidth    float64       // acknowledged bits a second
}

// window is the time over which figures are taken.
const window = time.Second

// A meter takes figures from the counters of a demo.
type meter struct {
	d       *demo
	start   time.Time
	samples []sample // those of the last window, the oldest first
	last    figures
}

// A sample is the state of the counters at one moment.
type sample struct {
	at                   time.Time
	totals               totals
	datagrams, delivered uint64
	rtt, jitter          time.Duration // 0: not known yet
}

func newMeter(d *demo) *meter {
	now := time.Now()
	return &meter{d: d, start: now, samples: []sample{d.sample(now)}}
}

// sample reads the counters.
func (d *demo) sample(now time.Time) sample {
	up, _ := d.proxy.Stats()
	stats := d.conn.Stats()
	return sample{
		at: now, totals: d.ledger.snapshot(), datagrams: up.Sent, delivered: up.Sent - dropped(up),
		rtt: stats.RTT, jitter: stats.JitterStddev,
	}
}

// measure returns the figures of the last window.
func (m *meter) measure(now time.Time) figures {
	s := m.d.sample(now)
	for len(m.samples) > 1 && now.Sub(m.samples[1].at) >= window-window/50 {
		m.samples = m.samples[1:]
	}
	f := difference(m.samples[0], s, m.last)
	m.samples = append(m.samples, s)
	f.elapsed = now.Sub(m.start)
	m.last = f
	return f
}

// difference returns the figures of the time between two samples. Where
// nothing can be said, those before remain.
func difference(a, b sample, before figures) figures {
	f := before
	t := b.at.Sub(a.at).Seconds()
	if t <= 0 {
		return f
	}
	acked := float64(b.totals.acked - a.totals.acked)
	f.sentRate = float64(b.totals.sent-a.totals.sent) / t
	f.ackedRate = acked / t
	f.bandwidth = 8 * float64(b.totals.ackedBytes-a.totals.ackedBytes) / t
	if b.rtt > 0 {
		f.rtt, f.jitter = b.rtt, b.jitter
	}
	if unacked := float64(b.totals.unacked - a.totals.unacked); acked+unacked > 0 {
		f.messageLoss = unacked / (acked + unacked)
	}
	if n := float64(b.datagrams - a.datagrams); n > 0 {
		f.datagramLoss = max(0, 1-float64(b.delivered-a.delivered)/n)
	}
	return f
}
