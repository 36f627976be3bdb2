package reliable

import (
	"math"
	"time"
)

// Updated returns when Update was called last, since Start; zero before.
func (e *Endpoint) Updated() time.Duration { return time.Duration(e.updated) }

// Update brings the figures of Stats up to date, gives up reassemblies that are
// too old and, with Config.MaxWindow, packets that have had no answer for
// Config.LostAfter, of whose fate it tells the FateHandler. It should be called at a steady rate, say 60 times a
// second.
func (e *Endpoint) Update(now time.Time) {
	e.advance(now)
	e.updateRTT()
	rescale := e.rescale()
	loss := rescaled(orOff(e.cfg.LossSmoothing, defaultLossSmoothing), rescale)
	bandwidth := rescaled(orOff(e.cfg.BandwidthSmoothing, defaultBandwidthSmoothing), rescale)
	if e.sent.odd != nil {
		e.scanSent(bandwidth)
	}
	e.updateLoss(loss)
	if e.grows() {
		e.updateFlows(bandwidth)
	} else {
		e.updateSent(bandwidth)
		e.updateReceived(bandwidth)
	}
	e.updated = e.now
	e.expireReassemblies()
}

// rescale returns the time since the last update in units of
// Config.SmoothingInterval, or 1 if that is off.
func (e *Endpoint) rescale() float64 {
	if e.cfg.SmoothingInterval == 0 {
		return 1
	}
	return float64(e.now-e.updated) / float64(e.cfg.SmoothingInterval)
}

// rescaled returns the smoothing factor that has the effect of f applied times
// times.
func rescaled(f float32, times float64) float32 {
	if times == 1 {
		return f
	}
	return float32(1 - math.Pow(1-float64(f), times))
}

// smooth moves *v towards x.
func smooth(v *float32, x, factor float32) {
	if abs(*v-x) > 0.00001 {
		*v += float32(float32(x-*v) * factor)
	} else {
		*v = x
	}
}

// updateBandwidth moves *v towards the rate of bytes in the time from earliest
// to latest.
func updateBandwidth(v *float32, bytes, earliest, latest int64, factor float32) {
	if latest <= earliest {
		return
	}
	seconds := float64(latest-earliest) / 1e9
	smooth(v, float32(float64(bytes)*8/1000/seconds), factor)
}

// updateSent computes the bandwidths of what was sent.
func (e *Endpoint) updateSent(factor float32) {
	w := &e.sent
	if w.odd != nil || w.half.present == 0 {
		return
	}
	n := len(w.ring)
	first, last := e.nextID-uint64(min(n, w.count)), e.nextID-uint64(n/2)-1
	at := func(id uint64) int64 { return w.record(uint16(id)).at }
	updateBandwidth(&e.stats.SentBandwidth, w.half.bytes, at(first), at(last), factor)
	if w.half.acked == 0 {
		return
	}
	for w.record(uint16(first)).mark&markAcked == 0 {
		first++
	}
	for w.record(uint16(last)).mark&markAcked == 0 {
		last--
	}
	updateBandwidth(&e.stats.AckedBandwidth, w.half.ackedBytes, at(first), at(last), factor)
}

func (e *Endpoint) updateReceived(factor float32) {
	r := &e.received.ring
	if r.records != nil && !e.received.seen.Bitwise() {
		e.scanReceived(factor)
	} else if r.bytes > 0 {
		earliest, latest := r.span()
		updateBandwidth(&e.stats.ReceivedBandwidth, r.bytes, earliest, latest, factor)
	}
}

// A span is a sum of bytes with the times of the first and the last packet,
// which may have none.
type span struct {
	bytes, earliest, latest int64
	some                    bool
}

func (s *span) add(at int64, bytes uint32) {
	if !s.some {
		s.some, s.earliest = true, at
	}
	s.bytes += int64(bytes)
	s.earliest, s.latest = min(s.earliest, at), max(s.latest, at)
}

// scanSent computes the sums over the older half of a window whose size is not
// a power of two, and the bandwidths.
func (e *Endpoint) scanSent(factor float32) {
	w := &e.sent
	w.half = halfSums{}
	var sent, acked span
	first := uint16(e.nextID) - uint16(len(w.ring))
	for i := range uint16(len(w.ring) / 2) {
		s := first + i
		if !w.odd.Exists(s) {
			continue
		}
		r := w.record(s)
		w.half.add(r, 1)
		sent.add(r.at, r.bytes)
		if r.mark&markAcked != 0 {
			acked.add(r.at, r.bytes)
		}
	}
	updateBandwidth(&e.stats.SentBandwidth, sent.bytes, sent.earliest, sent.latest, factor)
	updateBandwidth(&e.stats.AckedBandwidth, acked.bytes, acked.earliest, acked.latest, factor)
}

// scanReceived is the like for the packets received.
func (e *Endpoint) scanReceived(factor float32) {
	w := &e.received
	n := w.seen.Len()
	var got span
	first := w.seen.Next() - uint16(n)
	for i := range uint16(n / 2) {
		s := first + i
		if r := &w.ring.records[int(s)%n]; w.seen.Exists(s) && r.bytes > 0 {
			got.add(r.at, r.bytes)
		}
	}
	updateBandwidth(&e.stats.ReceivedBandwidth, got.bytes, got.earliest, got.latest, factor)
}
