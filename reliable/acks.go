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
	newest uint16 // newest sequence received since an ack is owed, if one is
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

// pass notes the sequence s of a packet that only acknowledges. It is owed
// nothing, but moves what is towards the end of what the ack field covers.
func (a *ackState) pass(s uint16) {
	if a.owed {
		a.owe(s)
	}
}

// AckDue reports whether the other side waits for an acknowledgement, and how
// long one may still wait for a packet to travel with before an ack-only packet
// should be sent: with a wait of 0, at once. So every packet is acknowledged
// while the ack field covers it.
//
// One is owed after a packet with a payload, or a fragment, that no header of
// ours has told of. It is due at once when 16 sequences have come since our last
// header (8 while Stats.PacketLoss is above 2 %), or if no packet of ours left during the last
// delay; else when delay has passed since the last one.
func (e *Endpoint) AckDue(now time.Time, delay time.Duration) (wait time.Duration, owed bool) {
	a := &e.ackState
	if !a.owed {
		return 0, false
	}
	distance := int16(ackDistance)
	if e.stats.PacketLoss > lossyPercent {
		distance = ackDistanceLossy
	}
	e.advance(now)
	if !a.spoken || int16(a.newest-a.last) >= distance {
		return 0, true
	}
	return max(0, time.Duration(a.sentAt-e.now)+delay), true
}

// credible reports whether h acknowledges something that may be true. If its
// ack is one of a packet that was never sent, nothing of it is: the other side
// speaks of an endpoint that had this address before. Before the first ack, it
// is also remembered that packets up to there, which are yet to be sent, are
// what the other side has seen already: it will take them for duplicates, and
// acks of them say nothing. Their bits are taken out of h.
func (e *Endpoint) credible(h *Header) bool {
	newest := uint16(e.nextID) - 1
	behind := uint64(newest - h.Ack)
	if behind >= e.nextID || behind >= halfRange {
		if h.heardNothing() {
			return true // not an ack: nothing in the window is like that
		}
		e.counters.AcksInvalid++
		if ahead := uint64(h.Ack - newest); ahead <= halfRange && e.counters.PacketsAcked == 0 {
			e.ackFloor = max(e.ackFloor, e.nextID+ahead)
		}
		return false
	}
	if e.ackFloor == 0 {
		return true
	}
	id := e.nextID - 1 - behind
	switch {
	case id >= e.ackFloor:
		h.AckBits &= 1<<min(32, id-e.ackFloor+1) - 1
	case id == e.ackFloor-1:
		e.counters.AcksInvalid++
		return false
	default:
		e.ackFloor = 0 // it has not seen that packet: the earlier header was wrong
	}
	return true
}
