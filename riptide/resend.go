package riptide

import (
	"time"

	"volley/internal/wire"
)

const (
	// leastQuick is the least time after which a message is sent again of which
	// nothing is known, as in the released library.
	leastQuick = 10 * time.Millisecond
	// maxHastened is how often a message is sent again before the interval is
	// over. These sends do not count for the limit of sends, so whether a
	// connection ends depends on time, not on how many acknowledgements of other
	// messages come.
	maxHastened = 6
	// eagerSends is how many of those do not wait for longer each time.
	eagerSends = 3
)

// patience returns how long an acknowledgement of what is sent now is waited for.
func (s *sender) patience(m *outgoing, p pace) time.Duration {
	if m.hastened < maxHastened {
		return min(p.quick<<s.backoff, p.full)
	}
	return p.full
}

// resend sends again what is due. It returns false if a message has been sent
// as often as allowed; maxSends of zero allows any number. Unread says that
// datagrams have arrived that may hold the acknowledgements.
func (s *sender) resend(now time.Time, p pace, maxSends int, unread bool, out *wire.Batch) (resends int, ok bool) {
	if !s.isDue(now) {
		return 0, true
	}
	s.due = time.Time{}
	quick := false
	older := 0 // messages without an acknowledgement
	for id := s.oldest; id != s.next; id++ {
		m := s.inFlight(id)
		if m == nil {
			continue
		}
		older++
		switch {
		case now.Before(m.due):
			s.setDue(m, m.due)
		case m.lost:
			m.hastened++
			resends++
			s.transmit(now, m, p, out)
		case s.postpone(now, m, p, unread):
		case maxSends > 0 && m.sends-int(m.hastened) >= maxSends:
			s.setDue(m, now.Add(p.full))
			return resends, false
		case older > maxProbes && s.proven.Before(m.lastSent):
			s.setDue(m, now.Add(p.full/2))
		default:
			if s.patience(m, p) < p.full {
				m.hastened++
				quick = true
			}
			resends++
			s.transmit(now, m, p, out)
		}
	}
	if quick {
		s.backoff = min(s.backoff+1, maxHastened)
	}
	return resends, true
}

// postpone gives a message that is due more time, and reports true, if it may be
// nobody's fault but ours that it has not been acknowledged.
func (s *sender) postpone(now time.Time, m *outgoing, p pace, unread bool) bool {
	since, patience := now.Sub(m.lastSent), s.patience(m, p)
	switch {
	case since < patience: // which has become longer
		s.setDue(m, m.lastSent.Add(patience))
	case unread && since < 2*p.full: // and not for ever, whatever comes
		s.setDue(m, now.Add(unreadWait))
	case now.Sub(m.due) >= lateTick && !m.excused: // so may be who reads
		m.excused = true
		s.setDue(m, now.Add(min(now.Sub(m.due), p.full)))
	default:
		return false
	}
	return true
}

// isDue reports whether a message may be due.
func (s *sender) isDue(now time.Time) bool { return !s.due.IsZero() && !now.Before(s.due) }

// prove notes that a message has arrived, and with it all that left no later and
// did not get lost. If it was sent again, it is not known which time it arrived:
// the first is certain, and the last likely if that takes as long as usual.
func (s *sender) prove(now time.Time, m *outgoing) {
	left, since, soon := m.lastSent, now.Sub(m.lastSent), s.delay.soon()
	if m.sends > 1 && soon > 0 && (since < s.delay.tooSoon() || since > soon) {
		left = m.firstSent
	}
	if s.proven.Before(left) {
		s.proven = left
	}
	if s.certain.Before(m.firstSent) {
		s.certain = m.firstSent
	}
}

// hasten makes messages due early that left before one that has arrived: either
// the network has changed their order, or they are lost, or their
// acknowledgements are. It looks at what left first, in the order of ids.
func (s *sender) hasten(p pace) {
	soon := s.delay.soon()
	if soon == 0 {
		return
	}
	for id := s.oldest; id != s.next; id++ {
		m := s.inFlight(id)
		switch {
		case m == nil:
		case !m.firstSent.Before(s.certain):
			return // and so did all that follow
		case !m.lost && m.hastened < maxHastened && m.lastSent.Before(s.certain):
			wait := min(soon<<(max(m.hastened, eagerSends)-eagerSends), p.full)
			m.lost = true
			s.setDue(m, m.lastSent.Add(wait))
		}
	}
}

// measure learns how long an acknowledgement has taken. Of a message that was
// sent again it is not known which time it arrived, unless the last was so short
// ago that no acknowledgement can be back: then the one before it was answered,
// at least.
func (s *sender) measure(now time.Time, m *outgoing) {
	since := now.Sub(m.lastSent)
	switch {
	case m.sends == 1:
		s.delay.measured(now, since)
		s.backoff = 0
	case since < s.delay.tooSoon():
		between := m.lastSent.Sub(m.firstSent) / time.Duration(m.sends-1)
		s.delay.late(since + between)
	}
}

// lateTick is how late a look at a message must be to show that the processors
// are busy, so that acknowledgements may be waiting to be read.
const lateTick = 2 * time.Millisecond

// unreadWait is how long what has arrived is given to be read.
const unreadWait = 2 * time.Millisecond

// maxProbes is how many messages, the oldest, are sent again while nothing is
// acknowledged that left as late as they: then it is more likely that the other
// side or its network has paused than that all were lost. The others follow when
// one of these is, or something newer.
const maxProbes = 2
