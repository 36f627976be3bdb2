package reliable

import (
	"time"

	"volley/internal/seq"
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

// Receive takes a datagram from the other side. It calls the Handler if that
// completes a packet, and the FateHandler for what the packet's header tells.
// The datagram is not kept, and not modified.
func (e *Endpoint) Receive(now time.Time, datagram []byte) Verdict {
	if e.busy {
		return Reentrant
	}
	e.advance(now)
	if len(datagram) > int(e.maxPacket)+datagramSlack {
		e.rarely().faults.PacketsTooLargeToReceive++
		return TooLarge
	}
	if len(datagram) > 0 && datagram[0]&prefixFragment != 0 {
		return e.receiveFragment(datagram)
	}
	e.counters.packetsReceived++
	h, n, reason := parseHeader(datagram)
	if reason != 0 {
		e.rarely().faults.PacketsInvalid++
		return Invalid
	}
	if e.cfg.JumpGuard && (h.Sequence != e.received.seen.Next() || e.received.unmet) && len(datagram)-n <= int(e.maxPacket) {
		if v, believed := e.guard(h.Sequence); !believed && !e.anew(h) {
			e.rarely().faults.PacketsStale++
			return v
		}
	}
	return e.receivePacket(h, datagram[n:], len(datagram), never)
}

// receivePacket takes a whole packet, size bytes with its header. The sequence of
// one that came in fragments was moved on to when the first of them came, at the
// time begun; for others that is never.
func (e *Endpoint) receivePacket(h Header, payload []byte, size int, begun int64) Verdict {
	if len(payload) > int(e.maxPacket) {
		e.rarely().faults.PacketsTooLargeToReceive++
		return TooLarge
	}
	switch status := e.received.seen.Status(h.Sequence); {
	case status == seq.Fresh || e.anew(h):
	case status == seq.Stale:
		e.rarely().faults.PacketsStale++
		return Stale
	default:
		e.rarely().faults.PacketsDuplicate++
		if h.heardNothing() && len(payload) > 0 {
			e.answerBeginner()
		}
		return Duplicate
	}
	e.busy = true
	taken := e.handler.HandleMessage(h.Sequence, payload)
	e.busy = false
	if !taken {
		if e.cfg.AckRefused {
			e.handleAcks(h, len(payload) > 0)
			e.introduce()
		}
		return Refused
	}
	// An empty packet that comes late tells nothing that is worth an answer.
	gap := begun == never && h.Sequence != e.received.seen.Next() && (len(payload) > 0 || e.received.seen.Ahead(h.Sequence))
	e.noteReceived(h.Sequence, size)
	if e.parts.open == 0 && e.partsNext == h.Sequence {
		e.partsNext++
	} else {
		e.forwardReassemblies(h.Sequence)
	}
	e.handleAcks(h, len(payload) > 0)
	if e.cfg.AckDelay > 0 {
		e.noteArrival(h.Sequence, gap, len(payload) > 0, e.now-begun < latePause)
	}
	return Delivered
}

// guard reports whether the packet s may be believed, or else the verdict on
// it. Near the window every packet is. One that is behind it is a late copy,
// whatever else comes, unless the other side has been silent for so long that
// there can be none. So is one that is behind the packet accepted last: if that
// came after a gap of nearly the whole range, and filled a hole of the window,
// the other side is a turn further on than the window. One so far ahead that
// those in between, should they still come, would be taken for duplicates is
// believed if it follows another such one that was parked; where that is very
// far, the windows start again with it.
func (e *Endpoint) guard(s uint16) (Verdict, bool) {
	if e.received.unmet {
		e.begin(s)
	}
	w := &e.received.seen
	ahead := s - w.Next()
	if int(ahead) < min(jumpAhead, w.Track()) || int(w.Next()-1-s) < w.Len() {
		return 0, true
	}
	if behind := ahead >= halfRange || s-e.newsSeq >= halfRange; behind && e.now-e.newsAt < jumpSilence {
		return Stale, false
	}
	if d := s - uint16(e.parked); e.parked < 0 || d < 1 || d > jumpConfirm {
		e.parked = int32(s)
		return Parked, false
	}
	if ahead >= jumpAhead {
		e.jump(s)
	}
	return 0, true
}

// jump makes s the next sequence of the windows of the receiving side.
func (e *Endpoint) jump(s uint16) {
	e.parked = -1
	e.received.seen.Restart(s)
	e.received.turnedNext = s
	e.received.ring.reset(s)
	e.dropReassemblies()
	e.partsNext = s
	if e.cfg.AckDelay > 0 {
		e.talking().tellFrom(s - ackAhead) // so that the peer hears of it at once
	}
}

// introduce makes an ack due if no packet of ours has left yet, although what
// came was refused: a peer that hears nothing has nothing to acknowledge, and a budget
// that trusts those more that do would go on refusing it.
func (e *Endpoint) introduce() {
	if e.cfg.AckDelay == 0 {
		return
	}
	if e.nextID == 0 {
		e.talking().owe(e.received.seen.Next()-1, e.now)
	}
}

// beginnerPause is how long the duplicates of a sender that has acknowledged nothing
// yet, whose address may be forged, have no other answer.
const beginnerPause = int64(100 * time.Millisecond)

// answerBeginner makes an ack due for a duplicate whose sender has heard nothing from
// us. It may have started again, so that the packet is none: then what we have received
// from its predecessor tells its AckGuard so.
func (e *Endpoint) answerBeginner() {
	if e.cfg.AckDelay == 0 {
		return
	}
	if t := e.talking(); e.Acked() || e.now-t.sentAt >= beginnerPause {
		t.owe(e.received.seen.Next()-1, e.now)
		t.urgent, t.pressed = true, true
	}
}
