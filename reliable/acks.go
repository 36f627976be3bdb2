package reliable

import "time"

// Distances in sequences between the newest packet and the ack of our last
// header at which an ack-only packet is due. The ack field covers 32.
const (
	ackDistance      = 16
	ackDistanceLossy = 8
	lossyPercent     = 2 // PacketLoss above which the shorter one holds
)

// An ackState knows what our last header said, and whether the other side
// waits for news.
type ackState struct {
	last   uint16 // ack of our last header
	newest uint16 // newest sequence that waits for an ack, if owed
	owed   bool
	spoken bool  // a packet of ours has left
	sentAt int64 // time of the last one
}

func (a *ackState) reset() { *a = ackState{last: 65535} }

// sent notes that a header with this ack has left.
func (a *ackState) sent(ack uint16, now int64) {
	a.last, a.sentAt, a.owed, a.spoken = ack, now, false, true
}

// owe notes that the sequence s waits for an ack.
func (a *ackState) owe(s uint16) {
	if !a.owed || int16(s-a.newest) > 0 {
		a.newest = s
	}
	a.owed = true
}

// AckDue reports whether it is time to send an ack-only packet, so that every
// packet of the other side is acknowledged while the ack field still covers
// it. One is owed after a packet with a payload, or a fragment, that no header
// of ours has told of. It is due at once when 16 sequences wait (8 while
// Stats.PacketLoss is above 2 %), or if no packet of ours left during the last
// delay; else when delay has passed since the last one. That time is at; it is
// zero if nothing is owed.
func (e *Endpoint) AckDue(now time.Time, delay time.Duration) (due bool, at time.Time) {
	a := &e.ackState
	if !a.owed {
		return false, time.Time{}
	}
	distance := int16(ackDistance)
	if e.stats.PacketLoss > lossyPercent {
		distance = ackDistanceLossy
	}
	e.advance(now)
	when := a.sentAt + int64(delay)
	if !a.spoken || e.now >= when || int16(a.newest-a.last) >= distance {
		return true, now
	}
	return false, e.base.Add(time.Duration(when))
}
