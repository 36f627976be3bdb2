package reliable

import (
	"math"
	"time"
)

const (
	maxProbes  = 6                           // without an answer; after them time decides
	probeMin   = int64(2 * time.Millisecond) // the least time before one
	probeFirst = int64(time.Second)          // where there is no round-trip time yet
)

// A prober knows when it is time to ask what became of the last messages.
type prober struct {
	usual  int64 // how long acknowledgements take, of late at most
	vary   int64 // mean distance of the round-trip times from the smoothed one
	recent int64 // round-trip time measured last
	at     int64 // of the last probe

	// What the header handled last acknowledges, if it was that of a message and
	// nothing was sent since. Another message whose header says the same tells
	// nothing new. No bits: there was none.
	heardBits uint32
	heardAck  uint16

	count   uint8 // since the last message or news
	samples uint8 // how many there were, up to 255
}

// heard notes how long an acknowledgement took.
func (p *prober) heard(took int64) {
	p.count = 0
	p.usual = max(took, p.usual-p.usual/16)
}

// measured notes a round-trip time beside the smoothed one.
func (p *prober) measured(rtt, smoothed int64) {
	p.recent = rtt
	if p.samples < math.MaxUint8 {
		p.samples++
	}
	p.vary += (max(rtt-smoothed, smoothed-rtt) - p.vary) / 4
}

// RTTVariation returns the mean distance of the latest round-trip times from the
// smoothed one, of the last four or so; zero before there are some, and with a
// zero Config.AckDelay.
func (e *Endpoint) RTTVariation() time.Duration {
	if e.talk == nil {
		return 0
	}
	return time.Duration(e.talk.vary)
}

// probeDue returns when a probe has to leave.
func (e *Endpoint) probeDue() (at int64, ok bool) {
	p := &e.talk.prober
	if e.sent.open == 0 || e.counters.packetsAcked == 0 || p.count >= maxProbes {
		return 0, false
	}
	rtt := e.roundTrip()
	delay := int64(e.cfg.AckDelay)
	wait := min(max(p.usual, rtt+delay/2), 2*(rtt+delay))
	wait += wait/8 + probeMin
	return max(e.talk.latest, p.at) + wait<<p.count, true
}

// sendProbe asks for an acknowledgement: it leaves a sequence out, and a gap is
// always answered.
func (e *Endpoint) sendProbe(out *Batch) {
	e.talk.prober.at = e.now
	e.talk.prober.count++
	e.skip()
	e.sendEmpty(out)
}

// roundTrip returns the round-trip time in nanoseconds, a guess if none is known.
func (e *Endpoint) roundTrip() int64 {
	if e.stats.RTT == 0 {
		return probeFirst / 3
	}
	return int64(float64(e.stats.RTT) * 1e6)
}
