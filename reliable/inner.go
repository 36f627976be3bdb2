package reliable

import "time"

// An inner is an Endpoint with what package volley alone needs.
type inner Endpoint

// Inner returns more methods of e, for package volley. They may change.
func (e *Endpoint) Inner() *inner { return (*inner)(e) }

// AckOwed reports whether something was received that no packet of ours has
// acknowledged, with a Config.AckDelay.
func (e *inner) AckOwed() bool { return e.acks.talk != nil && e.acks.talk.owed }

// ControlPresses reports whether the packets received since the last control packet
// want one whatever the time: it is the part of ControlDue that has to be looked
// at after each packet of a batch, at a fraction of its cost.
func (e *inner) ControlPresses() bool {
	return e.acks.talk != nil && e.acks.talk.pressed && e.acks.presses((*Endpoint)(e).view())
}

// RTTVariation returns the mean distance of the latest round-trip times from the
// smoothed one, of the last four or so; zero before there are some, and with a
// zero Config.AckDelay.
func (e *inner) RTTVariation() time.Duration {
	if e.acks.talk == nil {
		return 0
	}
	return time.Duration(e.acks.talk.vary)
}

// LossDue returns how long it is until Update may presume a packet lost by its
// age alone, and whether there is such a packet, see Config.LostAfter.
func (e *inner) LossDue(now time.Time) (wait time.Duration, pending bool) {
	at, pending := e.out.lossDue(&e.ground)
	if !pending {
		return 0, false
	}
	e.advance(now)
	return time.Duration(max(0, at-e.now)), true
}

// ReassemblyDue returns how long it is until ExpireReassemblies may have
// something to do, and whether it will: with Config.ReassemblyTimeout, after
// memory has been taken for a packet that lacks fragments. A wait of 0 is now.
func (e *inner) ReassemblyDue(now time.Time) (wait time.Duration, pending bool) {
	at, pending := e.parts.due(&e.ground)
	if !pending {
		return 0, false
	}
	e.advance(now)
	return time.Duration(max(0, at-e.now)), true
}

// ExpireReassemblies gives up the packets that have lacked fragments for longer
// than Config.ReassemblyTimeout, as Update does too.
func (e *inner) ExpireReassemblies(now time.Time) {
	e.advance(now)
	e.parts.expire(&e.ground)
}

// Updated returns when Update was called last, since Start; zero before.
func (e *inner) Updated() time.Duration { return time.Duration(e.meter.updated) }

// AckedAt returns when the newest packet was sent that the other side has
// acknowledged; before that, any time.
func (e *inner) AckedAt() time.Time { return e.base.Add(time.Duration(e.out.ackedAt)) }

// Unacknowledged reports whether the packet with this sequence number is in the
// window of sent packets, and was not acknowledged.
func (e *inner) Unacknowledged(sequence uint16) bool { return e.out.unacked(sequence, 1) != 0 }

// SentFates calls f for each packet that is still in the window of sent
// packets and whose fate is decided, oldest first. The round-trip times are
// rounded to microseconds. It serves one who begins to care late: what it does
// not report is either older or yet to be told to the FateHandler.
func (e *inner) SentFates(f func(id uint64, fate Fate, rtt time.Duration)) {
	e.out.each(func(id uint64, r *sentRecord) {
		switch {
		case r.mark&markLost != 0:
			f(id, FateLost, 0)
		case r.mark&markAcked != 0 && r.mark&markEmpty == 0:
			f(id, FateDelivered, r.rtt())
		}
	})
}

// Renew makes the window begin again with the next packet. It is for those who
// know by other means than the packets' headers that the other side has started
// anew. It does nothing where the window has begun again already, with other
// fragments of that packet than the first, and nothing has been accepted since.
func (e *inner) Renew() {
	if e.in.newsAt != never || !e.parts.lacksFirst() {
		e.in.renew(&e.ground)
		e.acks.forgetReceived()
		e.parts.restart(&e.ground, 0, nil)
	}
}

// Renewals returns how often the other side has started anew, modulo 256. One that
// may as well have skipped ahead does not count.
func (e *inner) Renewals() uint8 { return e.in.renewals }

// Doubt has Confie.Reserve told that nothing was acknowledged, as long as it is on:
// the other side's acknowledgements may be guesses of somebody who forges its address.
func (e *inner) Doubt(on bool) { e.doubted = on }

// Elapsed returns the newest time that the Endpoint was told, since Start.
func (e *inner) Elapsed() time.Duration { return time.Duration(e.now) }

// Start returns the time that New, or Init, was given.
func (e *inner) Start() time.Time { return e.base }

// InquiryDue reports whether SendInquiry is to be called: the other side may have
// started anew, and has heard nothing of us for a while.
func (e *inner) InquiryDue(now time.Time) bool {
	if !e.in.asking || e.cfg.AckDelay == 0 {
		return false
	}
	e.advance(now)
	e.in.asked()
	return e.acks.talk == nil || e.now-e.acks.talk.sentAt >= inquiryPause
}

// SendInquiry appends a packet that acknowledges nothing to out. An other side
// that has started anew acknowledges it, with its next packet; one that has not
// takes it as any other.
func (e *inner) SendInquiry(now time.Time, out *Batch) {
	e.advance(now)
	if e.out.ensure(&e.ground) {
		told := e.acks.open(&e.ground, e.in.newest()).last
		(*Endpoint)(e).sendHeader(Header{Sequence: uint16(e.out.nextID), Ack: noneHeard}, told, nil, out)
	}
}
