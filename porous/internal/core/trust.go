package core

import (
	"slices"
	"sort"
	"time"
)

// A receiver without room for a channel refuses whole frames (R11). To the sender that
// looks like repeated loss of everything on that channel. Such a channel first travels
// in frames of its own, and then in single frames at long intervals, so that the others
// neither wait nor slow down. Its refused frames are emptied, and sent empty. A single frame
// has a fragment of one packet, or whole packets that follow each other: the receiver may
// have room for what all others wait for, and for nothing else that would share its frame.

type trustLevel uint8

const (
	trusted trustLevel = iota
	alone              // its messages share no frame with others
	choked             // and one frame at a time is tried
)

const (
	aloneAfter  = 8  // losses in a row
	chokedAfter = 24 // losses in a row
	perTimeout  = 4  // losses that a timeout counts for, if the peer was heard
	maxProbe    = time.Second
)

// A trust says whether the peer seems to take a channel's messages.
type trust struct {
	level   trustLevel
	losses  int   // frames lost since one was acknowledged
	since   Clock // when the first of them was met
	wait    time.Duration
	probeAt Clock // when a choked channel may try again
}

// lost notes n losses though the peer was heard. A queue may overflow, so they must repeat.
func (t *trust) lost(now Clock, rto time.Duration, n int) {
	if t.losses == 0 {
		t.since = now
	}
	t.losses += n
	switch {
	case t.level == trusted && t.losses >= aloneAfter && now-t.since >= rto:
		t.level = alone
	case t.level == alone && t.losses >= chokedAfter && now-t.since >= 2*rto:
		t.level, t.wait = choked, min(rto, maxProbe)
		t.probeAt = now + t.wait
	}
}

// sent notes that a frame of the channel has left.
func (t *trust) sent(now Clock) {
	if t.level == choked {
		t.probeAt = now + t.wait
		t.wait = min(2*t.wait, maxProbe)
	}
}

// follows reports whether the message that comes next is the whole packet after that of a
// part, which is whole, too.
func (s *sender) follows(p *part) bool {
	if p.kind != MessageFragment || p.packet.last > 0 || s.markDue {
		return false
	}
	o, next := s.head, s.next
	switch {
	case s.backAt < len(s.back):
		o = s.back[s.backAt].packet
	case s.hasMark:
		return false
	}
	if o == nil || o.last > 0 {
		return false
	}
	if o.hasID {
		next = o.id
	}
	return next == nextPacket(p.packet.id)
}

// restore puts a part back that is to be sent in another frame, in the order of packets.
func (s *sender) restore(p part) {
	if s.backAt > 0 && len(s.back) == cap(s.back) {
		// A choked channel takes some and gets them back again and again.
		n := copy(s.back, s.back[s.backAt:])
		clear(s.back[n:])
		s.back, s.backAt = s.back[:n], 0
	}
	behind := sort.Search(len(s.back)-s.backAt, func(i int) bool { return p.before(&s.back[s.backAt+i]) })
	s.back = slices.Insert(s.back, s.backAt+behind, p)
}

func (p *part) before(q *part) bool {
	if p.packet == nil || q.packet == nil {
		return p.packet == nil && q.packet != nil
	}
	if p.packet.number != q.packet.number {
		return p.packet.number < q.packet.number
	}
	return p.fragment < q.fragment
}
