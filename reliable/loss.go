package reliable

import (
	"math"
	"math/bits"
	"time"
)

const (
	lossDistance = 64                     // sequences behind the peer's ack at which a packet is presumed lost
	overdueAge   = int64(2 * time.Second) // age beyond which an undecided packet counts as lost in PacketLoss, if not below twice RTT
)

// An overdue knows how many packets of a growing window are undecided although
// they are old, and sent after the newest one that the other side's ack named.
// When that side falls silent, nothing but they shows it.
type overdue struct {
	heard uint64 // one past the newest packet that the other side's ack named
	to    uint64 // one past the newest that is old
	count int32  // those from heard on, and before to, that are undecided
}

// passed forgets the packets before id, which the other side's ack has passed.
func (o *overdue) passed(id uint64) {
	if id > o.heard {
		o.heard, o.to, o.count = id, id, 0
	}
}

// decided takes a packet out whose fate is no longer open.
func (o *overdue) decided(id uint64) {
	if id >= o.heard && id < o.to {
		o.count--
	}
}

// age looks at the packets that have grown old since the last time, and
// presumes lost those that are far too old.
func (e *Endpoint) age() {
	w := &e.sent
	first := e.nextID - uint64(e.sentSpan())
	old := max(overdueAge, int64(2e6*e.stats.RTT))
	o := &w.overdue
	for o.to = max(o.to, first); o.to < e.nextID; o.to++ {
		r := w.record(uint16(o.to))
		if e.now-r.at <= old {
			break
		}
		if r.undecided() {
			o.count++
		}
	}
	for w.decidedTo = max(w.decidedTo, first); w.decidedTo < e.nextID; w.decidedTo++ {
		r := w.record(uint16(w.decidedTo))
		if r.undecided() {
			if e.now-r.at < e.lostAfter() {
				break
			}
			e.lose(w.decidedTo, r)
		}
	}
}

// forever is more than any time since New, and added to one it does not overflow.
const forever = 1 << 61

// lostAfter returns the age in nanoseconds at which a packet without an answer
// is presumed lost.
func (e *Endpoint) lostAfter() int64 {
	switch d := e.cfg.LostAfter; {
	case d == 0:
		return int64(defaultLostAfter)
	case d < 0 || d > forever:
		return math.MaxInt64
	default:
		return int64(d)
	}
}

// LossDue returns how long it is until Update may presume a packet lost by its
// age alone, and whether there is such a packet, see Config.LostAfter.
func (e *Endpoint) LossDue(now time.Time) (wait time.Duration, pending bool) {
	w := &e.sent
	limit := e.lostAfter()
	if w.open == 0 || !e.grows() || limit == math.MaxInt64 {
		return 0, false
	}
	e.advance(now)
	w.decidedTo = max(w.decidedTo, e.nextID-uint64(w.count))
	for ; w.decidedTo < e.nextID; w.decidedTo++ {
		if r := w.record(uint16(w.decidedTo)); r.undecided() {
			return time.Duration(max(0, r.at+limit-e.now)), true
		}
	}
	return 0, false
}

// presumeLost decides the packets that are 64 or more behind the peer's ack.
func (e *Endpoint) presumeLost(ack uint16) {
	d := uint64(uint16(e.nextID) - 1 - ack)
	if d < uint64(e.sentSpan()) {
		e.sent.overdue.passed(e.nextID - d)
		e.loseBefore(e.nextID-d, lossDistance)
	}
}

// A header names a packet with a bit of its ack_bits. Packets that it does not
// name, though they were sent earlier than one that it does by more than any
// overtaking takes, are lost (RFC 9002, section 6.1.2). Both times are ours, so
// it does not matter how long the acknowledgement waited.
const (
	marginMin   = int64(5 * time.Millisecond)
	marginRatio = 9  // eighths of the round-trip time, times the scale
	scaleUnit   = 64 // a scale of 1
	maxScale    = 16 * scaleUnit
	scaleDecay  = 16   // lost packets after which the scale falls by a 64th
	maxPassedBy = 1024 // sequences after which a packet is lost whatever the times
)

// lossMargin returns by how much later a packet must have been sent to show that
// one without an acknowledgement is lost. The fewer round-trip times were
// measured, the less is known of them.
func (e *Endpoint) lossMargin() int64 {
	rtt := e.roundTrip()
	var vary int64
	if t := e.talk; t != nil {
		rtt = max(rtt, t.recent)
		vary = t.vary + rtt/2/(1+int64(t.samples))
	}
	return max(marginMin, (rtt*marginRatio/8+vary)*int64(e.sent.scale+scaleUnit)/scaleUnit)
}

// losePassedBy presumes lost what a header has passed by.
func (e *Endpoint) losePassedBy(h Header) {
	w := &e.sent
	named := h.Ack - uint16(bits.TrailingZeros32(h.AckBits))
	d := uint64(uint16(e.nextID) - 1 - named)
	if d >= uint64(w.count) {
		return
	}
	id := e.nextID - 1 - d
	w.overdue.passed(id + 1)
	e.loseBefore(id+1, maxPassedBy)
	limit := int64(never) // of the time of sending; reckoned when there is need
	w.decidedTo = max(w.decidedTo, e.nextID-uint64(w.count))
	for ; w.decidedTo < id; w.decidedTo++ {
		r := w.record(uint16(w.decidedTo))
		if !r.undecided() {
			continue
		}
		if limit == never {
			limit = w.record(named).at - e.lossMargin()
		}
		if r.at > limit {
			break
		}
		if w.falls++; w.falls >= scaleDecay && w.scale > 0 {
			w.falls, w.scale = 0, w.scale-1-w.scale/scaleUnit
		}
		e.lose(w.decidedTo, r)
	}
}

// noteLate learns from an acknowledgement that took so long. One of a packet
// presumed lost shows that packets overtake each other by more than was thought.
func (e *Endpoint) noteLate(mark uint32, took int64) {
	if e.cfg.AckDelay == 0 {
		return
	}
	if mark&markLost != 0 {
		w := &e.sent
		w.scale = min((w.scale+scaleUnit)*5/4-scaleUnit, maxScale-scaleUnit)
	}
	if mark&markEmpty == 0 {
		e.talking().heard(took)
	}
}

// skip leaves a sequence out. There was no packet, so nothing acknowledges it.
func (e *Endpoint) skip() {
	lostID, lost := e.remember(0)
	e.sent.pending.Clear(uint16(e.nextID))
	e.sent.record(uint16(e.nextID)).bytes = 0
	e.nextID++
	if lost {
		e.tell(lostID, FateLost, 0)
	}
}

// loseBefore presumes lost what is undecided among the packets that are at
// least distance before the packet id-1.
func (e *Endpoint) loseBefore(id, distance uint64) {
	w := &e.sent
	w.decidedTo = max(w.decidedTo, e.nextID-uint64(e.sentSpan()))
	for id > distance && w.decidedTo < id-distance {
		i := w.decidedTo
		w.decidedTo++
		if r := w.record(uint16(i)); r.undecided() && w.has(uint16(i)) {
			e.lose(i, r)
		}
	}
}

// lose presumes packet id lost.
func (e *Endpoint) lose(id uint64, r *sentRecord) {
	w := &e.sent
	r.mark |= markLost
	w.open--
	w.overdue.decided(id)
	w.recent.add(true)
	e.tell(id, FateLost, 0)
}

// loseAll presumes lost all packets whose fate is open.
func (e *Endpoint) loseAll() {
	e.eachSent(func(id uint64, r *sentRecord) {
		if r.undecided() {
			e.lose(id, r)
		}
	})
}

// recentFates are what became of the newest packets with a payload that were
// decided, at most 63: one bit each, the last one lowest, set for a lost one. The
// highest bit that is set marks how many there are.
type recentFates uint64

const (
	recentMost  = 63
	recentLeast = 16 // of fewer packets the figure speaks as if they were so many
)

func (f recentFates) count() int { return max(0, bits.Len64(uint64(f))-1) }

func (f *recentFates) add(lost bool) {
	full := *f & (1 << recentMost)
	*f = max(*f, 1)<<1 | full
	if lost {
		*f |= 1
	}
}

// revoke takes back that a packet was lost: one of the latest, since an
// acknowledgement that comes late after all is not late by much.
func (f *recentFates) revoke() {
	if marker := recentFates(1) << f.count(); *f > marker {
		*f &= *f - 1
	}
}

// share returns the part of the packets that were lost, if so many more that
// are undecided count as lost too.
func (f recentFates) share(overdue int) float32 {
	overdue = min(overdue, recentMost)
	known := min(f.count(), recentMost-overdue)
	lost := overdue + bits.OnesCount64(uint64(f)&(1<<known-1))
	return float32(lost) / float32(max(known+overdue, recentLeast))
}

// updateLoss takes the share of the packets in the older half that were not
// acknowledged. A growing window goes by the packets with a payload that were
// decided last, since others may be fine, or need no ack, and by those that are
// overdue. While nothing is decided, as in idleness, its figure falls to zero.
func (e *Endpoint) updateLoss(factor float32) {
	w := &e.sent
	switch {
	case e.grows():
		e.age()
		smooth(&e.stats.PacketLoss, 100*w.recent.share(int(w.overdue.count)), factor)
	case w.half.present > 0:
		lost := w.half.present - w.half.acked
		smooth(&e.stats.PacketLoss, float32(lost)/float32(w.half.present)*100, factor)
	default:
		e.stats.PacketLoss = 0
	}
}
