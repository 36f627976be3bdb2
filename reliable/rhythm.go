package reliable

import "time"

// A rhythm is how this side sends messages: where it sends them steadily, the
// next one is worth waiting for.
type rhythm struct {
	latest   int64 // when a message was sent last
	interval int32 // usual nanoseconds between two, less than rhythmRest; 0: not known
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
		r.interval = int32(gap)
	default:
		usual := int64(r.interval)
		r.interval += int32((min(gap, 4*usual) - usual) / 4)
	}
}

// alive reports whether messages have been sent lately, in a rhythm.
func (r *rhythm) alive(now int64) bool {
	usual := int64(r.interval)
	return usual > 0 && now-r.latest <= 2*usual+usual/4
}

// next returns until when a message is to be expected at the latest, for one
// that arrived at the given time. A message may be late by a quarter of the
// interval; and where messages answer others, the rhythm is that of the arrivals.
func (r *rhythm) next(arrived int64) (at int64, ok bool) {
	if !r.alive(arrived) {
		return 0, false
	}
	usual := int64(r.interval)
	return max(r.latest+usual, arrived) + usual/4, true
}
