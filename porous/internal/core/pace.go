package core

import "time"

// A pacer spreads what is sent: credit in bytes grows with time, and frames spend it (R7),
// down to below zero by one frame, so that no size waits.
type pacer struct {
	credit float64
	last   Clock
}

const (
	burstFrames = 10
	burstTime   = 2 * time.Millisecond
)

// refill adds the credit since the last call at a rate in bytes/s.
func (p *pacer) refill(now Clock, rate float64, mtu int) {
	most := max(burstFrames*float64(mtu), rate*burstTime.Seconds())
	if dt := now - p.last; dt > 0 {
		p.credit += float64(rate * dt.Seconds())
		p.last = now
	}
	p.credit = min(p.credit, most)
}

func (p *pacer) spend(n int) { p.credit -= float64(n) }

func (p *pacer) ready() bool { return p.credit > 0 }

// wait returns how long until there is credit.
func (p *pacer) wait(rate float64) time.Duration {
	if p.credit > 0 {
		return 0
	}
	return time.Duration((1-p.credit)/rate*float64(time.Second)) + 1
}
