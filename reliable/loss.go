package reliable

import "time"

const (
	lossDistance = 64                      // sequences behind the peer's ack at which a packet is presumed lost
	lossAge      = int64(10 * time.Second) // age at which a growing window does so, whatever the ack
	overdueAge   = int64(2 * time.Second)  // age beyond which an undecided packet counts as lost in PacketLoss, if not below twice RTT
)

// An overdue knows how many packets of a growing window are undecided although
// they are old, and sent after the newest one that the other side's ack named.
// When that side falls silent, nothing but they shows it.
type overdue struct {
	heard uint64 // one past the newest packet that the other side's ack named
	to    uint64 // one past the newest that is old
	count int32  // those from heard on, and before to, that are undecided
	gone  int32  // others that left the window undecided since the last Update
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

// left takes a packet out that has left the window undecided.
func (o *overdue) left(id uint64) {
	if id >= o.heard && id < o.to {
		o.count--
	} else {
		o.gone = min(o.gone+1, 1<<30)
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
			if e.now-r.at < lossAge {
				break
			}
			e.lose(w.decidedTo, r)
		}
	}
}

// presumeLost decides the packets that are 64 or more behind the peer's ack.
func (e *Endpoint) presumeLost(ack uint16) {
	d := uint64(uint16(e.nextID) - 1 - ack)
	if d < uint64(e.sentSpan()) {
		e.sent.overdue.passed(e.nextID - d)
		e.loseBefore(e.nextID-d, lossDistance)
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
	if w.inOlderHalf(int(e.nextID - 1 - id)) {
		w.half.lost++
	}
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

// updateLoss takes the share of the packets in the older half that were not
// acknowledged. A growing window counts decided packets with a payload, since
// others may be fine, or need no ack, and those that are overdue. If there are
// none, its figure stays. One that has just grown has few in its older half, so
// the share is of half the packets present at least; and overdue ones may be
// few of those that are old.
func (e *Endpoint) updateLoss(factor float32) {
	w := &e.sent
	lost, all := w.half.present-w.half.acked, w.half.present
	if e.grows() {
		e.age()
		lost = w.half.lost + w.overdue.count + w.overdue.gone
		all = lost + w.half.delivered
		if n := int32(w.count / 2); all > 0 && w.half.present < n {
			all = max(all, n)
		}
		if w.overdue.count > 0 {
			all = max(all, int32(w.count)-int32(e.nextID-w.overdue.to))
		}
		w.overdue.gone = 0
	}
	switch {
	case all > 0:
		smooth(&e.stats.PacketLoss, float32(lost)/float32(all)*100, factor)
	case !e.grows():
		e.stats.PacketLoss = 0
	}
}
