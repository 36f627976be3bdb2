package core

import (
	"math"
	"time"
)

// Redundancy (R9): frames with room repeat small messages that were sent a moment ago and
// are not acknowledged yet. Then a lost frame costs the time until the next one, and not a
// round trip. If there is no next frame soon, one is sent for that alone. How often a
// message is repeated follows from the measured loss.
//
// If the frame of a copy is lost, the copy is not sent again. If it arrives, the message
// itself need not be sent again.

const (
	copyWindow   = 8      // newest messages that may be repeated
	copySize     = 400    // bytes of the largest such message, which is one fragment
	copyResidual = 0.0013 // share of messages all of whose transmissions may be lost
	maxCopies    = 5
	leastLoss    = 0.003 // below that, nothing is repeated
	firstLoss    = 0.2   // assumed before anything is known
	extraCopies  = 2     // with so many copies at most, frames are sent for them alone
	mostWait     = 10 * time.Millisecond
)

// A redundancy is what a Peer repeats.
type redundancy struct {
	recent   [copyWindow]copyOf // a ring
	next     int
	lastAt   Clock         // when the last frame with new messages left
	interval time.Duration // between those, averaged
	extraAt  Clock         // when a frame with copies alone is to leave; 0: there is none
}

// A copyOf is a message that may be repeated.
type copyOf struct {
	packet *outgoing
	number uint64 // of the packet, whose memory may be in use for another one by now
	left   int    // times to go
}

// alive reports whether the message is still without an acknowledgement.
func (c *copyOf) alive() bool {
	return c.left > 0 && c.packet.number == c.number && c.packet.ch != nil && !c.packet.seen && c.packet.settled == 0
}

// repeats returns how often messages are repeated at present.
func (d *lossDetector) repeats() int {
	if n := copies(d.share); n > 0 || d.recent == 0 {
		return n
	}
	return 1
}

// copies returns how often to repeat at a measured loss, with its error added.
func copies(loss float64) int {
	if loss < leastLoss {
		return 0
	}
	loss += math.Sqrt(loss * (1 - loss) * lossGain / 2)
	n := int(math.Ceil(math.Log(copyResidual)/math.Log(min(loss, 0.5)))) - 1
	return min(n, maxCopies)
}

// repeat adds copies to a frame with so much room, and notes its own messages.
func (s *sending) repeat(now Clock, f *frame, room int) {
	r := s.spare
	if r == nil || !s.thin() {
		return
	}
	own := len(f.parts)
	r.addCopies(f, room)
	n := s.loss.repeats()
	for i := range own {
		p := &f.parts[i]
		if n == 0 || p.kind != MessageFragment || p.packet.mode != Reliable || len(p.packet.data) > copySize {
			continue
		}
		r.recent[r.next] = copyOf{p.packet, p.packet.number, n}
		r.next = (r.next + 1) % copyWindow
	}
	if own > 0 {
		r.interval += (min(now-r.lastAt, 8*mostWait) - r.interval) / 8
		r.lastAt = now
		r.extraAt = 0
		if wait := min(r.interval/2, mostWait); n > 0 && n <= extraCopies && wait > time.Millisecond {
			r.extraAt = now + wait
		}
	}
}

// addCopies adds those copies that fit, of the newest messages first.
func (r *redundancy) addCopies(f *frame, room int) {
	for i := range copyWindow {
		c := &r.recent[(r.next+2*copyWindow-1-i)%copyWindow]
		if c.packet == nil || !c.alive() || c.packet.ch.trust.level != trusted {
			continue
		}
		p := part{kind: MessageFragment, copy: true, id: uint32(c.number), ch: c.packet.ch, packet: c.packet}
		if n := p.size(); n <= room {
			room -= n
			c.left--
			f.parts = append(f.parts, p)
		}
	}
}

// extra sends a frame of copies if it is time.
func (s *sending) extra(now Clock, room int) (id uint32, f *frame) {
	r := s.spare
	if r == nil || r.extraAt == 0 || now < r.extraAt {
		return 0, nil
	}
	r.extraAt = 0
	if !s.thin() || !s.queue.open() {
		return 0, nil
	}
	id, f = s.queue.add()
	r.addCopies(f, room-DataHeaderSize)
	if len(f.parts) == 0 {
		s.queue.cancel(f)
		return 0, nil
	}
	s.queue.seal(id, f)
	return id, f
}

// seen notes that a copy has arrived.
func (p *part) seen() {
	if o := p.packet; uint32(o.number) == p.id && o.ch != nil && o.hasID {
		o.seen = true
	}
}
