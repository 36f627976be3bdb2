package reliable

import (
	"time"

	"volley/internal/inner"
)

// An innerEndpoint is an Endpoint with the calls that package volley alone needs.
// Package inner says what they do.
type innerEndpoint Endpoint

func init() {
	inner.Of = func(e any) inner.Endpoint { return (*innerEndpoint)(e.(*Endpoint)) }
	inner.ReassemblyOverhead = maxReassemblyOverhead
}

func (e *innerEndpoint) AckOwed() bool { return e.acks.talk != nil && e.acks.talk.owed }

func (e *innerEndpoint) ControlPresses() bool {
	return e.acks.talk != nil && e.acks.talk.pressed && e.acks.presses((*Endpoint)(e).view())
}

func (e *innerEndpoint) RTTVariation() time.Duration {
	if e.acks.talk == nil {
		return 0
	}
	return time.Duration(e.acks.talk.vary)
}

func (e *innerEndpoint) LossDue(now time.Time) (wait time.Duration, pending bool) {
	at, pending := e.out.lossDue(&e.env)
	if !pending {
		return 0, false
	}
	e.advance(now)
	return time.Duration(max(0, at-e.now)), true
}

func (e *innerEndpoint) ReassemblyDue(now time.Time) (wait time.Duration, pending bool) {
	at, pending := e.parts.due(&e.env)
	if !pending {
		return 0, false
	}
	e.advance(now)
	return time.Duration(max(0, at-e.now)), true
}

func (e *innerEndpoint) ExpireReassemblies(now time.Time) {
	e.advance(now)
	e.parts.expire(&e.env)
}

func (e *innerEndpoint) Updated() time.Duration { return time.Duration(e.meter.updated) }

func (e *innerEndpoint) AckedAt() time.Time { return e.base.Add(time.Duration(e.out.ackedAt)) }

func (e *innerEndpoint) Unacknowledged(sequence uint16) bool { return e.out.unacked(sequence, 1) != 0 }

func (e *innerEndpoint) SentFates(f func(id uint64, fate uint8, rtt time.Duration)) {
	e.out.each(func(id uint64, r *sentRecord) {
		switch {
		case r.mark&markLost != 0:
			f(id, uint8(FateLost), 0)
		case r.mark&markAcked != 0 && r.mark&markEmpty == 0:
			f(id, uint8(FateDelivered), r.rtt())
		}
	})
}

func (e *innerEndpoint) Renew() {
	if e.in.newsAt != never || !e.parts.lacksFirst() {
		e.in.renew(&e.env)
		(*Endpoint)(e).forgetReceived()
		e.parts.restart(&e.env, 0, nil)
	}
}

func (e *innerEndpoint) Move(now time.Time) {
	e.advance(now)
	e.meter.move(uint16(e.out.nextID))
}

func (e *innerEndpoint) Renewals() uint8 { return e.in.renewals }

func (e *innerEndpoint) Doubt(on bool) { e.doubt(on) }

func (e *innerEndpoint) Elapsed() time.Duration { return time.Duration(e.now) }

func (e *innerEndpoint) Start() time.Time { return e.base }

func (e *innerEndpoint) InquiryDue(now time.Time) bool {
	if !e.in.asking || e.cfg.AckDelay == 0 {
		return false
	}
	e.advance(now)
	e.in.asked()
	return e.acks.talk == nil || e.now-e.acks.talk.sentAt >= inquiryPause
}

func (e *innerEndpoint) SendInquiry(now time.Time, out *Batch) {
	e.advance(now)
	if e.out.ensure(&e.env) {
		told := e.acks.open(&e.env, e.in.newest()).last
		(*Endpoint)(e).sendHeader(Header{Sequence: uint16(e.out.nextID), Ack: noneHeard}, told, nil, out)
	}
}
