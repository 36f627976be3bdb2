package core

import "time"

// Whole frames are refused by a receiver that has no room for one of their
// channels (R11). To us that looks like loss, again and again, of all that has
// to do with that channel while the rest arrives. Such a channel first travels
// in frames of its own, and then in single frames at long intervals, so that
// the others neither wait for it nor slow down; what its frames carried is
// taken out of them, and their ids are sent empty.

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

// A trust is what we think of a channel's way to the peer's memory.
type trust struct {
	level   trustLevel
	losses  int   // frames lost since one was acknowledged
	since   Clock // when the first of them was met
	wait    time.Duration
	probeAt Clock // when a choked channel may try again
}

// lost notes that n frames were lost though the peer was heard. Many at once are
// of a queue that has overflowed: only those that were sent again and are lost
// again say more.
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

// restore puts a part back that is to be sent in another frame, in the order
// of packets.
func (s *sender) restore(p part) {
	if s.backAt > 0 && len(s.back) == cap(s.back) {
		// A choked channel takes some and gets them back again and again.
		n := copy(s.back, s.back[s.backAt:])
		clear(s.back[n:])
		s.back, s.backAt = s.back[:n], 0
	}
	s.back = append(s.back, p)
	for i := len(s.back) - 1; i > s.backAt && p.before(&s.back[i-1]); i-- {
		s.back[i-1], s.back[i] = s.back[i], s.back[i-1]
	}
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
