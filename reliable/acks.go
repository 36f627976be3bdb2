package reliable

import (
	"math"
	"math/bits"
	"time"
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

	sampledFirst   = 3                              // so many arrivals are sampled at first, ...
	sampledTalk    = int64(1200 * time.Millisecond) // ... then one in this time where we send messages too, ...
	sampledListen  = int64(80 * time.Millisecond)   // ... and one in this time where we do not
	minTalkEvery   = 4
	maxTalkEvery   = 64                           // but where so many come within less time, ...
	sampledBusy    = int64(20 * time.Millisecond) // ... one in this time ...
	maxBusyEvery   = 4096                         // ... or in so many
	minListenEvery = 3
	maxListenEvery = ackDistance - 2
)

// An ackState knows what our last header said, and whether the other side
// waits for news.
type ackState struct {
	gapAt     int64 // when a gap was seen last
	sentAt    int64 // time of the last packet of ours
	owedAt    int64 // when the first that waits for an ack came
	lateAt    int64 // when the first late one came
	sampledAt int64 // when an arrival was sampled last
	floorAt   int64 // when the other side spoke of our predecessor last, see credible

	told    uint32 // our first packet that acknowledges the newest message, if asked
	last    uint16 // newest sequence that a header of ours told of, but for messages that lacked fragments
	newest  uint16 // newest sequence that waits for an ack, if owed, else that has waited for one
	anchor  uint16 // that a sampled acknowledgement is for
	lateTo  uint16 // newest of the late messages that wait for an ack, if late
	every   uint16 // one arrival in so many is sampled
	left    uint16 // arrivals until the next one
	late    uint8  // sequences from the oldest of the late messages to the newest; 0: there are none
	sampled bool   // the arrival just now is
	owed    bool
	message bool // what is owed tells of a message, or a part of one
	urgent  bool // what is owed tells of a gap
	asked   bool // told is set
	pressed bool // presses may be true, and is worth asking
}

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
	a.pressed = a.late > 0 || a.sampled
}

// tellFrom makes s the newest sequence that a header of ours told of.
func (a *ackState) tellFrom(s uint16) { a.last, a.newest = s, s }

// oweLate notes that the message s came so late that ordinary headers hardly
// tell of it.
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

// noteArrival settles how the packet s, which was received, is acknowledged. That it came
// far too late is news to the other side; but where its first fragment came just before,
// those of others may have gone ahead of the rest. So is a gap, in time, see noteGap. A packet
// without payload is worth an answer only if it is news, or while the other side may
// not know what we have received; so answers do not answer each other for ever. But
// where an acknowledgement is owed, it moves that towards the end of what the ack
// field covers.
func (e *Endpoint) noteArrival(s uint16, gap, message, justBegun bool) {
	if t := e.talk; !message && !gap && (t == nil || !t.asked && !t.owed) {
		if t != nil && int16(s-t.newest) > 0 {
			t.newest = s
		}
		return
	}
	a := &e.talking().ackState
	a.owe(s, e.now)
	if message {
		a.message = true
		if !e.Acked() {
			// Its address may be forged: it is answered in time, and not at once.
		} else if a.left--; a.left == 0 {
			e.sampleArrival(s)
		} else if a.left > maxTalkEvery && e.now-a.sampledAt > sampledTalk {
			a.every -= a.left - maxTalkEvery // they come far less often than before
			a.left = maxTalkEvery
		}
	}
	a.pressed = a.pressed || a.sampled || e.ackPresses()
	behind := int16(e.received.seen.Next() - 1 - s)
	if behind == 0 && !gap {
		return // as nearly always
	}
	e.noteGap(gap && behind == 0, message)
	if behind > 0 && a.gapAt != never && !e.missing() {
		a.gapAt = never // it was only late
	}
	if late := behind >= ackLate && (behind >= ackLead || !justBegun); late && (behind >= ackLater || !e.talk.rhythm.alive(e.now)) {
		a.urgent, a.pressed = true, true
	}
	if behind >= lateDistance && message {
		a.oweLate(s, e.now)
	}
}

// noteStart notes that a fragment of a packet has moved the window. It makes a
// header due, but does not count among those that the ack field has to cover: there
// is nothing to tell of it before it is whole.
func (e *Endpoint) noteStart(gap bool) {
	if e.cfg.AckDelay > 0 {
		a := &e.talking().ackState
		a.owe(a.newest, e.now)
		a.message = true
		a.pressed = a.pressed || e.ackPresses()
		e.noteGap(gap, true)
	}
}

// noteGap notes that a packet, with a message or a part of one or without, came behind a
// gap, or late. That one is missing is no news before the other side may take it for lost,
// which is when one has come that was sent a round trip later; but a probe wants to know.
func (e *Endpoint) noteGap(gap, message bool) {
	if a := &e.talk.ackState; gap {
		a.gapAt = e.now
		if !message {
			a.urgent, a.pressed = true, true
		}
	}
}

// sampleArrival has the message s answered at once, and settles how many more come
// before the next such one.
func (e *Endpoint) sampleArrival(s uint16) {
	a := &e.talk.ackState
	a.sampled, a.anchor = true, s
	since := e.now - a.sampledAt
	a.sampledAt = e.now
	e.talk.rhythm.hear(since, a.every)
	if e.received.samples < sampledFirst {
		e.received.samples++
		a.every, a.left = 1, 1
		return
	}
	if e.talk.rhythm.alive(e.now) {
		n := a.following(since, sampledTalk, minTalkEvery, maxTalkEvery)
		if n == maxTalkEvery {
			n = a.following(since, sampledBusy, maxTalkEvery, maxBusyEvery)
		}
		a.every = n
	} else {
		a.every = a.following(since, sampledListen, minListenEvery, maxListenEvery)
	}
	a.left = a.every
}

// following returns one in how many arrivals to sample from now on so that it is one in
// the time goal, if they go on to come as they have since the last one.
func (a *ackState) following(since, goal int64, least, most uint16) uint16 {
	n := int64(most)
	if since > 0 {
		n = min(int64(a.every)*goal/max(since, goal/16), n)
	}
	return max(uint16(n), least)
}

// ControlDue reports whether a control packet is wanted, and how long it may
// still wait for a message to take its place: with a wait of 0 call SendControl
// now. Nothing is ever wanted with a Config.AckDelay of zero.
//
// An acknowledgement is owed for every message. While this side sends messages
// in a rhythm that brings the next one within the AckDelay, it waits for that, and
// for an eighth of it at least; else for half the AckDelay, or up to an eighth more
// where the other side's rhythm brings a message by then that is acknowledged at
// once to measure. It does not wait when 16 sequences are to be acknowledged (6
// where some are missing), for a gap that a probe has made, and where it serves to
// measure the round-trip time, which is one message a second or so.
//
// A probe asks the other side for an acknowledgement, when a message has had
// none for longer than usual and none was sent since. None is sent before the
// other side has acknowledged anything.
func (e *Endpoint) ControlDue(now time.Time) (wait time.Duration, ok bool) {
	if a := e.talk; a == nil || !a.owed && !a.sampled && a.late == 0 && e.sent.open == 0 {
		return 0, false
	}
	e.advance(now)
	at, ok := e.ackDue()
	if probe, wanted := e.probeDue(); wanted && (!ok || probe < at) {
		at, ok = probe, true
	}
	return time.Duration(max(0, at-e.now)), ok
}

// ControlPresses reports whether the packets received since the last control packet
// want one whatever the time: it is the part of ControlDue that has to be looked
// at after each packet of a batch, at a fraction of its cost.
func (e *Endpoint) ControlPresses() bool {
	return e.talk != nil && e.talk.pressed && e.presses()
}

func (e *Endpoint) presses() bool {
	a := &e.talk.ackState
	return a.sampled || a.late > 0 || a.owed && (a.urgent || e.ackPresses())
}

// ackDue returns when an acknowledgement has to leave.
func (e *Endpoint) ackDue() (at int64, ok bool) {
	a := &e.talk.ackState
	at, ok = e.newestDue()
	if a.late > 0 {
		if late := a.lateDue(e.now); !ok || late < at {
			at, ok = late, true
		}
	}
	return at, ok
}

// newestDue returns when the newest messages have to be acknowledged.
func (e *Endpoint) newestDue() (at int64, ok bool) {
	a := &e.talk.ackState
	switch {
	case a.sampled:
		return e.now, true
	case !a.owed:
		return 0, false
	case e.ackPresses():
		return e.now, true
	case a.urgent:
		return a.sentAt + gapPause, true
	}
	delay := int64(e.cfg.AckDelay)
	if a.gapAt != never {
		if watch := e.gapWatch(); a.owedAt-a.gapAt <= watch {
			return min(a.sentAt+watch/4, a.owedAt+delay/2), true
		}
	}
	if at, ok := e.talk.rhythm.next(a.owedAt); ok && at <= a.owedAt+delay {
		return max(at, a.owedAt+delay/8), true // a quick exchange would set timers all the time
	}
	latest := a.owedAt + delay/2
	extended := latest + delay/8 // more would have the other side's probes wait
	if soon, late := e.talk.nextSample(); late > latest && soon <= extended {
		return min(late, extended), true
	}
	return latest, true
}

// gapWatch is for how long after a gap acknowledgements leave more often: the
// other side takes a packet for lost when one is acknowledged that it sent a
// round trip later.
func (e *Endpoint) gapWatch() int64 {
	return max(int64(e.cfg.AckDelay)/2, int64(float64(e.stats.RTT)*1.25e6))
}

// ackPresses reports whether what is owed cannot wait for a message of ours, see
// ackFar.
func (e *Endpoint) ackPresses() bool {
	a := &e.talk.ackState
	distance := int16(a.newest - a.last)
	return (distance >= ackDistanceLossy || e.parts.open > 0) && e.ackFar(distance)
}

// ackFar reports whether as many sequences wait for an ack as a header should have
// to tell of. They are counted from the newest that one told of to the newest whole
// message; what is arriving ahead of that counts before the ack field loses some.
func (e *Endpoint) ackFar(distance int16) bool {
	switch {
	case distance >= ackDistance:
		return true
	case e.parts.open > 0 && int16(e.received.seen.Next()-1-e.talk.last) >= ackAhead:
		return true
	case distance < ackDistanceLossy:
		return false
	}
	return e.stats.PacketLoss > lossyPercent || e.missing()
}

// missing reports whether a sequence that a header tells of has not come. Of
// messages that lack fragments those count that others have passed which an ack
// of ours told of: the rest may be on its way.
func (e *Endpoint) missing() bool {
	ack, present := e.received.seen.Acks()
	absent := ^present &^ 1 // the newest may be such a message, too
	if bits.OnesCount32(absent) <= e.parts.open {
		absent >>= ack - e.talk.last
	}
	return absent != 0
}

// lossyPercent is the PacketLoss above which acks leave more often.
const lossyPercent = 2

// SendControl appends the control packet that ControlDue asks for to out, and
// nothing if there is no memory for it.
func (e *Endpoint) SendControl(now time.Time, out *Batch) {
	e.advance(now)
	if e.sent.ring == nil && !e.ensureSent() {
		return
	}
	a := &e.talking().ackState
	at, owed := e.ackDue()
	sampled := a.sampled
	a.sampled = false
	switch {
	case sampled && a.sampledAt == e.now:
		e.sendAcks(a.anchor, true, out)
	case a.late > 0 && a.lateDue(e.now) <= e.now:
		a.late = 0
		e.sendAcks(a.lateTo, false, out)
	case owed && at <= e.now:
		e.sendEmpty(out)
	default:
		e.sendProbe(out)
	}
}

// sendAcks acknowledges s and the 31 before it; prompt says that s arrived just
// now.
func (e *Endpoint) sendAcks(s uint16, prompt bool, out *Batch) {
	h := Header{Sequence: uint16(e.nextID), Ack: s, AckBits: e.received.seen.AcksAt(s)}
	if !prompt {
		h = h.patient()
	}
	e.sendHeader(h, s, nil, out)
}

// AckOwed reports whether something was received that no packet of ours has
// acknowledged, with a Config.AckDelay.
func (e *Endpoint) AckOwed() bool { return e.talk != nil && e.talk.owed }

// patient returns the header of a packet without payload that says nothing of
// when Ack arrived.
func (h Header) patient() Header {
	if h.AckBits&1 != 0 {
		h.Ack++
		h.AckBits <<= 1
	}
	return h
}

// plain undoes patient.
func (h Header) plain() Header {
	if h.AckBits&3 == 2 {
		h.Ack--
		h.AckBits >>= 1
	}
	return h
}

// credible reports whether h acknowledges something that may be true. If its
// ack is one of a packet that was never sent, nothing of it is: the other side
// speaks of an endpoint that had this address before. Before the first ack, it
// is also remembered that packets up to there, which are yet to be sent, are
// what the other side has seen already: it will take them for duplicates, and
// acks of them say nothing. Their bits are taken out of h.
//
// A message tells of the newest packet that the other side has seen. One of
// before that point shows that the header which spoke of it was wrong, or that
// the other side has begun anew. A packet without a message may be for one that
// came late, and filled a gap among those of our predecessor: it is believed for
// that alone, unless nothing else has been heard for a long time.
func (e *Endpoint) credible(h *Header, message bool) bool {
	newest := uint16(e.nextID) - 1
	behind := uint64(newest - h.Ack)
	if behind >= e.nextID || behind >= halfRange {
		if h.heardNothing() {
			return true // not an ack: nothing in the window is like that
		}
		e.rarely().faults.AcksInvalid++
		ahead := uint64(h.Ack - newest)
		if ahead <= halfRange && (e.counters.packetsAcked == 0 || e.ackFloor > e.nextID) {
			e.ackFloor = max(e.ackFloor, e.nextID+ahead)
			e.noteFloor()
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
		e.rarely().faults.AcksInvalid++
		e.noteFloor()
		return false
	case message || e.talk != nil && e.now-e.talk.floorAt > floorSilence:
		e.ackFloor = 0
	default:
		h.AckBits &= 1
	}
	return true
}

// floorSilence is how long packets without a message must have spoken only of
// packets below the floor of acks before it is given up. It is several times as
// long as a peer waits that has nothing to acknowledge.
const floorSilence = int64(30 * time.Second)

// noteFloor notes that the other side spoke of the packet before the floor of
// acks, or of one behind it.
func (e *Endpoint) noteFloor() {
	if e.talk != nil {
		e.talk.floorAt = e.now
	}
}
