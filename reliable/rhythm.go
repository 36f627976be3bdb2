package reliable

import "time"

// A rhythm is how this side sends messages: where it sends them steadily, the
// next one is worth waiting for.
type rhythm struct {
	latest   int64 // when a message was sent last
	interval int64 // usual time between two; 0: not known
	begun    bool  // latest is set
}

const (
	rhythmBurst = int64(500 * time.Microsecond) // messages closer than this are one burst
	rhythmRest  = int64(2 * time.Second)        // after a pause of this the rhythm has to be learned anew
)

// note learns that a message is sent now.
func (r *rhythm) note(now int64) {
	gap := now - r.latest
	r.latest = now
	switch {
	case !r.begun:
		r.begun = true
	case gap < rhythmBurst:
	case gap >= rhythmRest:
		r.interval = 0
	case r.interval == 0:
		r.interval = gap
	default:
		r.interval += (min(gap, 4*r.interval) - r.interval) / 4
	}
}

// alive reports whether messages have been sent lately, in a rhythm.
func (r *rhythm) alive(now int64) bool {
	return r.interval > 0 && now-r.latest <= 2*r.interval+r.interval/4
}

// next returns until when a message is to be expected at the latest, for one
// that arrived at the given time. A message may be late by a quarter of the
// interval; and where messages answer others, the rhythm is that of the arrivals.
func (r *rhythm) next(arrived int64) (at int64, ok bool) {
	if !r.alive(arrived) {
		return 0, false
	}
	slack := r.interval / 4
	return max(r.latest+r.interval, arrived) + slack, true
}
