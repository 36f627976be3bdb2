package reliable

import (
	"math"
	"time"
)

// A rhythm is how both sides send. Where it is steady, the next message is worth waiting for.
type rhythm struct {
	latest   int64  // when this side sent a message last, or never
	interval int32  // usual nanoseconds between two, less than rhythmRest; 0: not known
	pace     uint32 // the same of the other side's, of late; 0: not known, or too many
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

// hear learns that n messages of the other side came in some nanoseconds.
func (r *rhythm) hear(since int64, n uint16) {
	if r.pace = 0; since/int64(n) <= math.MaxUint32 {
		r.pace = uint32(since / int64(n))
	}
}

// alive reports whether messages have been sent lately, in a rhythm.
func (r *rhythm) alive(now int64) bool {
	usual := int64(r.interval)
	return usual > 0 && now-r.latest <= 2*usual+usual/4
}

// next returns until when the next message is expected, a quarter of the interval late.
func (r *rhythm) next(arrived int64) (at int64, ok bool) {
	if !r.alive(arrived) {
		return 0, false
	}
	usual := int64(r.interval)
	return max(r.latest+usual, arrived) + usual/4, true
}

// quiet forgets the pace of the other side's messages.
func (r *rhythm) quiet() { r.pace = 0 }
