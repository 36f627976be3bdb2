package core

import "time"

// A tolerant controller follows the model of BBR: it sends as fast as frames have been
// seen to arrive, whatever is lost. It keeps the largest rate of delivery of the last
// rounds and the least round-trip time, and has about twice their product in flight at
// most. Now and then it sends faster, to see whether more arrives, and then slower, to
// drain the queue; seldom it sends little, to see the least round-trip time again.
//
// Losses count only while the round-trip time shows a queue. Then the window falls
// below what was in flight, so that others have a share of the bottleneck.
type tolerant struct {
	mtu, window int
	bandwidth   uint64
	rtt         time.Duration
	delay       delays

	state tolerantState
	since Clock // when the state, or the phase of probing, began
	phase int

	rates     [rateRounds]float64 // largest of each round, a ring over the rounds
	before    float64             // largest rate before idleness, while it starts anew; 0: none
	full      float64             // rate at which the pipe seemed full
	fullCount int                 // rounds without growth beyond it
	leastAt   Clock               // when the least round-trip time was last seen

	ceiling    int     // the window is no larger, for the sake of others
	congested  bool    // in this round, losses came with a queue
	wasCrowded bool    // and in the one before
	share      float64 // of lost bytes, averaged
	lost, sent int     // bytes of this round
}

type tolerantState uint8

const (
	starting tolerantState = iota // doubling each round
	draining                      // what that has queued
	probing                       // the usual state
	resting                       // to see the least round-trip time
)

const (
	rateRounds   = 10
	startGain    = 2.885 // 2/ln 2 doubles each round
	windowGain   = 2.0
	minTolerant  = 4 // frames
	restEvery    = 10 * time.Second
	restTime     = 200 * time.Millisecond
	ceilingCut   = 0.7
	lossCarry    = 0.25 // the most loss that is made up for by sending faster
	fullGrowth   = 1.25
	fullRounds   = 3
	lossRounds   = 8 // over which the loss is averaged
	crowdedShare = 4 // a queue of a quarter of the round trip
)

// probeGains are the pacing gains of the phases of probing, a least round-trip time each.
var probeGains = [...]float64{1.25, 0.75, 1, 1, 1, 1, 1, 1}

// newTolerant returns a controller; the seed spreads the probes of several over time.
func newTolerant(mtu int, seed uint32) *tolerant {
	return &tolerant{
		mtu:     mtu,
		window:  initialWindow(mtu),
		rtt:     firstRTT,
		ceiling: unlimited,
		phase:   2 + int(seed%uint32(len(probeGains)-2)),
	}
}

func (c *tolerant) Window() int   { return c.window }
func (c *tolerant) Reduced() bool { return c.window >= c.ceiling }

// estimate returns the rate of delivery in bytes/s; 0: unknown.
func (c *tolerant) estimate() (most float64) {
	for _, r := range c.rates {
		most = max(most, r)
	}
	return most
}

// product returns the bytes that fill the path without a queue.
func (c *tolerant) product() float64 { return float64(c.estimate() * c.delay.least.Seconds()) }

func (c *tolerant) Rate() float64 {
	r := c.estimate()
	if r == 0 {
		r = float64(c.window) / max(c.rtt, 100*time.Microsecond).Seconds()
	}
	switch c.state {
	case starting:
		if r *= startGain; c.before > 0 {
			r = max(r/startGain, min(r, c.before))
		}
	case draining:
		r /= startGain
	case probing:
		r *= probeGains[c.phase]
		if gain := probeGains[c.phase]; gain >= 1 && !c.wasCrowded {
			r /= 1 - min(c.share, lossCarry)
		}
	}
	// What timeouts let leave in any case: a rate measured while next to
	// nothing arrived would stop what could correct it.
	r = max(r, probeFrames*float64(c.mtu))
	if c.bandwidth > 0 {
		r = min(r, float64(c.bandwidth))
	}
	return r
}

func (c *tolerant) SetRTT(avg time.Duration, bandwidth uint64) {
	c.rtt, c.bandwidth = avg, bandwidth
	if bandwidth >= NoBandwidthLimit {
		c.bandwidth = 0
	}
}

func (c *tolerant) HandleAck(a Ack) {
	old := c.delay.least
	ended := c.delay.ack(a)
	if a.RTT > 0 && (old == 0 || a.RTT <= old) {
		c.leastAt = a.Now
	}
	c.sent += a.Bytes
	if ended {
		c.endRound(a)
	}
	if a.Rate > 0 && (!a.Starved || a.Rate > c.estimate()) {
		slot := &c.rates[c.delay.rounds%rateRounds]
		*slot = max(*slot, a.Rate)
	}
	c.move(a, ended)
	c.resize(a)
}

// endRound looks at the losses of a round.
func (c *tolerant) endRound(a Ack) {
	if !a.Starved {
		c.rates[c.delay.rounds%rateRounds] = 0
	}
	if total := c.lost + c.sent; total > 0 && !c.congested {
		c.share += float64((float64(c.lost)/float64(total) - c.share) / lossRounds)
	}
	if !c.congested && c.ceiling < unlimited {
		c.ceiling += max(c.mtu, c.ceiling/32)
		if float64(c.ceiling) > 4*c.product() {
			c.ceiling = unlimited
		}
	}
	c.wasCrowded, c.congested = c.congested, false
	c.lost, c.sent = 0, 0
}

// move changes the state when its time has come.
func (c *tolerant) move(a Ack, ended bool) {
	switch c.state {
	case starting:
		if ended && !a.Starved && c.isFull() {
			c.enter(draining, a.Now)
		}
	case draining:
		if float64(a.InFlight) <= c.product() || c.share > 0 && a.Now-c.since > 2*c.rtt {
			c.enter(probing, a.Now)
		}
	case probing:
		if a.Now-c.since < c.delay.least {
			break
		}
		c.phase = (c.phase + 1) % len(probeGains)
		c.since = a.Now
		if c.phase == 0 && a.Now-c.leastAt > restEvery {
			c.enter(resting, a.Now)
		}
	case resting:
		if a.Now-c.since >= max(restTime, c.delay.least) {
			c.leastAt = a.Now
			c.phase = 2
			c.enter(probing, a.Now)
		}
	}
}

func (c *tolerant) enter(s tolerantState, now Clock) { c.state, c.since, c.before = s, now, 0 }

// isFull reports whether the rate has stopped growing.
func (c *tolerant) isFull() bool {
	if r := c.estimate(); r >= fullGrowth*c.full {
		c.full, c.fullCount = r, 0
		return false
	}
	c.fullCount++
	return c.fullCount >= fullRounds
}

func (c *tolerant) resize(a Ack) {
	least := minTolerant * c.mtu
	target := int(min(windowGain*c.product(), unlimited)) + 3*c.mtu
	switch c.state {
	case starting:
		if a.Limited {
			c.window += min(a.Bytes, unlimited-c.window)
		}
	case resting:
		c.window = max(int(c.product()/2), least)
	default:
		c.window = max(c.window+min(a.Bytes, target-c.window), least) // without overflow of 32 bits
	}
	c.window = max(min(c.window, c.ceiling), least)
}

func (c *tolerant) HandleLoss(now Clock, l Loss) {
	c.lost += l.Bytes
	if c.congested || c.delay.least == 0 || c.delay.lastSample < c.delay.least+c.delay.least/crowdedShare {
		return
	}
	c.congested = true
	if c.state == starting {
		c.enter(draining, now)
	}
	c.ceiling = max(int(ceilingCut*float64(min(l.InFlight, c.ceiling))), int(c.product()), minTolerant*c.mtu)
	c.window = min(c.window, c.ceiling)
}

func (c *tolerant) HandleSpurious(Clock, Clock) {}

// HandleIdle forgets half of the rate and of the unused part of the window, because the
// path may be slower by now, and measures them anew, up to the former rate.
func (c *tolerant) HandleIdle(used int) {
	first := initialWindow(c.mtu)
	if 2*used >= int(c.product()) || c.window <= first {
		return
	}
	c.before = max(c.before, c.estimate())
	c.window = max((c.window+used)/2, first)
	least := float64(first) / max(c.rtt, 100*time.Microsecond).Seconds()
	for i, r := range c.rates {
		c.rates[i] = max(r/2, min(r, least))
	}
	c.full, c.fullCount, c.state = 0, 0, starting
}

// HandleTimeout forgets what was learned: the path may have changed.
func (c *tolerant) HandleTimeout(now Clock) {
	c.window = minTolerant * c.mtu
	c.rates = [rateRounds]float64{}
	c.full, c.fullCount, c.ceiling = 0, 0, unlimited
	c.enter(starting, now)
}
