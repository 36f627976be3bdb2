package core

import "time"

// A thin stream is far from filling its window, as the messages of a game are. It sends a
// frame again a little more than a round-trip time after it left, without waiting for
// later acknowledgements, up to three times and without a back-off. The second and third
// time, and the first if much is lost, it sends it twice. The controller learns of a loss
// only when later frames have been acknowledged.

const (
	thinFrames  = 64 // in flight at most
	thinSends   = 4  // transmissions of a frame before only the timeout is left
	thinMargin  = 2 * time.Millisecond
	thinDivisor = 16 // of the round-trip time: least margin beyond it
	muchLoss    = 0.02
	lossGain    = 1.0 / 64 // weight of the newest frame in the share of lost ones
	firstGain   = 1.0 / 4  // of the first ones
	firstNotes  = 16
	lossMemory  = 256 // frames for which a rare loss is remembered
)

// thin reports whether the connection carries a thin stream at present.
func (s *sending) thin() bool {
	return !s.p.cfg.TimeoutOnly && s.rtt.samples > 0 && !s.limited &&
		s.queue.flying <= thinFrames && 2*(s.queue.flight-s.queue.copied) <= s.control.Window()
}

// thinDelay returns how long after it left a frame of a thin stream is sent again.
func (r *rtt) thinDelay() time.Duration {
	return r.avg + max(4*r.dev, r.avg/thinDivisor, thinMargin)
}

// resendEarly has frames of a thin stream sent again when their time has come.
func (s *sending) resendEarly(now Clock) {
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
		if f.mayLeaveEarly() {
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

// mayLeaveEarly reports whether a flying frame may be sent again early.
func (f *frame) mayLeaveEarly() bool { return f.reliable && !f.sentinel && f.sends < thinSends }

// earlyAt returns when resendEarly has something to do; false: never.
func (s *sending) earlyAt() (at Clock, ok bool) {
	if s.queue.flying == 0 || !s.thin() {
		return 0, false
	}
	id := s.queue.head
	for left := s.queue.flying; left > 0; left-- {
		f := s.queue.at(id)
		if f.mayLeaveEarly() {
			return f.sentAt + s.rtt.thinDelay(), true
		}
		id = f.next
	}
	return 0, false
}

// twice reports whether a frame that is sent again is sent two times.
func (s *sending) twice(f *frame) bool {
	return f.early && (f.sends > 1 || s.loss.share > muchLoss && !s.p.cfg.Redundancy)
}

// note counts a frame's first transmission in the averaged share of lost ones.
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
		d.before, d.recent = d.recent, lossMemory
	} else {
		d.share -= float64(d.share * gain)
		d.recent = max(0, d.recent-1)
	}
}

// undo takes back that a first transmission has counted as lost.
func (d *lossDetector) undo() {
	d.share = max(0, d.share-lossGain)
	d.recent = min(d.recent, d.before)
}
