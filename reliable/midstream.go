package reliable

import (
	"math/bits"
	"time"
)

// An endpoint with Config.MidStream is one end of a socket that has no
// connections: each side forgets the other after a silence, at a time of its own,
// and starts anew at sequence 0. What the other one remembers of it is wrong
// then, and would make its packets stale. There are three cases.
//
//  1. We know nothing of the other side. Its first packet is believed whatever
//     its sequence: our window begins there.
//  2. It has started anew and has heard us since: its packets look old, but tell
//     of a packet of ours of which nothing has told before. A late copy cannot
//     do that, since what it tells has been heard when the packet came first, or
//     with one that was sent after it.
//  3. It has started anew and says that it has heard nothing. So do late copies
//     of the first packets there were. After a silence longer than datagrams
//     live in the network there are none. Before, it is asked, by a packet that
//     has heard nothing either, and case 2 comes with its next packet. Fragments
//     but for the first say nothing; after such a silence they need not.

// noneHeard is the ack of a side that has received nothing.
const noneHeard = 65535

// inquiryPause is how long nothing of ours must have left before a packet that
// asks does.
const inquiryPause = int64(100 * time.Millisecond)

// begin makes s, of the first packet of the other side, the beginning of the
// window. Those little older may still come: they have been overtaken.
func (e *Endpoint) begin(s uint16) {
	e.received.unmet = false
	if s < minReceivedTrack {
		return // the window begins at 0
	}
	e.received.seen.Begin(s)
	e.received.turnedNext = s
	e.received.ring.reset(s)
	e.partsNext = s
	if e.cfg.AckDelay > 0 {
		e.talking().tellFrom(s - ackAhead) // so that the other side hears of it at once
	}
}

// anew reports whether a packet that the window refuses shows that the other
// side has started anew. If so, the window begins again with it.
func (e *Endpoint) anew(h Header) bool {
	switch {
	case !e.cfg.MidStream:
		return false
	case h.heardNothing():
		if e.now-e.newsAt < jumpSilence {
			e.received.asking = true
			return false
		}
	case !e.tellsNews(h):
		return false
	}
	newsAt := e.newsAt
	e.beginAgain(h.Sequence)
	if e.now-newsAt < jumpSilence { // there may be copies of what it sent before
		e.newsAt, e.newsSeq = newsAt, h.Sequence
		e.received.seen.Restart(h.Sequence)
		e.received.turnedNext, e.partsNext = h.Sequence, h.Sequence
		e.received.ring.reset(h.Sequence)
	}
	return true
}

// anewBy is anew for a packet of which a fragment has come. Where nothing has been
// accepted yet, one that says nothing changes nothing.
func (e *Endpoint) anewBy(f *Fragment) bool {
	switch {
	case f.ID == 0:
		return e.anew(f.Header)
	case !e.cfg.MidStream || e.newsAt == never || e.now-e.newsAt < jumpSilence:
		return false
	}
	e.beginAgain(f.Sequence)
	return true
}

// beginAgain makes s the beginning of the window, as if it were of the first packet
// of the other side.
func (e *Endpoint) beginAgain(s uint16) {
	e.forgetReceived()
	e.begin(s)
}

// Renew makes the window begin again with the next packet. It is for those who
// know by other means than the packets' headers that the other side has started
// anew. It does nothing where the window has begun again already, with other
// fragments of that packet than the first, and nothing has been accepted since.
func (e *Endpoint) Renew() {
	if e.newsAt == never && e.lacksFirst() {
		return
	}
	e.forgetReceived()
	e.received.unmet = true
}

// lacksFirst reports whether there are fragments of packets, of none of which the
// first has come.
func (e *Endpoint) lacksFirst() bool {
	for _, r := range e.parts.table {
		if r != nil && r.headerSize > 0 {
			return false
		}
	}
	return e.parts.open > 0
}

// tellsNews reports whether h acknowledges a packet that has no acknowledgement,
// and was sent no earlier than all that have one.
func (e *Endpoint) tellsNews(h Header) bool {
	if h.AckBits == 0 {
		return false
	}
	s := h.Ack - uint16(bits.TrailingZeros32(h.AckBits))
	if d := int(uint16(e.nextID) - 1 - s); d >= e.sent.count {
		return false
	}
	r := e.sent.record(s)
	return r.mark&markAcked == 0 && r.at >= e.sent.ackedAt
}

// forgetReceived makes the receiving side as it is before the first packet.
func (e *Endpoint) forgetReceived() {
	e.resetReceived()
	e.dropReassemblies()
	e.partsNext, e.parked, e.newsAt = 0, -1, never
	if e.talk != nil {
		a := &e.talk.ackState
		*a = ackState{every: 1, left: 1, gapAt: never, sentAt: a.sentAt, sampledAt: a.sampledAt}
		a.tellFrom(noneHeard - ackAhead)
		e.talk.pace = 0
	}
}

// InquiryDue reports whether SendInquiry is to be called: the other side may have
// started anew, and has heard nothing of us for a while.
func (e *Endpoint) InquiryDue(now time.Time) bool {
	if !e.received.asking || e.cfg.AckDelay == 0 {
		return false
	}
	e.advance(now)
	e.received.asking = false
	return e.talk == nil || e.now-e.talk.sentAt >= inquiryPause
}

// SendInquiry appends a packet that acknowledges nothing to out. An other side
// that has started anew acknowledges it, with its next packet; one that has not
// takes it as any other.
func (e *Endpoint) SendInquiry(now time.Time, out *Batch) {
	e.advance(now)
	if e.sent.ring == nil && !e.ensureSent() {
		return
	}
	e.sendHeader(Header{Sequence: uint16(e.nextID), Ack: noneHeard}, e.talking().last, nil, out)
}
