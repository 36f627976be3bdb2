package reliable

import (
	"math/bits"
	"time"
)

// ackReach is the number of sequences that the ack field covers.
const ackReach = 32

// Compact gives memory back when the endpoint has been idle for some seconds.
// Stats keep their last values, and packets that arrive are judged as before:
// a window beside Config.MaxWindow forgets which of the packets more than 1024
// back were never received, and takes those for duplicates. Sent packets that
// the other side's ack has passed by 32 or more are presumed lost, since only
// a header that was overtaken by 10 s worth of others could still acknowledge
// them.
func (e *Endpoint) Compact(now time.Time) {
	e.advance(now)
	e.compactSent()
	e.compactReceived()
	e.updateRTT()
	e.freeHistory()
	e.freeReassembly()
	if len(e.acks) == 0 {
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
		if w.decidedTo > e.nextID-uint64(w.count) {
			// The peer's newest ack is lossDistance ahead of this.
			e.loseBefore(w.decidedTo+lossDistance, ackReach)
		}
		e.shrinkSent()
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

// shrinkSent makes a growing window as small as its undecided packets allow.
func (e *Endpoint) shrinkSent() {
	w := &e.sent
	keep := 0
	for d := w.count - 1; d >= 0; d-- {
		if w.record(uint16(e.nextID) - 1 - uint16(d)).undecided() {
			keep = d + 1
			break
		}
	}
	n := firstSentWindow
	if keep > n {
		n = 1 << bits.Len(uint(keep-1))
	}
	if n < len(w.ring) {
		e.resizeSent(n)
	}
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
