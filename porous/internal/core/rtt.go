package core

import "time"

// Clock is a time since an origin that the caller chose, at least 0.
type Clock = time.Duration

// The round-trip time before anything is known.
const (
	firstRTT    = 200 * time.Millisecond
	firstRTTVar = 100 * time.Millisecond
)

// An rtt estimates the round-trip time and what follows from it.
type rtt struct {
	avg, dev, latest, min time.Duration
	step                  time.Duration // T_step
	floor                 time.Duration // least variance term of rto (R2); 0: none
	paper                 bool          // the first sample is one like the others
	samples               uint64
}

func (r *rtt) init(paper bool, step, floor time.Duration) {
	*r = rtt{avg: firstRTT, dev: firstRTTVar, paper: paper, step: step, floor: floor}
}

// add takes a sample (T15).
func (r *rtt) add(t time.Duration) {
	t = max(t, time.Microsecond)
	r.latest = t
	if r.samples == 0 || t < r.min {
		r.min = t
	}
	r.samples++
	if r.samples == 1 && !r.paper {
		r.avg, r.dev = t, t/2
		return
	}
	r.dev = (3*r.dev + (r.avg - t).Abs()) / 4
	r.avg = (7*r.avg + t) / 8
}

// rto returns the retransmission timeout (T16, R2).
func (r *rtt) rto() time.Duration {
	t := max(r.step, 4*r.dev)
	if r.floor > 0 {
		t = max(t, r.floor, r.avg/2)
	}
	return r.avg + t
}

// lossDelay returns how long others may overtake a frame before it counts as lost (R1).
func (r *rtt) lossDelay() time.Duration {
	return max(max(r.avg, r.latest)*9/8, time.Millisecond)
}
