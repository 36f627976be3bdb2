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

// A source is what brings a header, and what was known before.
type source struct {
	message  bool
	waited   bool // an empty packet in the form of those that were not sent at once
	acked    bool // something has been acknowledged
	doubtful bool // nothing has confirmed the floor for long
}

// source returns that of a header as it came.
func (e *Endpoint) source(h Header, message bool) source {
	return source{message, !message && h.AckBits&1 == 0, e.Acked(), e.acks.floorDoubtful(e.now)}
}

// claims tell acks that may be true from those that cannot be, with Config.AckGuard.
type claims struct {
	floor  uint32 // acks of our predecessor's packets before this id say nothing; modulo 2^32; 0: there is none
	before uint32 // bit n < knownBits: packet floor-1-n of our predecessor was received, or may have been; see begun
}

// begun is set in claims.before if the window seems to have begun with us, so that packets further
// back are ours.
const begun = 1 << knownBits

// unsentBits is how many sequences before our first one a header has to cover, none
// of them received, to show a window that began with us.
const unsentBits = 8

// knownBits is how many bits of a header can be relied on: in an empty packet that has waited, the last
// one is lost.
const knownBits = 31

// lateReach is how far behind the newest packet a window of few packets may take others.
const lateReach = minReceivedTrack + 32

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
// came late, and filled a gap among those of our predecessor, or came before its
// first one. It is believed for that alone, unless it shows a window without our
// predecessor's packets, or the floor is doubtful. A packet that was none of the
// predecessor's shows neither if it may have come late: the window may still be the
// predecessor's, and tells of that one's packets when ours have passed them.
func (c *claims) judge(h Header, first, nextID uint64, from source) (Header, claim) {
	newest := uint16(nextID) - 1
	behind := uint64(newest - h.Ack)
	if behind >= nextID-first || behind >= halfRange {
		if h.heardNothing() {
			return h, credible // not an ack: nothing in the window is like that
		}
		ahead := uint64(h.Ack - newest)
		if ahead <= halfRange && (!from.acked || c.floor != 0 && int32(c.floor-uint32(nextID)) > 0) {
			c.raise(uint32(nextID+ahead), h.AckBits)
			return h, predecessor
		}
		return h, invalid
	}
	id := nextID - 1 - behind
	ours := id - first + 1 // so many bits are of packets of ours
	random := uint16(first) != 0
	if random && ours < 32 && h.AckBits>>ours != 0 {
		if from.acked {
			return h, invalid
		}
		c.raise(uint32(id+1), h.AckBits)
		return h, predecessor
	}
	if c.floor == 0 {
		return h, credible
	}
	ago := int(int32(c.floor - 1 - uint32(id))) // before the newest of our predecessor's; negative: after
	theirs := c.theirs(ago)
	switch {
	case ago == 0:
		return h, predecessor
	case from.message && ago > 0, ago < -1<<16:
		*c = claims{}
	case theirs&1 == 0 && ago < knownBits: // the predecessor's was not received
		if from.waited && ago < ackDistance && int32(c.floor-uint32(nextID)) >= 0 {
			*c = claims{} // it is the newest
			break
		}
		h.AckBits &^= theirs
		if !c.few() && !c.begun() {
			h.AckBits &= 1<<(knownBits-ago) - 1 // and not of those further back
		}
	case !from.doubtful && !c.begun() && (!random || ours > 32-unsentBits):
		h.AckBits &= 1
		if random {
			return h, alone
		}
	case ago < knownBits || c.few() && ago >= lateReach:
		*c = claims{}
	default:
		c.before |= begun
	}
	return h, credible
}

// theirs returns the bits that are our predecessor's in a header whose ack is so far before the
// newest of these, as far as is known.
func (c *claims) theirs(ago int) uint32 {
	before := c.before &^ begun
	if ago < 0 {
		return before << min(32, uint(-ago))
	}
	return before >> min(32, ago)
}

// raise makes the floor at least id, of which a header with these bits has spoken.
func (c *claims) raise(id, bits uint32) {
	switch ahead := int32(id - c.floor); {
	case c.floor == 0, ahead > 0:
		c.floor, c.before = id, c.before&begun|bits&^begun
	case ahead == 0:
		c.before |= bits &^ begun
	}
}

// few reports whether all packets of our predecessor that were received are known.
func (c *claims) few() bool { return c.before&^begun>>(knownBits-unsentBits) == 0 }

func (c *claims) begun() bool { return c.before&begun != 0 }

// standstill reports whether none of our latest 65,536 packets has been acknowledged. If the other side
// takes nothing any more, its acks stay where they are, and then look like those of new packets. heard
// is one past the newest packet that they have acknowledged.
func (o *outbound) standstill() (heard uint64, stands bool) {
	heard = max(o.overdue.heard, o.first)
	return heard, o.nextID-heard >= 1<<16
}

// unmoved reports whether the acks of h are those of a standstill.
func (o *outbound) unmoved(h Header) bool {
	heard, stands := o.standstill()
	return stands && h.newestNamed()+1 == uint16(heard)
}

// move ends a standstill if the acks of h have moved. It reports whether there was one: then they say
// nothing. The packets that were sent before stay unacknowledged, because the acks may move through
// packets that have waited, as for a process that stood still.
func (o *outbound) move(h Header) bool {
	heard, stands := o.standstill()
	if !stands || h.AckBits == 0 {
		return false
	}
	if newest := h.newestNamed(); newest+1 != uint16(heard) {
		o.overdue.passed(o.idOf(newest) + 1)
		o.pending.ClearRange(uint16(o.nextID), o.pending.Size())
	}
	return true
}

// disbelieved notes an ack of a packet that is yet to be sent. What brings it may come late,
// or again, when the packet has left.
func (o *outbound) disbelieved(ack uint16) {
	ahead := ack - uint16(o.nextID)
	if ahead < halfRange {
		o.overdue.foretell(uint32(o.nextID) + uint32(ahead))
	}
}

// An outdated knows up to where packets of the other side are older than our early ones, which acks
// had named before we sent them. If they name an early packet, they speak of our predecessor's.
type outdated struct {
	to uint16 // sequence of the newest of them
	at uint16 // when that was noted, see coarse; 0: there is none
}

// reach notes that packets up to s are outdated.
func (o *outdated) reach(s uint16, now int64) {
	if o.at == 0 || int16(s-o.to) > 0 {
		*o = outdated{s, coarse(now)}
	}
}

// covers reports whether packet s is outdated. The packet that showed it may be forged, so it is
// forgotten once it is older than datagrams live.
func (o *outdated) covers(s uint16, now int64) bool {
	if o.at != 0 && coarse(now)-o.at > uint16(jumpSilence>>coarseShift)+1 {
		o.at = 0
	}
	return o.at != 0 && int16(s-o.to) <= 0
}

// accepted notes a packet that was accepted.
func (o *outdated) accepted(s uint16) {
	if farBehind(o.to, s) {
		o.at = 0
	}
}

// coarse returns a time in quarters of a second, about, modulo five hours, and never 0.
func coarse(t int64) uint16 { return uint16(t>>coarseShift) | 1 }

const coarseShift = 28

// early reports whether an ack may be one that named its packet before that was sent.
func (o *outbound) early(ack uint16) bool { return o.overdue.early(uint32(o.idOf(ack))) }

// names reports whether h acknowledges one of our latest packets, also if that has left the window.
// If older ones counted, a guess would soon name one.
func (o *outbound) names(h Header) bool {
	return h.AckBits != 0 && uint64(uint16(o.nextID)-1-h.newestNamed()) < min(o.sent(), trustedWindow)
}

// tellsNews reports whether h acknowledges a packet sent after all acknowledged ones.
func (o *outbound) tellsNews(h Header) bool {
	if h.AckBits == 0 {
		return false
	}
	s := h.newestNamed()
	if d := int(uint16(o.nextID) - 1 - s); d >= int(o.count) {
		return false
	}
	return o.idOf(s) >= o.overdue.heard && o.pending.Has(s)
}
