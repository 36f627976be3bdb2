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
//     with one that was sent after it.
//  3. It has started anew and says that it has heard nothing. So do late copies
//     of the first packets there were. After a silence longer than datagrams
//     live in the network there are none. Before, it is asked, by a packet that
//     has heard nothing either, and case 2 comes with its next packet. Fragments
//     but for the first say nothing; after such a silence they need not.
//  4. The same with a message whose sequence is far from all of those that have said
//     so before: it is no copy of these, and believed at once.

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

const (
	openingReach = 64                           // how far from the packets of an opening others of it may be
	formerReach  = 8                            // the same for the opening before, long after
	openingPause = int64(10 * time.Millisecond) // packets of a burst overtake each other by more, but come in less time
)

// An opening is the packets with which the other side began: those that say that it
// has heard nothing.
type opening struct {
	from, to uint16
	kind     openingKind
}

type openingKind uint8

const (
	openingNone   openingKind = iota // no packet was accepted yet
	openingKnown                     // from and to are the first and the last one
	openingHidden                    // it was over when the first packet was accepted, or is endless
)

// note takes the header of an accepted packet, with a message or without.
func (o *opening) note(h Header, message bool) {
	switch {
	case o.kind == openingHidden:
	case o.kind == openingNone:
		if *o = (opening{h.Sequence, h.Sequence, openingKnown}); !h.heardNothing() {
			o.kind = openingHidden
		}
	case !message || !h.heardNothing() || int16(h.Sequence-o.to) <= 0:
	case h.Sequence-o.from >= halfRange:
		o.kind = openingHidden
	default:
		o.to = h.Sequence
	}
}

// covers reports whether a packet that has heard nothing may be of the opening.
func (o *opening) covers(s uint16, reach uint16) bool {
	switch o.kind {
	case openingNone:
		return false
	case openingHidden:
		return true
	}
	return int(s-(o.from-reach)) <= int(o.to-o.from)+2*int(reach)
}

// opened looks at the header of a packet, with a message or without, before the
// window does. It begins the window again if the other side shows that it has
// started anew, and cannot be a copy. It reports whether the packet is a copy from the
// opening before. An endpoint that begins at 0 does not expect others to begin elsewhere.
func (e *Endpoint) opened(h *Header, message bool) (copied bool) {
	if !e.cfg.MidStream || !e.out.random() || !message || !h.heardNothing() {
		return false
	}
	o, former := &e.in.opening, &e.in.former
	switch {
	case o.kind == openingNone:
	case e.in.silent(e.now):
		if h.Sequence != e.in.seen.Next() { // else it goes on, and has still heard nothing
			e.renewAt(h.Sequence)
		}
	case o.covers(h.Sequence, openingReach):
	case former.covers(h.Sequence, formerReach):
		if former.kind == openingKnown {
			e.in.ask()
			return true
		}
	case e.now-e.in.newsAt >= openingPause:
		e.renewAt(h.Sequence)
	}
	return false
}

// startAt has the other parts start where the window does.
func (e *Endpoint) startAt(s uint16) {
	e.parts.restart(&e.ground, s, e.parts.begun(s, e.now))
	if e.cfg.AckDelay == 0 {
		return
	}
	told := s - ackAhead // so that the other side hears of it at once
	if e.out.random() && e.in.newsAt == never && e.in.renewals == 0 {
		told = s - 1 // it has just begun, as we have
	}
	e.acks.open(&e.ground, e.in.newest()).tellFrom(told)
}

// anew reports whether the packet s, which the window refuses, shows that the other
// side has started anew. If so, the window begins again with it. The header is nil if
// only other fragments than the first have come; where nothing has been accepted yet,
// they change nothing.
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
	}
	sure := h == nil || h.heardNothing() || s-e.in.seen.Next() >= halfRange // else it may have skipped ahead
	newsAt := e.in.newsAt
	if e.renewAt(s); !sure {
		e.in.renewals--
	}
	if !silent { // there may be copies of what it sent before
		e.in.beginAfter(newsAt, s)
		e.parts.restart(&e.ground, s, nil)
	}
	return true
}

// tellsNews reports whether h acknowledges a packet of ours that nothing has acknowledged.
// An ack that was not believed is still no news when a copy brings it.
func (e *Endpoint) tellsNews(h Header, message bool) bool {
	if e.cfg.AckGuard && e.out.random() {
		var c claim
		claims := e.out.claims
		if h, c = claims.judge(h.plain(), e.out.first, e.out.nextID, message, e.Acked(), e.acks.floorDoubtful(e.now)); c != credible && c != alone {
			return false
		}
	}
	return e.out.tellsNews(h)
}

// renewAt begins the window again with the packet s. Those little older may still come.
func (e *Endpoint) renewAt(s uint16) {
	e.in.renew(&e.ground)
	e.acks.forgetReceived()
	e.parts.restart(&e.ground, 0, e.parts.begun(s, e.now))
	if e.in.begin(s) {
		e.startAt(s)
	}
}
