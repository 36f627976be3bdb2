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

// noted notes that a message leaves, or news came.
func (p *prober) noted() { p.count = 0 }

// repeats reports whether the header of a message says what the last one did.
func (p *prober) repeats(h Header) bool {
	return h.AckBits != 0 && h.AckBits == p.heardBits && h.Ack == p.heardAck
}

// handled notes what the header of a message said.
func (p *prober) handled(h Header) { p.heardAck, p.heardBits = h.Ack, h.AckBits }

// renewed notes that the next header may tell something new, whatever it says.
func (p *prober) renewed() { p.heardBits = 0 }

// variation returns the longer of both round-trip times, and their variation.
func (p *prober) variation(rtt int64) (longer, vary int64) {
	longer = max(rtt, p.recent)
	return longer, p.vary + longer/2/(1+int64(p.samples))
}

// due returns when a probe has to leave, if messages have waited since the given time.
func (p *prober) due(latest, rtt, delay int64) (at int64, ok bool) {
	if p.count >= maxProbes {
		return 0, false
	}
	rtt = max(rtt, p.recent) // the smoothed one follows slowly
	wait := min(max(p.usual, rtt+delay/2), 2*(rtt+delay))
	wait += wait/8 + probeMin
	return max(latest, p.at) + wait<<p.count, true
}

func (p *prober) probed(now int64) {
	p.at = now
	p.count++
}
