package reliable

import "time"

// A claim is what the acks of a header turn out to be.
type claim uint8

const (
	credible    claim = iota
	alone             // only that one packet was received
	invalid           // of a packet that was never sent
	predecessor       // of the packet before the floor, or of one that makes a floor
)

// floorSilence is how long empty packets must have spoken only of packets below the floor of
// acks before that is given up: several times a quiet peer's wait.
const floorSilence = int64(30 * time.Second)

// claims tell acks that may be true from those that cannot be, with Config.AckGuard.
type claims struct {
	floor uint64 // acks of packets before this id say nothing
}

// unsentBits is how many sequences before our first one a header has to cover, none
// of them received, to show a window that began with us.
const unsentBits = 8

// mostAlone is how many headers in a row acknowledge one packet below the floor for
// which a late one of our predecessor's may have been taken.
const mostAlone = 3

// judge says what the acks of h are, and returns h with those that may be true. If
// its ack is one of a packet that was never sent, nothing of it is: the other side
// speaks of an endpoint that had this address before. Before the first ack, it
// is also remembered that packets up to there, which are yet to be sent, are
// what the other side has seen already: it will take them for duplicates, and
// acks of them say nothing. Their bits are taken out of h.
//
// The same holds if the ack is one of ours, but the bits tell of sequences before
// our first. An endpoint that begins at 0, as the reference does, has only the rules
// that need no random first sequence.
//
// A message tells of the newest packet that the other side has seen. One of
// before that point shows that the header which spoke of it was wrong, or that
// the other side has begun anew. A packet without a message may be for one that
// came late, and filled a gap among those of our predecessor. It is believed for
// that alone, unless it shows a window without our predecessor's packets, or the
// floor is doubtful.
func (c *claims) judge(h Header, first, nextID uint64, message, acked, doubtful bool) (Header, claim) {
	newest := uint16(nextID) - 1
	behind := uint64(newest - h.Ack)
	if behind >= nextID-first || behind >= halfRange {
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
	id := nextID - 1 - behind
	ours := id - first + 1 // so many bits are of packets of ours
	random := uint16(first) != 0
	if random && ours < 32 && h.AckBits>>ours != 0 {
		if acked {
			return h, invalid
		}
		c.floor = max(c.floor, id+1)
		return h, predecessor
	}
	if c.floor == 0 {
		return h, credible
	}
	switch {
	case id >= c.floor:
		h.AckBits &= 1<<min(32, id-c.floor+1) - 1
	case id == c.floor-1:
		return h, predecessor
	case message || doubtful || random && ours <= 32-unsentBits:
		c.floor = 0
	default:
		h.AckBits &= 1
		if random {
			return h, alone
		}
	}
	return h, credible
}

// disbelieved notes an ack of a packet that is yet to be sent. What brings it may come late,
// or again, when the packet has left.
func (o *outbound) disbelieved(ack uint16) {
	ahead := ack - uint16(o.nextID)
	if ahead < halfRange {
		o.overdue.foretell(uint32(o.nextID) + uint32(ahead))
	}
}

// early reports whether an ack may be one that named its packet before that was sent.
func (o *outbound) early(ack uint16) bool { return o.overdue.early(uint32(o.idOf(ack))) }

// tellsNews reports whether h acknowledges a packet sent after all acknowledged ones.
func (o *outbound) tellsNews(h Header) bool {
	if h.AckBits == 0 {
		return false
	}
	s := h.newestNamed()
	if d := int(uint16(o.nextID) - 1 - s); d >= o.count {
		return false
	}
	return o.idOf(s) >= o.overdue.heard
}
