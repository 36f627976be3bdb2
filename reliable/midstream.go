package reliable

import "time"

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

// guard reports whether the packet s may be believed, or else the verdict on it, see
// inbound.guard.
func (e *Endpoint) guard(s uint16) (Verdict, bool) {
	if e.in.begin(s) {
		e.startAt(s)
	}
	v, believed, jumped := e.in.guard(e.now, s)
	if jumped {
		e.startAt(s)
	}
	return v, believed
}

// startAt has the other parts start where the window does.
func (e *Endpoint) startAt(s uint16) {
	e.parts.restart(&e.ground, s)
	if e.cfg.AckDelay > 0 {
		e.acks.open(&e.ground, e.in.newest()).tellFrom(s - ackAhead) // so that the other side hears of it at once
	}
}

// anew reports whether the packet s, which the window refuses, shows that the other
// side has started anew. If so, the window begins again with it. The header is nil if
// only other fragments than the first have come; where nothing has been accepted yet,
// they change nothing.
func (e *Endpoint) anew(s uint16, h *Header) bool {
	silent := e.in.silent(e.now)
	switch {
	case !e.cfg.MidStream:
		return false
	case h == nil:
		if !silent || e.in.newsAt == never {
			return false
		}
	case h.heardNothing():
		if !silent {
			e.in.ask()
			return false
		}
	case !e.out.tellsNews(*h):
		return false
	}
	newsAt := e.in.newsAt
	e.in.renew(&e.ground)
	e.acks.forgetReceived()
	e.parts.restart(&e.ground, 0)
	if e.in.begin(s) {
		e.startAt(s)
	}
	if !silent { // there may be copies of what it sent before
		e.in.beginAfter(newsAt, s)
		e.parts.restart(&e.ground, s)
	}
	return true
}

// Renew makes the window begin again with the next packet. It is for those who
// know by other means than the packets' headers that the other side has started
// anew. It does nothing where the window has begun again already, with other
// fragments of that packet than the first, and nothing has been accepted since.
func (e *Endpoint) Renew() {
	if e.in.newsAt != never || !e.parts.lacksFirst() {
		e.in.renew(&e.ground)
		e.acks.forgetReceived()
		e.parts.restart(&e.ground, 0)
	}
}

// InquiryDue reports whether SendInquiry is to be called: the other side may have
// started anew, and has heard nothing of us for a while.
func (e *Endpoint) InquiryDue(now time.Time) bool {
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
func (e *Endpoint) SendInquiry(now time.Time, out *Batch) {
	e.advance(now)
	if e.out.ensure(&e.ground) {
		told := e.acks.open(&e.ground, e.in.newest()).last
		e.sendHeader(Header{Sequence: e.NextSequence(), Ack: noneHeard}, told, nil, out)
	}
}
