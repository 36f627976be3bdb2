package riptide

import (
	"time"

	"volley/internal/wire"
)

const (
	// leastQuick is the least time before a message is sent again, as in C#.
	leastQuick = 10 * time.Millisecond
	// maxHastened is how often a message is sent again before the interval is
	// over. These sends do not count for Config.MaxSends.
	maxHastened = 6
	// eagerSends is how many of those do not wait longer each time.
	eagerSends = 3
)

// patience returns how long to wait for an acknowledgement of a send.
func (s *sender) patience(m *outgoing, p pace) time.Duration {
	if m.hastened < maxHastened {
		return min(p.quick<<s.backoff, p.full)
	}
	return p.full
}

// resend sends due messages again; false: one was sent maxSends times. Unread: acks may wait.
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
			left := p.least - now.Sub(m.firstSent)
			if left <= 0 {
				s.setDue(m, now.Add(p.full))
				return resends, false
			}
			// The path may be long, or nobody may be there: few sends more.
			resends++
			slow := min(maxResend, left)
			s.transmit(now, m, pace{full: slow, quick: slow}, out)
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

// postpone gives a due message more time if its acknowledgement may be late because of us.
func (s *sender) postpone(now time.Time, m *outgoing, p pace, unread bool) bool {
	since, patience := now.Sub(m.lastSent), s.patience(m, p)
	switch {
	case since < patience: // it has become longer
		s.setDue(m, m.lastSent.Add(patience))
	case unread && since < 2*p.full: // not for ever
		s.setDue(m, now.Add(unreadWait))
	case now.Sub(m.due) >= lateTick && !m.excused: // the reader may be late, too
		m.excused = true
		s.setDue(m, now.Add(min(now.Sub(m.due), p.full)))
	default:
		return false
	}
	return true
}

func (s *sender) isDue(now time.Time) bool { return !s.due.IsZero() && !now.Before(s.due) }

// prove notes that a message has arrived, so that older ones have arrived or are lost.
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

// hasten makes first sends due early that left before one that has arrived.
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
			return // and all that follow left later
		case !m.lost && m.hastened < maxHastened && m.lastSent.Before(s.certain):
			wait := min(soon<<(max(m.hastened, eagerSends)-eagerSends), p.full)
			m.lost = true
			s.setDue(m, m.lastSent.Add(wait))
		}
	}
}

// measure learns an acknowledgement's time, after a resend only if the last was too recent.
func (s *sender) measure(now time.Time, m *outgoing) {
	since := now.Sub(m.lastSent)
	switch {
	case m.sends == 1:
		s.delay.measured(now, since)
		s.backoff = 0
	case s.delay.smooth == 0:
		s.delay.within(now.Sub(m.firstSent))
	case since < s.delay.tooSoon():
		between := m.lastSent.Sub(m.firstSent) / time.Duration(m.sends-1)
		s.delay.late(since + between)
	}
}

// lateTick is how late a look at a message must be to show that the processors
// are busy, so that acknowledgements may be unread.
const lateTick = 2 * time.Millisecond

// unreadWait is how long what has arrived is given to be read.
const unreadWait = 2 * time.Millisecond

// maxProbes is how many of the oldest messages are sent again while nothing comes back:
// probably the other side has paused. An answer releases the others.
const maxProbes = 2
