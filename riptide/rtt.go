package riptide

import "time"

// A roundTrip holds round-trip times of heartbeats, in whole milliseconds as
// they are on the wire, and noRTT before the first one.
type roundTrip struct {
	last, smooth int16
}

func newRoundTrip() roundTrip { return roundTrip{noRTT, noRTT} }

func (r *roundTrip) measured(ms int16) {
	r.last = max(1, ms)
	if r.smooth < 0 {
		r.smooth = r.last
		return
	}
	r.smooth = max(1, int16((7*int(r.smooth)+3*int(r.last))/10))
}

// toMillis returns d in whole milliseconds, at most what a heartbeat can say.
func toMillis(d time.Duration) int16 {
	return int16(max(0, min(d.Milliseconds(), 1<<15-1)))
}

func fromMillis(ms int16) time.Duration { return time.Duration(ms) * time.Millisecond }

// An ackTime estimates how long acknowledgements take, RFC 6298 section 2. One
// heartbeat a second would not show how much this varies.
type ackTime struct {
	smooth, variance time.Duration
	least            time.Duration // rises slowly
	worst            time.Duration // of late, decaying
	decayed          time.Time     // when it has decayed last
}

// worstDecay is the least time between two steps in which the worst time decays, so
// that a flood of acknowledgements does not hide the last stall. It halves in 89.
const worstDecay = 25 * time.Millisecond

// measured takes the time until a message that was sent once was acknowledged.
func (a *ackTime) measured(now time.Time, d time.Duration) {
	if now.Sub(a.decayed) >= worstDecay {
		a.worst -= a.worst / 128
		a.decayed = now
	}
	if a.smooth == 0 {
		a.smooth = max(d, 1) // no variance but what is seen: it only adds to a rule
		a.least, a.worst = d, d
		return
	}
	a.worst = max(a.worst, d)
	a.least = min(d, a.least+(d-a.least)/256)
	diff := a.smooth - d
	if diff < 0 {
		diff = -diff
	}
	a.variance += (diff - a.variance) / 4
	a.smooth += (d - a.smooth) / 8
}

// within takes a time in which a message was acknowledged that was sent more than once, while
// nothing better is known: the acknowledgement may be that of any send. So the shortest counts.
func (a *ackTime) within(d time.Duration) {
	if a.worst == 0 || d < a.worst {
		a.worst = d
	}
}

// late takes the time until a message that was sent again in vain was acknowledged.
func (a *ackTime) late(d time.Duration) { a.worst = max(a.worst, d) }

// tooSoon returns a time in which no acknowledgement comes.
func (a *ackTime) tooSoon() time.Duration { return a.least * 3 / 4 }

// soon returns the usual time of an acknowledgement, 0 if none was measured.
func (a *ackTime) soon() time.Duration { return a.smooth + max(a.smooth/4, 4*a.variance) }

// limit returns the time after which an acknowledgement is late.
func (a *ackTime) limit() time.Duration {
	return max(a.smooth+4*a.variance, a.worst+a.worst/8)
}
