package core

import "time"

// A thin stream sends so little that it is far from filling its window, such as
// the messages of a game. There a lost frame is worth more than the bytes of a
// resend: a frame is sent again a little more than a round-trip time after it
// left, without waiting for later ones to be acknowledged, up to three times and
// without a back-off; from the second time on, and at once where much is lost,
// it is sent twice. Such resends say nothing to the controller: that learns of
// a loss when later frames have been acknowledged.

const (
	thinFrames  = 64 // in flight at most
	thinSends   = 4  // transmissions of a frame before only the timeout is left
	thinMargin  = 2 * time.Millisecond
	thinDivisor = 16 // of the round-trip time: least margin beyond it
	muchLoss    = 0.02
	// lossGain is the weight of the newest frame in the share of lost ones.
	lossGain   = 1.0 / 64
	firstGain  = 1.0 / 4 // of the first ones
	firstNotes = 16
	// waryFor is how many frames a loss is remembered where losses are so rare that
	// the averaged share nearly vanishes from one to the next.
	waryFor = 256
)

// thin reports whether the connection carries a thin stream at present.
func (s *sending) thin() bool {
	return !s.p.cfg.TimeoutOnly && s.rtt.samples > 0 && !s.limited &&
		s.queue.flying <= thinFrames && 2*(s.queue.flight-s.queue.copied) <= s.control.Window()
}

// thinDelay returns how long after it left a frame of a thin stream is sent
// again.
func (r *rtt) thinDelay() time.Duration {
	return r.avg + max(4*r.dev, r.avg/thinDivisor, thinMargin)
}

// hurry makes the frames of a thin stream wait to be sent again whose time has
// come.
func (s *sending) hurry(now Clock) {
	if s.queue.flying == 0 || !s.thin() {
		return
	}
	delay := s.rtt.thinDelay()
	id := s.queue.head
	for left := s.queue.flying; left > 0; left-- {
		f := s.queue.at(id)
		if now-f.sentAt < delay {
			return
		}
		next := f.next
		if f.hurries() {
			s.p.stats.FramesLost++
			s.loss.note(f, true)
			if s.p.lastHeard > f.sentAt && s.suspect(now, id, f, s.rtt.rto(), 1) {
				return
			}
			if s.queue.drop(id, f, s) {
				f.lost, f.early = true, true
			}
		}
		id = next
	}
}

// hurries reports whether a flying frame may be sent again early.
func (f *frame) hurries() bool { return f.reliable && !f.sentinel && f.sends < thinSends }

// hurryAt returns when hurry has something to do; false: never.
func (s *sending) hurryAt() (at Clock, ok bool) {
	if s.queue.flying == 0 || !s.thin() {
		return 0, false
	}
	id := s.queue.head
	for left := s.queue.flying; left > 0; left-- {
		f := s.queue.at(id)
		if f.hurries() {
			return f.sentAt + s.rtt.thinDelay(), true
		}
		id = f.next
	}
	return 0, false
}

// twice reports whether a frame that is about to be sent again is worth being
// sent two times. What redundancy repeats is not.
func (s *sending) twice(f *frame) bool {
	return f.early && (f.sends > 1 || s.loss.share > muchLoss && !s.p.cfg.Redundancy)
}

// note counts a frame whose first transmission has arrived, or not, in the
// averaged share of those that are lost.
func (d *lossDetector) note(f *frame, lost bool) {
	if f.sends != 1 {
		return
	}
	gain := lossGain
	if d.noted < firstNotes {
		d.noted++
		gain = firstGain
	}
	if lost {
		d.share += float64((1 - d.share) * gain)
		d.before, d.wary = d.wary, waryFor
	} else {
		d.share -= float64(d.share * gain)
		d.wary = max(0, d.wary-1)
	}
}

// undo takes back that a first transmission has counted as lost.
func (d *lossDetector) undo() {
	d.share = max(0, d.share-lossGain)
	d.wary = min(d.wary, d.before)
}
