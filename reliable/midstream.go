package reliable

import "time"

// An endpoint with Config.MidStream is one end of a socket that has no
// connections: each side forgets the other after a silence, at a time of its own,
// and starts anew, mostly at a random sequence. What the other one remembers of it
// is wrong then, and would make its packets stale. There are four cases.
//
//  1. We know nothing of the other side. Its first packet is believed whatever
//     its sequence: our window begins there.
//  2. It has started anew and has heard us since: its packets look old, but tell
//     of a packet of ours of which nothing has told before. A late copy cannot
//     do that, since what it tells has been heard when the packet came first, or
//     with one that was sent after it. Nor can a packet that was overtaken by a
//     message, so that this holds for holes in the window, too.
//  3. It has started anew and says that it has heard nothing. So do late copies
//     of the first packets there were. After a silence longer than datagrams
//     live in the network there are none. Before, it is asked, by a packet that
//     has heard nothing either, and case 2 comes with its next packet. Fragments
//     but for the first say nothing; after such a silence they need not.
//  4. The same with a message whose sequence is far from all of those that have said
//     so before: it is no copy of these, and believed at once.

// noneHeard is the ack of a side that has received nothing.
const noneHeard = 65535

// inquiryPause is how long nothing of ours must have left before a packet that asks does.
const inquiryPause = int64(100 * time.Millisecond)

// guard reports whether to believe the packet s, or the verdict on it. See inbound.guard.
func (e *Endpoint) guard(s uint16) (Verdict, bool) {
	if e.in.begin(s) {
		e.startAt(s)
	}
	v, believed, jumped := e.in.guard(e.now, s)
	if jumped {
		e.acks.spoken = false
		e.out.outdated = outdated{}
		if e.cfg.MidStream {
			e.in.jumped(e.now, s)
		}
		e.startAt(s)
	}
	return v, believed
}

const (
	formerReach  = 8                            // how far from the opening before others of it may be, long after
	openingPause = int64(10 * time.Millisecond) // packets of a burst overtake each other by more, but come in less time
)

// opened looks at a header before the window does, which it begins again if the other side
// has started anew. True: the packet is a copy from the opening before. An endpoint that
// begins at 0 expects others to do so.
func (e *Endpoint) opened(h *Header, message bool) (copied bool) {
	if !e.cfg.MidStream || !e.out.random() || !message || !h.heardNothing() {
		return false
	}
	o, former := &e.in.opening, &e.in.former
	switch {
	case o.none():
	case e.in.silent(e.now):
		if h.Sequence != e.in.seen.Next() { // else it goes on, and has still heard nothing
			e.renewAt(h.Sequence)
		}
	case o.covers(h.Sequence, openingReach, e.in.aheadOfOpening(e.now)):
		o.reachBack(h.Sequence)
	case former.covers(h.Sequence, formerReach, formerReach):
		if former.known() {
			e.in.ask()
			return true
		}
	case e.now-e.in.newsAt >= openingPause:
		e.openAt(h.Sequence)
	}
	return false
}

// openAt begins the window again with a message that has heard nothing, after a short time.
// A little ahead of an opening that still goes on, it may be of the same side behind many losses.
// Then the opening goes on, and knows the copies that the window does not know any more. One of
// few messages was a question, whose side may have gone.
func (e *Endpoint) openAt(s uint16) {
	newsAt, o, former, said := e.in.newsAt, e.in.opening, e.in.former, e.in.said
	if said >= openingFew && e.acks.spokeAck == noneHeard && s-(o.from+o.count) < openingGap {
		o.count = s - o.from + 1
	} else {
		o, former, said = opening{s, 1}, o, 0
		e.in.openNow(e.now)
	}
	e.renewAt(s)
	e.meter.heardFirst(e.out.sent())
	e.in.openAgain(newsAt, s, o, former, said)
}

// startAt has the other parts start where the window does.
func (e *Endpoint) startAt(s uint16) {
	e.parts.restart(&e.env, s, e.parts.begun(s, e.now))
	if e.cfg.AckDelay == 0 {
		return
	}
	told := s - ackAhead // so that the other side hears of it at once
	if e.out.random() && e.in.newsAt == never && e.in.renewals == 0 {
		told = s - 1 // it has just begun, as we have
	}
	e.acks.open(&e.env, e.in.newest()).tellFrom(told)
}

// anew reports whether a packet s, refused or overtaken by a message, shows that the other
// side has started anew; the window then begins with it. The header is nil if only later
// fragments have come, which change nothing before anything was accepted.
func (e *Endpoint) anew(s uint16, h *Header, message bool) bool {
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
	case !e.tellsNews(*h, message):
		return false
	case !silent && (e.out.early(h.plain().Ack) || e.acks.timely(h.plain(), &e.parts)):
		return false
	}
	sure := h == nil || h.heardNothing() || s-e.in.seen.Next() >= halfRange // else it may have skipped ahead
	newsAt := e.in.newsAt
	if e.renewAt(s); !sure {
		e.in.doubtRenewal()
	}
	if h != nil && !h.heardNothing() { // it had heard nothing until shortly before
		e.in.openedBefore(e.now, s)
	}
	if !silent { // there may be copies of what it sent before
		e.in.beginAfter(newsAt, s)
		e.parts.restart(&e.env, s, nil)
	}
	return true
}

// tellsNews reports whether h acknowledges a packet of ours that nothing else has.
func (e *Endpoint) tellsNews(h Header, message bool) bool {
	if e.cfg.AckGuard && e.out.unmoved(h) {
		return false
	}
	if e.cfg.AckGuard && e.out.random() {
		var c claim
		claims := e.out.claims
		if h, c = claims.judge(h.plain(), e.out.first, e.out.nextID, e.source(h, message)); c != credible && c != alone {
			return false
		}
	}
	return e.out.tellsNews(h)
}

// forgetReceived has what depends on the other side's sequences begin as before its first packet.
func (e *Endpoint) forgetReceived() {
	e.acks.forgetReceived()
	e.out.outdated = outdated{}
}

// renewAt begins the window again with the packet s. Those little older may still come.
func (e *Endpoint) renewAt(s uint16) {
	e.in.renew(&e.env)
	e.forgetReceived()
	e.parts.restart(&e.env, 0, e.parts.begun(s, e.now))
	if e.in.begin(s) {
		e.startAt(s)
	}
}
