package reliable

import "time"

const (
	sampledFirst   = 3                              // so many arrivals are sampled at first, ...
	sampledTalk    = int64(1400 * time.Millisecond) // ... then one in this time where we send messages too, ...
	sampledListen  = int64(80 * time.Millisecond)   // ... and one in this time where we do not
	minTalkEvery   = 4
	maxTalkEvery   = 64                           // but where so many come within less time, ...
	sampledBusy    = int64(20 * time.Millisecond) // ... one in this time ...
	maxBusyEvery   = 4096                         // ... or in so many
	minListenEvery = 3
	maxListenEvery = ackDistance - 2
)

// A sampler settles which arrivals are answered at once, to measure the round-trip time.
type sampler struct {
	sampledAt int64  // when an arrival was sampled last
	anchor    uint16 // that a sampled acknowledgement is for
	every     uint16 // one arrival in so many is sampled
	left      uint16 // arrivals until the next one
	sampled   bool   // the arrival just now is
}

func newSampler(sampledAt int64) sampler { return sampler{sampledAt: sampledAt, every: 1, left: 1} }

func (a *sampler) arrive(now int64) bool {
	if a.left--; a.left == 0 {
		return true
	}
	if a.left > maxTalkEvery && now-a.sampledAt > sampledTalk {
		a.every -= a.left - maxTalkEvery // they come far less often than before
		a.left = maxTalkEvery
	}
	return false
}

// sample has the message s answered at once, and returns the time and messages since the last.
func (a *sampler) sample(s uint16, now int64) (since int64, n uint16) {
	since = now - a.sampledAt
	a.sampled, a.anchor, a.sampledAt = true, s, now
	return since, a.every
}

// pause settles how many messages come before the next sample; with first, none.
func (a *sampler) pause(since int64, first, rhythm bool) {
	switch {
	case first:
		a.every = 1
	case rhythm:
		n := a.following(since, sampledTalk, minTalkEvery, maxTalkEvery)
		if n == maxTalkEvery {
			n = a.following(since, sampledBusy, maxTalkEvery, maxBusyEvery)
		}
		a.every = n
	default:
		a.every = a.following(since, sampledListen, minListenEvery, maxListenEvery)
	}
	a.left = a.every
}

// following returns one in how many arrivals to sample, for one in the time goal.
func (a *sampler) following(since, goal int64, least, most uint16) uint16 {
	n := int64(most)
	if since > 0 {
		n = min(int64(a.every)*goal/max(since, goal/16), n)
	}
	return max(uint16(n), least)
}

// answered takes the sample that is due, and reports whether its acknowledgement measures.
func (a *sampler) answered(now int64) bool {
	due := a.sampled && a.sampledAt == now
	a.sampled = false
	return due
}

// expected returns when the sampled arrival is expected, and at the latest.
func (a *sampler) expected(pace int64) (soon, late int64) {
	soon = a.sampledAt + int64(a.every)*pace
	return soon, soon + pace/4
}
