package reliable

import (
	"time"

	"volley/internal/seq"
)

const (
	minReceivedTrack   = 64   // sequences that a growing window tells apart at first
	maxReceivedCompact = 1024 // and at most after Compact
	receivedTurn       = 1000 // a growing window doubles if it turns over faster, in milliseconds
)

// Limits of the jump guard, in sequences.
const (
	jumpAhead   = 4096    // a packet further ahead than this, or than the window, is not believed at once
	halfRange   = 1 << 15 // of sequences: further ahead is behind
	jumpConfirm = 16      // one that follows it by at most this confirms it
)

// jumpSilence is how long no packet must have been accepted before one from
// behind is believed. It has to be longer than a datagram lives in the network.
const jumpSilence = int64(10 * time.Second)

// An inbound knows which packets were received, and which sequences to believe.
type inbound struct {
	seen       seq.Window
	ring       *receivedRing // nil before the first packet, and with Config.MaxWindow
	newsAt     int64         // when the last packet was accepted, or never
	turnedAt   uint32        // when a growing window was last all new, in milliseconds
	openedAt   uint32        // when the first packet of the opening came, in milliseconds
	parked     int32         // sequence that JumpGuard waits to see confirmed, or -1
	newsSeq    uint16        // of the packet accepted last
	turnedNext uint16        // what a growing window expected at turnedAt
	unmet      bool          // no packet has come yet, with a Config.MidStream
	asking     bool          // an inquiry is due, see InquiryDue
	renewals   uint8         // how often the other side has started anew for sure
	said       uint8         // messages of the opening that came, up to openingFew
	opening    opening       // of the other side
	former     opening       // the one before, of a side that has been renewed since
	formerEnd  uint16        // the newest sequence of that side
}

func newInbound(g *env) (in inbound) {
	n := or(g.cfg.ReceivedBuffer, defaultReceivedBuffer)
	track := n
	if g.grows() {
		n, track = g.cfg.MaxWindow, minReceivedTrack
	}
	in.seen.Init(n, track)
	in.newsAt, in.parked, in.unmet = never, -1, g.cfg.MidStream
	g.hold(in.seen.Bytes())
	return in
}

// forget makes in as it is before the first packet.
func (in *inbound) forget(g *env) {
	in.seen.Reset()
	in.ring.reset(0)
	in.turnedAt, in.turnedNext = milliseconds(g.now), 0
	in.newsAt, in.parked, in.unmet, in.opening, in.said = never, -1, g.cfg.MidStream, opening{}, 0
}

// renew has the window begin with the next packet.
func (in *inbound) renew(g *env) {
	in.former, in.formerEnd = in.opening, in.newest()
	in.forget(g)
	in.unmet = true
	in.renewals++
}

// doubtRenewal takes back that it is sure that the other side has started anew.
func (in *inbound) doubtRenewal() { in.renewals-- }

// openNow notes that an opening begins.
func (in *inbound) openNow(now int64) { in.openedAt = milliseconds(now) }

// openedBefore makes the opening one that ended shortly before s.
func (in *inbound) openedBefore(now int64, s uint16) {
	in.openNow(now)
	in.opening = opening{s - openingReach, openingReach}
}

// jumped notes that the window has begun again with s by a jump. The other side may have
// started anew, and then it had heard nothing until shortly before.
func (in *inbound) jumped(now int64, s uint16) {
	in.former, in.said = in.opening, 0
	in.openedBefore(now, s)
}

// ofFormer reports whether a packet so far ahead may be a late one, from before the other side
// started anew: that was not long ago, and its packets were as far ahead, or nearly.
func (in *inbound) ofFormer(now int64, ahead uint16) bool {
	if in.former.none() || milliseconds(now)-in.openedAt >= milliseconds(jumpSilence) {
		return false
	}
	return int(ahead) <= int(int16(in.formerEnd-in.seen.Next()))+jumpAhead
}

// openAgain sets what is known of the openings when the window begins again with s. Copies
// of what came before, when the last packet did, may still come.
func (in *inbound) openAgain(newsAt int64, s uint16, o, former opening, said uint8) {
	in.newsAt, in.newsSeq = newsAt, s
	in.opening, in.former, in.said = o, former, said
}

// came notes a packet that looks like no copy, also one that is refused: the other side is not silent.
func (in *inbound) came(now int64, h Header, message bool) {
	in.newsAt, in.newsSeq = now, h.Sequence
	if in.opening.none() {
		in.openNow(now)
	}
	in.opening.note(h, message)
	if message && h.heardNothing() && in.said < openingFew {
		in.said++
	}
}

// aheadOfOpening returns how far in front of the opening a packet may be that goes on with it:
// of a flood, twice as far as it came in as much time as nothing has come now. So it goes on
// behind a pause, perhaps of our own reader.
func (in *inbound) aheadOfOpening(now int64) int {
	if in.opening.count <= openingReach {
		return openingReach
	}
	newsAt := milliseconds(in.newsAt)
	pause, before := int64(milliseconds(now)-newsAt), int64(newsAt-in.openedAt)
	n := 2 * int64(in.opening.count) * pause / max(before, pause, 1)
	return int(min(max(n, openingReach), halfRange))
}

// begin moves the window to s if it is the first packet. Little older ones may still come.
func (in *inbound) begin(s uint16) bool {
	if !in.unmet {
		return false
	}
	in.unmet = false
	if s < minReceivedTrack {
		return false // the window begins at 0
	}
	in.seen.Begin(s, minReceivedTrack-1)
	in.turnedNext = s
	in.ring.reset(s)
	return true
}

// restart makes s the next sequence, and leaves all before it behind.
func (in *inbound) restart(s uint16) {
	in.seen.Restart(s)
	in.turnedNext = s
	in.ring.reset(s)
}

// beginAfter is restart where late copies may come; last is when the last packet came.
func (in *inbound) beginAfter(newsAt int64, s uint16) {
	in.newsAt, in.newsSeq = newsAt, s
	in.restart(s)
}

// silent reports whether nothing was accepted for longer than datagrams live.
func (in *inbound) silent(now int64) bool { return now-in.newsAt >= jumpSilence }

// newest returns the newest sequence seen.
func (in *inbound) newest() uint16 { return in.seen.Next() - 1 }

// header returns the header of packet id, if it leaves now.
func (in *inbound) header(id uint64) Header {
	ack, ackBits := in.seen.Acks()
	return Header{uint16(id), ack, ackBits}
}

// headerOf is header for one that acknowledges s and the 31 before it.
func (in *inbound) headerOf(id uint64, s uint16) Header {
	return Header{uint16(id), s, in.seen.AcksAt(s)}
}

func (in *inbound) ask() { in.asking = true }

func (in *inbound) asked() { in.asking = false }

// guard reports whether the packet s may be believed, or else the verdict on
// it. Near the window every packet is. One that is behind it is a late copy,
// whatever else comes, unless the other side has been silent for so long that
// there can be none. So is one that is behind the packet accepted last: if that
// came after a gap of nearly the whole range, and filled a hole of the window,
// the other side is a turn further on than the window. One so far ahead that
// those in between, should they still come, would be taken for duplicates is
// believed if it follows another such one that was parked; where that is very
// far, the window starts again with it: it jumps. Shortly after the other side
// has started anew, packets that may be from before are not believed so. It is
// asked instead, since its answer tells.
func (in *inbound) guard(now int64, s uint16) (v Verdict, believed, jumped bool) {
	w := &in.seen
	ahead := s - w.Next()
	if int(ahead) < min(jumpAhead, w.Track()) || int(w.Next()-1-s) < w.Len() {
		return 0, true, false
	}
	if behind := ahead >= halfRange || s-in.newsSeq >= halfRange; behind && !in.silent(now) {
		return stale, false, false
	}
	if in.ofFormer(now, ahead) {
		in.ask()
		return parked, false, false
	}
	if d := s - uint16(in.parked); in.parked < 0 || d < 1 || d > jumpConfirm {
		in.parked = int32(s)
		return parked, false, false
	}
	if ahead >= jumpAhead {
		in.parked, in.formerEnd = -1, in.newest()
		in.restart(s)
		jumped = true
	}
	return 0, true, jumped
}

func (in *inbound) accept(g *env, s uint16, bytes uint32) {
	ahead := s == in.seen.Next() || in.seen.Ahead(s)
	if ahead {
		in.parked = -1
	}
	if in.seen.Insert(s); !g.grows() {
		in.record(g, s, receivedRecord{at: g.now, bytes: bytes})
	} else if ahead {
		in.turn(g)
	}
}

// record puts the record of a packet into the ring.
func (in *inbound) record(g *env, s uint16, rec receivedRecord) {
	if in.ring == nil {
		in.ring = newReceivedRing(g, in.seen.Len(), in.seen.Next())
	}
	switch r := in.ring; {
	case r == nil: // there is no memory
	case !in.seen.Bitwise():
		r.set(s, rec)
	case s == r.next:
		r.push(rec)
	default:
		r.forward(in.seen.Next())
		r.put(s, rec)
	}
}

// forward makes s the newest sequence. It reports whether it is, and whether it leaves a gap.
func (in *inbound) forward(s uint16) (moved, gap bool) {
	gap = s != in.seen.Next()
	if !gap && in.seen.Bitwise() {
		in.seen.Skip()
	} else if !in.seen.Forward(s) {
		return false, false
	}
	in.parked = -1
	if in.ring != nil && in.seen.Bitwise() {
		in.ring.forward(in.seen.Next())
	}
	return true, gap
}

// turn doubles a window that turns over too quickly to tell late packets from duplicates.
func (in *inbound) turn(g *env) {
	track := in.seen.Track()
	if in.seen.Next()-in.turnedNext < uint16(track) {
		return
	}
	fast := milliseconds(g.now)-in.turnedAt < receivedTurn
	in.turnedAt, in.turnedNext = milliseconds(g.now), in.seen.Next()
	if fast && track < g.cfg.MaxWindow && g.take(track/8) {
		in.seen.Resize(2 * track)
	}
}

// shrink gives memory back.
func (in *inbound) shrink(g *env) {
	in.freeRing(g)
	if !g.grows() {
		return
	}
	before := in.seen.Bytes()
	if n := in.seen.Trim(minReceivedTrack, maxReceivedCompact); n < in.seen.Track() {
		in.seen.Resize(n)
		in.turnedAt, in.turnedNext = milliseconds(g.now), in.seen.Next()
	}
	g.give(before - in.seen.Bytes())
}

func (in *inbound) freeRing(g *env) {
	in.ring.free(g)
	in.ring = nil
}

// free gives the memory of the window back, as far as it was taken.
func (in *inbound) free(g *env) {
	if g.grows() {
		g.give(in.seen.Bytes() - minReceivedTrack/8)
	}
	*in = inbound{newsAt: never, parked: -1}
}

// olderHalf returns the span of the packets in the older half of a fixed window.
func (in *inbound) olderHalf() (got span) {
	r := in.ring
	switch {
	case r == nil:
		return got
	case in.seen.Bitwise():
		return r.span()
	}
	n := in.seen.Len()
	first := in.seen.Next() - uint16(n)
	for i := range uint16(n / 2) {
		s := first + i
		if rec := &r.records[int(s)%n]; in.seen.Exists(s) && rec.bytes > 0 {
			got.add(rec.at, rec.bytes)
		}
	}
	return got
}

func milliseconds(t int64) uint32 { return uint32(t / int64(time.Millisecond)) }
