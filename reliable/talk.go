package reliable

import "unsafe"

// A talk is what an Endpoint with a Config.AckDelay knows of the exchange of
// messages. It is made with the first one, and given up in idleness.
type talk struct {
	ackState
	rhythm
	prober
}

// talkSize is that of two lines of a processor's cache, which a talk then shares
// with nothing else: allocations of that size begin at multiples of it.
const talkSize = int(unsafe.Sizeof(talk{}))

// talking returns the talk, which it makes if there is none. All that has been
// received before counts as acknowledged.
func (e *Endpoint) talking() *talk {
	if e.talk == nil {
		newest := e.received.seen.Next() - 1
		e.talk = &talk{ackState: ackState{
			last:   newest,
			newest: newest,
			every:  1,
			left:   1,
			gapAt:  never,
			sentAt: e.now, floorAt: e.now,
		}, rhythm: rhythm{latest: never}}
		e.mem += talkSize
	}
	return e.talk
}

// nextSample returns when the arrival to be sampled next is to be expected, and at
// the latest. It may be late by a quarter of the time between two.
func (t *talk) nextSample() (soon, late int64) {
	pace := int64(t.pace)
	soon = t.sampledAt + int64(t.every)*pace
	return soon, soon + pace/4
}

func (e *Endpoint) freeTalk() {
	if e.talk != nil {
		e.talk = nil
		e.mem -= talkSize
	}
}
