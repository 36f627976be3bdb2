package reliable

import (
	"math/bits"
	"time"

	"volley/internal/seq"
)

// Receive takes a datagram from the other side. It calls the Handler if that
// completes a packet, and the FateHandler for what the packet's header tells.
// The datagram is not kept, and not modified.
func (e *Endpoint) Receive(now time.Time, datagram []byte) Verdict {
	if e.busy {
		return reentrant
	}
	e.advance(now)
	if len(datagram) > int(e.maxPacket)+datagramSlack {
		e.extras.count(&e.env, packetTooLargeToReceive)
		return TooLarge
	}
	if len(datagram) > 0 && datagram[0]&prefixFragment != 0 {
		return e.receiveFragment(datagram)
	}
	e.counters.received()
	h, n, reason := parseHeader(datagram)
	if reason != "" {
		e.extras.count(&e.env, packetInvalid)
		return Invalid
	}
	if e.opened(&h, n < len(datagram) && len(datagram)-n <= int(e.maxPacket)) {
		e.extras.count(&e.env, packetStale)
		return stale
	}
	if e.cfg.JumpGuard && (h.Sequence != e.in.seen.Next() || e.in.unmet) && len(datagram)-n <= int(e.maxPacket) {
		if v, believed := e.guard(h.Sequence); !believed && !e.anew(h.Sequence, &h, n < len(datagram)) {
			e.extras.count(&e.env, packetStale)
			return v
		}
	}
	return e.receivePacket(h, datagram[n:], len(datagram), never)
}

// receivePacket takes a packet of size bytes. begun is when its first fragment moved the window.
func (e *Endpoint) receivePacket(h Header, payload []byte, size int, begun int64) Verdict {
	if len(payload) > int(e.maxPacket) {
		e.extras.count(&e.env, packetTooLargeToReceive)
		return TooLarge
	}
	switch status := e.in.seen.Status(h.Sequence); {
	case status == seq.Fresh:
		if e.acks.late(h.Sequence) && !h.heardNothing() {
			e.anew(h.Sequence, &h, len(payload) > 0)
		}
	case e.anew(h.Sequence, &h, len(payload) > 0):
	case status == seq.Stale:
		e.extras.count(&e.env, packetStale)
		return stale
	default:
		e.extras.count(&e.env, packetDuplicate)
		if h.heardNothing() && len(payload) > 0 {
			e.acks.answerBeginner(&e.env, e.in.newest())
		}
		return Duplicate
	}
	was := e.enter()
	taken := e.handler.HandleMessage(h.Sequence, payload)
	e.leave(was)
	if taken || h.heardNothing() {
		e.came(h, len(payload) > 0)
	}
	if !taken {
		e.acks.refused(&e.env, h.Sequence)
		if e.cfg.AckRefused {
			e.handleAcks(h, len(payload) > 0)
			if e.out.sent() == 0 {
				e.acks.introduce(&e.env, e.in.newest())
			}
		}
		return Refused
	}
	// An empty packet that comes late tells nothing that is worth an answer.
	gap := begun == never && h.Sequence != e.in.seen.Next() && (len(payload) > 0 || e.in.seen.Ahead(h.Sequence))
	e.in.accept(&e.env, h.Sequence, e.headered(size))
	e.acks.reach(h.Sequence)
	e.out.outdated.accepted(h.Sequence)
	if e.grows() {
		e.meter.flowing(&e.env).received.add(e.headered(size), e.now)
	}
	e.parts.received(&e.env, h.Sequence)
	e.handleAcks(h, len(payload) > 0)
	if e.cfg.AckDelay > 0 {
		e.acks.arrived(&e.env, e.view(), h.Sequence, gap, len(payload) > 0, e.now-begun < latePause)
	}
	return Delivered
}

// came notes a packet that looks like no copy. See inbound.came.
func (e *Endpoint) came(h Header, message bool) {
	if e.in.newsAt == never {
		e.meter.heardFirst(e.out.sent())
	}
	e.in.came(e.now, h, message)
}

// handleAcks learns from the header of an accepted packet, one with a message or without.
func (e *Endpoint) handleAcks(told Header, message bool) {
	h, prompt := told, false
	if e.cfg.AckDelay > 0 || e.cfg.AckGuard {
		var ok bool
		if h, prompt, ok = e.heed(told, message); !ok {
			return
		}
	}
	if message {
		e.acks.speaks(told.Sequence, told.Ack)
	}
	e.answered = e.answered || e.out.names(h)
	mask, next := e.out.unacked(h.Ack, h.AckBits), e.out.nextID
	if t := e.acks.talk; t != nil && message && e.cfg.AckBuffer < 0 {
		t.handled(told)
	}
	if prompt && !e.meter.blindTo(e.out.idOf(h.Ack), e.out.first, true) {
		if rtt, ok := e.out.prompt(&e.env, h.Ack, e.meter.roundTrip()); ok {
			e.meter.samplePrompt(&e.env, h.Ack, rtt)
			e.acks.open(&e.env, e.in.newest()).measured(rtt, e.meter.roundTrip())
		}
	}
	news := mask != 0
	for ; mask != 0; mask &= mask - 1 {
		s := h.Ack - uint16(bits.TrailingZeros32(mask))
		if !e.extras.list(&e.env, s) {
			continue
		}
		e.acked(s)
		if e.out.nextID != next { // the FateHandler has sent something, which may have taken a record of the others
			next = e.out.nextID
			mask &= e.out.unacked(h.Ack, h.AckBits) | mask&-mask // the bit of s, which the loop takes out, stays
		}
	}
	switch {
	case e.cfg.AckDelay > 0:
		if news && e.out.passBy(h, e.lost) {
			rtt, vary := e.acks.variation(e.meter.roundTrip())
			e.out.losePassedBy(h, rtt, vary, e.lost)
		}
	case e.fated || e.grows():
		e.out.loseFarBehind(h.Ack, e.lost)
	}
}

// heed returns the credible acks of a header, and whether it left as Ack arrived.
func (e *Endpoint) heed(h Header, message bool) (_ Header, prompt, ok bool) {
	if t := e.acks.talk; t != nil {
		if message && t.repeats(h) {
			e.acks.speaks(h.Sequence, h.Ack)
			return h, false, false // as in a flood
		}
		t.renewed()
	}
	came := h
	if !message && (e.cfg.AckDelay > 0 || e.cfg.AckGuard) {
		prompt = e.cfg.AckDelay > 0 && h.AckBits&1 != 0
		h = h.plain() // as written, its ack may be of a packet that is yet to be sent
	}
	if !e.cfg.AckGuard {
		return h, prompt, true
	}
	if e.out.move(h) {
		e.extras.count(&e.env, ackInvalid)
		return h, false, false
	}
	floor := e.out.claims.floor
	h, claim := e.out.claims.judge(h, e.out.first, e.out.nextID, e.source(came, message))
	e.acks.judged(claim, e.now)
	if (claim == credible || claim == alone) && !(e.out.early(h.Ack) && e.out.outdated.covers(h.Sequence, e.now)) {
		if floor != 0 && e.out.claims.floor == 0 { // the window has begun anew: what was sent before h may speak of the old one
			e.out.outdated.reach(h.Sequence, e.now)
		}
		return h, prompt, true
	}
	e.out.disbelieved(h.Ack)
	e.extras.count(&e.env, ackInvalid)
	return h, false, false
}

// acked notes that s was acknowledged. Packets without acks are no samples, see acks.arrived.
func (e *Endpoint) acked(s uint16) {
	e.counters.acked()
	a := e.out.acknowledge(&e.env, s)
	e.out.overdue.passed(a.id + 1)
	if e.grows() {
		e.meter.flowing(&e.env).acked.add(a.bytes, e.now)
	}
	if e.cfg.AckDelay == 0 || !e.meter.prompts && a.was&markEmpty == 0 && !e.meter.blindTo(a.id, e.out.first, false) {
		e.meter.sample(&e.env, s, a.rtt)
	}
	if t := e.acks.talk; t != nil {
		t.confirmed(a.id)
	}
	if a.was&markEmpty != 0 {
		return
	}
	if e.cfg.AckDelay > 0 {
		e.acks.open(&e.env, e.in.newest()).heard(a.rtt)
	}
	if a.was&markLost == 0 {
		e.out.settle(a)
		e.tell(a.id, FateDelivered, time.Duration(a.rtt))
	}
}
