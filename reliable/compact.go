package reliable

import (
	"math/bits"
	"time"
)

// Compact gives memory back when the endpoint has been idle for some seconds.
// Stats keep their last values, and packets that arrive are judged as before:
// a window beside Config.MaxWindow forgets which of the packets more than 1024
// back were never received, and takes those for duplicates. It also presumes
// lost the packets older than 2 s that the other side's ack has passed, and all
// older than Config.LostAfter.
func (e *Endpoint) Compact(now time.Time) {
	e.advance(now)
	e.compactSent()
	e.compactReceived()
	e.updateRTT()
	e.freeHistory()
	e.freeFlows()
	e.freeReassembly()
	if t := e.talk; t != nil && !t.owed && !t.sampled && e.sent.open == 0 {
		e.freeTalk()
	}
	if len(e.Acks()) == 0 {
		e.freeAcks()
	}
}

func (e *Endpoint) compactSent() {
	w := &e.sent
	switch {
	case w.ring == nil:
	case !e.grows():
		if !e.ackable() {
			e.freeSent()
		}
	default:
		e.age()
		e.losePassed()
		e.sent.recent = 0
		e.shrinkSent()
	}
}

// losePassed presumes lost what the peer's ack has passed and is not young:
// reordering is over.
func (e *Endpoint) losePassed() {
	w := &e.sent
	for id := max(w.decidedTo, e.nextID-uint64(e.sentSpan())); id+1 < w.overdue.heard; id++ {
		if r := w.record(uint16(id)); r.undecided() && e.now-r.at > growthAge {
			e.lose(id, r)
		}
	}
}

// ackable reports whether an ack could still make a difference to a packet in
// the window.
func (e *Endpoint) ackable() (found bool) {
	e.eachSent(func(_ uint64, r *sentRecord) {
		found = found || r.mark&markAcked == 0
	})
	return found
}

// shrinkSent drops the packets of a growing window that are older than all
// undecided ones, and makes it as small as that allows.
func (e *Endpoint) shrinkSent() {
	w := &e.sent
	keep := 0
	for d := w.count - 1; d >= 0; d-- {
		if w.record(uint16(e.nextID) - 1 - uint16(d)).undecided() {
			keep = d + 1
			break
		}
	}
	n := minSentWindow
	if keep > n {
		n = 1 << bits.Len(uint(keep-1))
	}
	if keep == w.count && n == len(w.ring) {
		return
	}
	w.count = keep
	e.resizeSent(n)
}

func (e *Endpoint) compactReceived() {
	e.freeReceivedRing()
	if !e.grows() {
		return
	}
	w := &e.received
	before := w.seen.Bytes()
	if n := w.seen.Trim(minReceivedTrack, maxReceivedCompact); n < w.seen.Track() {
		w.seen.Resize(n)
		w.turnedAt, w.turnedNext = e.now, w.seen.Next()
	}
	e.give(before - w.seen.Bytes())
}
