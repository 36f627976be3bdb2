package reliable

import (
	"math"
	"math/bits"
	"time"
	"unsafe"

	"volley/internal/seq"
)

// Packets without a payload that an Endpoint asks for are its control packets:
// acknowledgements that found no message to travel with, and probes.
//
// A header has no field for how long an acknowledgement waited. So one kind of
// packet says that it did not: a packet without payload whose header has bit 0
// of ack_bits set left when the packet Ack arrived. All others are written with
// Ack one higher and bit 0 clear, which the reference itself writes while a
// message lacks fragments. Round-trip times are taken from the first kind only.
// Which arrivals are answered so is settled before they come, by counting, since
// any choice by what happens would prefer the quick or the slow ones.

const (
	ackDistance      = 16 // sequences that may wait for an ack; the field covers 32
	ackDistanceLossy = 6  // the same, when some are missing
	ackLate          = 8  // a packet that comes this far behind the newest is acknowledged at once, ...
	ackLater         = 16 // ... or where messages of ours leave in a rhythm, and so tell of it soon, one that comes this far
	ackLead          = 12 // so far is usual for one that has come in fragments just now, ...
	ackAhead         = 26 // ... the first of which may go so far ahead of the newest that a header told of

	lateDistance = 20                          // one this far behind soon leaves the 32 that ordinary headers tell of, ...
	latePause    = int64(2 * time.Millisecond) // ... so it and others that come within this time ...
	lateSpan     = 8                           // ... or, if that is less, this far apart have a header of their own

	gapPause = int64(time.Millisecond) // acknowledgements of gaps are this far apart
)

// beginnerPause is how long the duplicates of a sender that has acknowledged nothing
// yet, whose address may be forged, have no other answer.
const beginnerPause = int64(100 * time.Millisecond)

// lossyPercent is the PacketLoss above which acks leave more often.
const lossyPercent = 2

// An ackState knows what our last header said, and whether the other side waits for news.
type ackState struct {
	gapAt   int64 // when a gap was seen last
	sentAt  int64 // time of the last packet of ours
	owedAt  int64 // when the first that waits for an ack came
	lateAt  int64 // when the first late one came
	floorAt int64 // when the other side spoke of our predecessor last, see claims

	told    uint32 // our first packet that acknowledges the newest message, if asked
	last    uint16 // newest sequence that a header of ours told of, but for messages that lacked fragments
	newest  uint16 // newest sequence that waits for an ack, if owed, else that has waited for one
	lateTo  uint16 // newest of the late messages that wait for an ack, if late
	late    uint8  // sequences from the oldest of the late messages to the newest; 0: there are none
	owed    bool
	message bool // what is owed tells of a message, or a part of one
	urgent  bool // what is owed tells of a gap
	asked   bool // told is set
	pressed bool // presses may be true, and is worth asking
}

// A talk is what an Endpoint with a Config.AckDelay knows of the exchange of
// messages. It is made with the first one, and given up in idleness.
type talk struct {
	ackState
	sampler
	rhythm
	prober
}

// talkSize is that of two lines of a processor's cache, which a talk then shares
// with nothing else: allocations of that size begin at multiples of it.
const talkSize = int(unsafe.Sizeof(talk{}))

// acks settle when to tell what was received, and when to ask what became of what was sent.
type acks struct {
	talk *talk // nil before the first message, and with a Config.AckDelay of zero

	// The newest message whose acks were believed.
	spoke    uint16 // its sequence
	spokeAck uint16 // its ack
	spoken   bool   // there is such a message

	first uint8 // messages sampled, up to sampledFirst
	alone uint8 // claims of that kind in a row, up to mostAlone
}

// A view is what acknowledgements depend on beside what is owed.
type view struct {
	seen  *seq.Window
	open  int   // packets that lack fragments
	lossy bool  // our own packets are lost, so theirs may be, too
	rtt   int64 // smoothed round-trip time; 0: not known
}

// newest returns the newest sequence seen.
func (v view) newest() uint16 { return v.seen.Next() - 1 }

// sent notes that packet id, whose header tells of all up to newest, has left.
func (a *ackState) sent(id uint64, newest uint16, now int64) {
	a.sentAt = now
	if int16(newest-a.last) > 0 {
		a.last = newest
	}
	if a.owed && int16(a.newest-newest) > 0 {
		return // newer ones are not in that header
	}
	if a.message {
		a.told, a.asked = uint32(id), true
	}
	a.owed, a.message, a.urgent = false, false, false
	a.pressed = a.late > 0
}

// tellFrom makes s the newest sequence that a header of ours told of.
func (a *ackState) tellFrom(s uint16) { a.last, a.newest = s, s }

// oweLate notes that the message s came so late that ordinary headers hardly tell of it.
func (a *ackState) oweLate(s uint16, now int64) {
	switch ahead := int(int16(s - a.lateTo)); {
	case a.late == 0:
		a.late, a.lateAt, a.lateTo = 1, now, s
	case ahead > 0:
		a.late, a.lateTo = uint8(min(int(a.late)+ahead, math.MaxUint8)), s
	case -ahead >= int(a.late):
		a.late = uint8(min(1-ahead, math.MaxUint8))
	}
}

// leaveBehind makes late, and due, what waits for an ack, if ordinary headers tell of it no more
// behind the packet s.
func (a *ackState) leaveBehind(g *env, s uint16) {
	if a.owed && int16(s-a.newest) >= ackDistance && g.Acked() { // else its address may be forged
		a.oweLate(a.newest, g.now-latePause)
	}
}

// lateDue returns when the late messages have to be acknowledged, if late.
func (a *ackState) lateDue(now int64) int64 {
	if a.late > lateSpan {
		return now
	}
	return a.lateAt + latePause
}

// owe notes that the sequence s waits for an ack.
func (a *ackState) owe(s uint16, now int64) {
	if !a.owed {
		a.owedAt = now
	}
	if !a.owed || int16(s-a.newest) > 0 {
		a.newest = s
	}
	a.owed = true
}

// confirmed notes that the other side has acknowledged packet id.
func (a *ackState) confirmed(id uint64) {
	if a.asked && int32(uint32(id)-a.told) >= 0 {
		a.asked = false
	}
}

// answeredLate takes the late messages to acknowledge now, if any, and returns the newest.
func (a *ackState) answeredLate(now int64) (s uint16, due bool) {
	if a.late == 0 || a.lateDue(now) > now {
		return 0, false
	}
	a.late = 0
	return a.lateTo, true
}

// outOfOrder notes a gap or a late packet. A gap is no news before a round trip.
func (a *ackState) outOfOrder(gap, message bool, now int64) {
	if !gap {
		return
	}
	a.gapAt = now
	if !message {
		a.urgent, a.pressed = true, true
	}
}

// far reports whether so many sequences wait for an ack that it cannot wait for a message.
// Those ahead of the newest whole message count before the ack field loses some.
func (a *ackState) far(v view) bool {
	distance := int16(a.newest - a.last) // to the newest whole message
	return (distance >= ackDistanceLossy || v.open > 0) && a.tooFar(v, distance)
}

// tooFar is far where that is not clear at once.
func (a *ackState) tooFar(v view, distance int16) bool {
	switch {
	case distance >= ackDistance:
		return true
	case v.open > 0 && int16(v.newest()-a.last) >= ackAhead:
		return true
	case distance < ackDistanceLossy:
		return false
	}
	return v.lossy || a.missing(v)
}

// missing reports whether a sequence has not come, or lacks fragments for too long.
func (a *ackState) missing(v view) bool {
	ack, present := v.seen.Acks()
	absent := ^present &^ 1 // the newest may be such a message, too
	if bits.OnesCount32(absent) <= v.open {
		absent >>= ack - a.last
	}
	return absent != 0
}

// newestDue returns when to acknowledge the newest, sooner after gaps.
func (a *ackState) newestDue(delay, watch int64, r *rhythm, soon, late int64) (at int64) {
	if a.urgent {
		return a.sentAt + gapPause
	}
	if a.gapAt != never && a.owedAt-a.gapAt <= watch {
		return min(a.sentAt+watch/4, a.owedAt+delay/2)
	}
	if at, ok := r.next(a.owedAt); ok && at <= a.owedAt+delay {
		return max(at, a.owedAt+delay/2) // the messages of a busy program come late, too
	}
	latest := a.owedAt + delay/2
	extended := latest + delay/8 // more would have the other side's probes wait
	if late > latest && soon <= extended {
		return min(late, extended)
	}
	return latest
}

// open returns the talk, made at need, with all up to newest acknowledged.
func (a *acks) open(g *env, newest uint16) *talk {
	if a.talk == nil {
		a.talk = &talk{
			ackState: ackState{last: newest, newest: newest, gapAt: never, sentAt: g.now, floorAt: g.now},
			sampler:  newSampler(0),
			rhythm:   rhythm{latest: never},
		}
		g.hold(talkSize)
	}
	return a.talk
}

func (a *acks) free(g *env) {
	if a.talk != nil {
		a.talk = nil
		g.hold(-talkSize)
	}
}

// forgetReceived makes a talk as before the first packet, which is answered at once.
func (a *acks) forgetReceived() {
	a.spoken = false
	if t := a.talk; t != nil {
		t.ackState = ackState{gapAt: never, sentAt: t.sentAt}
		t.tellFrom(noneHeard - ackAhead)
		t.sampler = newSampler(t.sampledAt)
		t.quiet()
	}
}

// arrived settles how the packet s, which was received, is acknowledged. That it came
// far too late is news to the other side; but where its first fragment came just before,
// those of others may have gone ahead of the rest. So is a gap, in time, see outOfOrder.
// A packet without payload is worth an answer only if it is news, or while the other
// side may not know what we have received; so answers do not answer each other for ever.
// Within a round trip of our last packet, the other side has not seen that one yet.
// But where an acknowledgement is owed, it moves that towards the end of what the ack
// field covers.
func (a *acks) arrived(g *env, v view, s uint16, gap, message, justBegun bool) {
	t := a.talk
	if !message && !gap && (t == nil || !t.owed && !t.unheard(v.rtt, g.now)) {
		if t != nil && int16(s-t.newest) > 0 {
			t.newest = s
		}
		return
	}
	t = a.open(g, v.newest())
	t.leaveBehind(g, s)
	t.owe(s, g.now)
	if message {
		t.message = true
		// The address of one that has acknowledged nothing may be forged: it is
		// answered in time, and not at once.
		if g.Acked() && t.arrive(g.now) {
			a.sample(s, g.now)
		}
	}
	t.pressed = t.pressed || t.sampled || t.far(v)
	if behind := int16(v.newest() - s); behind != 0 || gap {
		t.disordered(v, s, behind, gap, message, justBegun, g.now)
	}
}

// disordered is the part of arrived for a packet that is behind others, or a gap.
func (t *talk) disordered(v view, s uint16, behind int16, gap, message, justBegun bool, now int64) {
	t.outOfOrder(gap && behind == 0, message, now)
	if behind > 0 && t.gapAt != never && !t.missing(v) {
		t.gapAt = never // it was only late
	}
	late := behind >= ackLate && (behind >= ackLead || !justBegun)
	if late && (behind >= ackLater || !t.rhythm.alive(now)) {
		t.urgent, t.pressed = true, true
	}
	if behind >= lateDistance && message {
		t.oweLate(s, now)
	}
}

// unheard reports whether the other side may still not know what we have received.
func (t *talk) unheard(rtt, now int64) bool {
	return t.asked && now-t.sentAt >= max(rtt, t.recent)
}

// sample has the message s answered at once.
func (a *acks) sample(s uint16, now int64) {
	t := a.talk
	since, n := t.sampler.sample(s, now)
	t.hear(since, n)
	first := a.first < sampledFirst
	if first {
		a.first++
	}
	t.pause(since, first, t.alive(now))
}

// begun notes a fragment that moved the window: a header is due, without covering it.
func (a *acks) begun(g *env, v view, gap bool) {
	t := a.open(g, v.newest())
	t.leaveBehind(g, v.newest())
	t.owe(t.newest, g.now)
	t.message = true
	t.pressed = t.pressed || t.far(v)
	t.outOfOrder(gap, true, g.now)
}

// departed notes that packet id tells of all up to newest, except open packets.
func (t *talk) departed(id uint64, newest uint16, open int, now int64) {
	if open > 0 && int16(newest-t.newest) > 0 {
		newest -= min(newest-t.newest, ackLead)
	}
	t.sent(id, newest, now)
	t.pressed = t.pressed || t.sampled
}

// refused notes that the message s was refused. Of what waits for an ack, the window may soon hold
// nothing: refused messages do not move it, and the next packet that is taken moves it past all.
func (a *acks) refused(g *env, s uint16) {
	if t := a.talk; t != nil && int16(t.newest-t.last) > 0 { // else no more than a first fragment waits
		t.leaveBehind(g, s)
		t.pressed = t.pressed || t.late > 0
	}
}

// introduce makes an ack due for a refused packet if we have sent none yet.
func (a *acks) introduce(g *env, newest uint16) {
	if g.cfg.AckDelay > 0 {
		a.open(g, newest).owe(newest, g.now)
	}
}

// answerBeginner makes an ack due for a duplicate of a side that has heard nothing.
func (a *acks) answerBeginner(g *env, newest uint16) {
	if g.cfg.AckDelay == 0 {
		return
	}
	if t := a.open(g, newest); g.Acked() || g.now-t.sentAt >= beginnerPause {
		t.owe(newest, g.now)
		t.urgent, t.pressed = true, true
	}
}

// speaks notes that the acks of a message were believed.
func (a *acks) speaks(s, ack uint16) {
	if !a.spoken || int16(s-a.spoke) > 0 {
		a.spoke, a.spokeAck, a.spoken = s, ack, true
	}
}

// reach notes a packet that was accepted.
func (a *acks) reach(s uint16) { a.spoken = a.spoken && !farBehind(a.spoke, s) }

// farBehind reports whether a sequence is so far behind s that it would soon seem to be ahead.
func farBehind(old, s uint16) bool {
	d := s - old
	return d < halfRange && d >= halfRange/2
}

// late reports whether a message whose acks were believed was sent after the packet s.
func (a *acks) late(s uint16) bool { return a.spoken && int16(a.spoke-s) > 0 }

// timely reports whether the ack of a packet is no newer than its place allows: a message that
// was sent later, or a first fragment of one, tells an ack as new. Unfinished messages that tell
// no ack allow any. Behind a jump, which may be forged, none is allowed.
func (a *acks) timely(h Header, parts *reassembler) bool {
	if a.late(h.Sequence) {
		return int16(h.Ack-a.spokeAck) <= 0
	}
	if !a.spoken || parts.open == 0 {
		return false
	}
	ack, told := parts.toldAfter(h.Sequence)
	return !told || int16(h.Ack-ack) <= 0
}

// judged notes what the acks of a header turned out to be.
func (a *acks) judged(c claim, now int64) {
	switch {
	case c == alone && a.alone < mostAlone:
		a.alone++
	case c == predecessor:
		a.alone = 0
		if a.talk != nil {
			a.talk.floorAt = now
		}
	}
}

// floorDoubtful reports whether nothing has confirmed our predecessor for long.
func (a *acks) floorDoubtful(now int64) bool {
	return a.alone >= mostAlone || a.talk != nil && now-a.talk.floorAt > floorSilence
}

// variation returns the round-trip time that matters for losses, and how much it varies.
func (a *acks) variation(rtt int64) (longer, vary int64) {
	if a.talk == nil {
		return rtt, 0
	}
	return a.talk.variation(rtt)
}

// idle reports whether no control packet can be due. What was sent waits for its fate.
func (a *acks) idle(flight int32) bool {
	t := a.talk
	return t == nil || !t.owed && !t.sampled && t.late == 0 && flight == 0
}

// presses reports whether an acknowledgement is due whatever the time.
func (a *acks) presses(v view) bool {
	t := a.talk
	return t.sampled || t.late > 0 || t.owed && (t.urgent || t.far(v))
}

// due returns when an acknowledgement has to leave.
func (a *acks) due(g *env, v view, rtt float32) (at int64, ok bool) {
	t := a.talk
	switch {
	case t.sampled, t.owed && t.far(v):
		at, ok = g.now, true
	case t.owed:
		delay := int64(g.cfg.AckDelay)
		soon, late := t.expected(int64(t.pace))
		at, ok = t.newestDue(delay, max(delay/2, int64(float64(rtt)*1.25e6)), &t.rhythm, soon, late), true
	}
	if t.late > 0 {
		if late := t.lateDue(g.now); !ok || late < at {
			at, ok = late, true
		}
	}
	return at, ok
}
