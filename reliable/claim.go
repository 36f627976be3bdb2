package reliable

import (
	"math/bits"
	"time"
)

// A claim is what the acks of a header turn out to be.
type claim uint8

const (
	credible    claim = iota
	invalid           // of a packet that was never sent
	predecessor       // of the packet before the floor, or of one that makes a floor
)

// floorSilence is how long packets without a message must have spoken only of
// packets below the floor of acks before it is given up. It is several times as
// long as a peer waits that has nothing to acknowledge.
const floorSilence = int64(30 * time.Second)

// claims tell acks that may be true from those that cannot be, with Config.AckGuard.
type claims struct {
	floor uint64 // acks of packets before this id say nothing
}

// judge says what the acks of h are, and returns h with those that may be true. If
// its ack is one of a packet that was never sent, nothing of it is: the other side
// speaks of an endpoint that had this address before. Before the first ack, it
// is also remembered that packets up to there, which are yet to be sent, are
// what the other side has seen already: it will take them for duplicates, and
// acks of them say nothing. Their bits are taken out of h.
//
// A message tells of the newest packet that the other side has seen. One of
// before that point shows that the header which spoke of it was wrong, or that
// the other side has begun anew. A packet without a message may be for one that
// came late, and filled a gap among those of our predecessor: it is believed for
// that alone, unless nothing else has been heard for a long time, in silence.
func (c *claims) judge(h Header, nextID uint64, message, acked, silence bool) (Header, claim) {
	newest := uint16(nextID) - 1
	behind := uint64(newest - h.Ack)
	if behind >= nextID || behind >= halfRange {
		if h.heardNothing() {
			return h, credible // not an ack: nothing in the window is like that
		}
		ahead := uint64(h.Ack - newest)
		if ahead <= halfRange && (!acked || c.floor > nextID) {
			c.floor = max(c.floor, nextID+ahead)
			return h, predecessor
		}
		return h, invalid
	}
	if c.floor == 0 {
		return h, credible
	}
	id := nextID - 1 - behind
	switch {
	case id >= c.floor:
		h.AckBits &= 1<<min(32, id-c.floor+1) - 1
	case id == c.floor-1:
		return h, predecessor
	case message || silence:
		c.floor = 0
	default:
		h.AckBits &= 1
	}
	return h, credible
}

// tellsNews reports whether h acknowledges a packet that has no acknowledgement,
// and was sent no earlier than all that have one.
func (o *outbound) tellsNews(h Header) bool {
	if h.AckBits == 0 {
		return false
	}
	s := h.Ack - uint16(bits.TrailingZeros32(h.AckBits))
	if d := int(uint16(o.nextID) - 1 - s); d >= o.count {
		return false
	}
	r := o.record(s)
	return r.mark&markAcked == 0 && r.at >= o.ackedAt
}
