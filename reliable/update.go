package reliable

import "time"

// Update brings the figures of Stats up to date, gives up reassemblies that are
// too old and, with Config.MaxWindow, packets that have had no answer for
// Config.LostAfter, of whose fate it tells the FateHandler. It should be called at a steady rate, say 60 times a
// second.
func (e *Endpoint) Update(now time.Time) {
	e.advance(now)
	if e.grows() {
		e.out.age(&e.env, e.meter.oldAge(), e.lost)
		e.meter.updateGrowing(&e.env, e.out.lostShare())
	} else {
		lost, sent, acked := e.out.olderHalf()
		e.meter.update(&e.env, lost, sent, acked, e.in.olderHalf())
	}
	e.parts.expire(&e.env)
}

// Compact gives memory back when the endpoint has been idle for some seconds.
// Stats keep their last values, and packets that arrive are judged as before:
// a window beside Config.MaxWindow forgets which of the packets more than 1024
// back were never received, and takes those for duplicates. It also presumes
// lost the packets older than 2 s that the other side's ack has passed, and all
// older than Config.LostAfter.
func (e *Endpoint) Compact(now time.Time) {
	e.advance(now)
	e.out.shrink(&e.env, e.meter.oldAge(), e.lost)
	e.in.shrink(&e.env)
	e.meter.idle(&e.env)
	e.parts.shrink(&e.env)
	if t := e.acks.talk; t != nil && !t.owed && !t.sampled && e.out.open == 0 {
		e.acks.free(&e.env)
	}
	if len(e.Acks()) == 0 {
		e.extras.freeAcks(&e.env)
	}
}
