package riptide

import (
	"errors"
	"time"

	"volley/internal/wire"
)

// ErrSendBuffer is the error of sending a reliable message while as much waits
// to be acknowledged as the configuration allows.
var ErrSendBuffer = errors.New("riptide: too much waits to be sent")

// maxInFlight is the largest number of reliable ids that are under way at a
// time, acknowledged ones between them included. A jump of 32 ids or more makes
// released receivers acknowledge what never came, and with fewer than 32 under
// way no loss can make one. An ack of the notes layout tells of 17 ids only.
func (c codec) maxInFlight() int {
	if c.layout == Notes {
		return 16
	}
	return 31
}

const inFlightSlots = 32

const (
	// messageCost is what a message that waits is charged beside its bytes.
	messageCost = 64
	// maxQueued keeps the ids of what waits apart from those under way.
	maxQueued = 1 << 14
)

// fits reports whether a message of n bytes may be sent with a limit in bytes.
func (s *sender) fits(n, limit int) bool {
	return s.bytes+n+messageCost <= limit && s.queue.len() < maxQueued
}

// An outgoing is a reliable message that has been sent and not acknowledged.
type outgoing struct {
	typ       packetType
	pending   bool
	excused   bool // has been given time for a late tick
	seq       uint16
	sends     int
	firstSent time.Time
	lastSent  time.Time
	due       time.Time // of the next look at it
	body      []byte
}

// A sender delivers reliable messages: each is sent until it is acknowledged.
// What does not fit the window waits, in order.
type sender struct {
	codec  codec
	oldest uint16 // the oldest id without an acknowledgement, if any is in flight
	next   uint16 // the next new one
	slots  *[inFlightSlots]outgoing
	queue  queue
	bytes  int       // of bodies in flight and waiting
	due    time.Time // the earliest of the slots; zero: none
	used   time.Time // when something was sent anew
	proven time.Time // when what was sent last of all that is acknowledged left
	delay  ackTime
}

func (s *sender) init(c codec) { s.codec, s.oldest, s.next = c, 1, 1 }

// slot returns the place of an id.
func (s *sender) slot(id uint16) *outgoing { return &s.slots[id%inFlightSlots] }

// inFlight returns the pending message with that id, nil if there is none.
func (s *sender) inFlight(id uint16) *outgoing {
	if s.slots == nil {
		return nil
	}
	if m := s.slot(id); m.pending && m.seq == id {
		return m
	}
	return nil
}

// waiting returns the number of messages that are not acknowledged.
func (s *sender) waiting() int {
	n := s.queue.len()
	for id := s.oldest; id != s.next; id++ {
		if s.inFlight(id) != nil {
			n++
		}
	}
	return n
}

// full reports whether no more ids may get under way.
func (s *sender) full() bool { return int(s.next-s.oldest) >= s.codec.maxInFlight() }

// send takes a message and returns its id. It leaves at once if the window
// allows.
func (s *sender) send(now time.Time, t packetType, body []byte, interval time.Duration, out *wire.Batch) uint16 {
	id := s.next + uint16(s.queue.len())
	s.bytes += len(body) + messageCost
	if s.queue.len() > 0 || s.full() {
		s.queue.push(t, body)
		return id
	}
	s.launch(now, t, body, interval, out)
	return id
}

// launch sends a message for the first time.
func (s *sender) launch(now time.Time, t packetType, body []byte, interval time.Duration, out *wire.Batch) {
	if s.slots == nil {
		s.slots = new([inFlightSlots]outgoing)
	}
	m := s.slot(s.next)
	*m = outgoing{typ: t, pending: true, seq: s.next, firstSent: now, body: append(m.body[:0], body...)}
	s.next++
	s.used = now
	s.transmit(now, m, interval, out)
}

// transmit sends a message once more.
func (s *sender) transmit(now time.Time, m *outgoing, interval time.Duration, out *wire.Batch) {
	m.sends++
	m.lastSent = now
	s.setDue(m, now.Add(interval))
	s.codec.appendReliable(out, m.typ, m.seq, m.body)
}

func (s *sender) setDue(m *outgoing, at time.Time) {
	m.due = at
	if s.due.IsZero() || at.Before(s.due) {
		s.due = at
	}
}

// fill sends what waits, as far as the window allows.
func (s *sender) fill(now time.Time, interval time.Duration, out *wire.Batch) {
	for s.queue.len() > 0 && !s.full() {
		t, body := s.queue.pop()
		s.launch(now, t, body, interval, out)
	}
}

// resend sends again what is due. It returns false if a message has been sent
// as often as allowed; maxSends of zero allows any number. Unread says that
// datagrams have arrived that may hold the acknowledgements.
func (s *sender) resend(now time.Time, interval time.Duration, maxSends int, unread bool, out *wire.Batch) (resends int, ok bool) {
	if !s.isDue(now) {
		return 0, true
	}
	s.due = time.Time{}
	older := 0 // messages without an acknowledgement
	for id := s.oldest; id != s.next; id++ {
		m := s.inFlight(id)
		if m == nil {
			continue
		}
		older++
		since := now.Sub(m.lastSent)
		switch {
		case now.Before(m.due):
			s.setDue(m, m.due)
		case since < interval: // which has become longer
			s.setDue(m, m.lastSent.Add(interval))
		case unread && since < 2*interval: // and not for ever, whatever comes
			s.setDue(m, now.Add(unreadWait))
		case maxSends > 0 && m.sends >= maxSends:
			s.setDue(m, now.Add(interval))
			return resends, false
		case now.Sub(m.due) >= lateTick && !m.excused: // so may be who reads
			m.excused = true
			s.setDue(m, now.Add(min(now.Sub(m.due), interval)))
		case older > maxProbes && s.proven.Before(m.lastSent):
			s.setDue(m, now.Add(interval/2))
		default:
			resends++
			s.transmit(now, m, interval, out)
		}
	}
	return resends, true
}

// isDue reports whether a message may be due.
func (s *sender) isDue(now time.Time) bool { return !s.due.IsZero() && !now.Before(s.due) }

// acked takes an id as delivered. It returns how often the message was sent,
// zero if it was not pending. Prompt says that the acknowledgement left when the
// message arrived; others, which repeat what one that was lost has said, tell
// nothing about time.
func (s *sender) acked(now time.Time, id uint16, prompt bool) (sends int) {
	m := s.inFlight(id)
	if m == nil {
		return 0
	}
	if s.proven.Before(m.lastSent) {
		s.proven = m.lastSent
	}
	if prompt {
		s.measure(now, m)
	}
	m.pending = false
	s.bytes -= len(m.body) + messageCost
	for s.oldest != s.next && s.inFlight(s.oldest) == nil {
		s.oldest++
	}
	if s.oldest == s.next {
		s.due = time.Time{}
	}
	return m.sends
}

// measure learns how long an acknowledgement has taken. Of a message that was
// sent again it is not known which time it arrived, unless the last was too short
// ago: then the one before it was answered, at least.
func (s *sender) measure(now time.Time, m *outgoing) {
	since := now.Sub(m.lastSent)
	switch {
	case m.sends == 1:
		s.delay.measured(now, since)
	case since < s.delay.smooth/2:
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

// idleMemory is how long the memory of the window is kept without use.
const idleMemory = 5 * time.Second

// rest gives memory back that has not been used for a while.
func (s *sender) rest(now time.Time) {
	if s.slots != nil && s.oldest == s.next && now.Sub(s.used) >= idleMemory {
		s.slots, s.queue = nil, queue{}
	}
}

// A queue holds messages that wait for the window, one behind the other in one
// piece of memory. The zero value is empty.
type queue struct {
	buf   []byte
	start int // of the oldest
	n     int
}

const queueHeader = 4

func (q *queue) len() int { return q.n }

func (q *queue) push(t packetType, body []byte) {
	if q.start > len(q.buf)/2 && len(q.buf)+queueHeader+len(body) > cap(q.buf) {
		n := copy(q.buf, q.buf[q.start:])
		q.buf, q.start = q.buf[:n], 0
	}
	n := len(body)
	q.buf = append(q.buf, byte(t), byte(n), byte(n>>8), byte(n>>16))
	q.buf = append(q.buf, body...)
	q.n++
}

// pop returns the oldest message; its body is valid until the next push.
func (q *queue) pop() (t packetType, body []byte) {
	b := q.buf[q.start:]
	n := int(b[1]) | int(b[2])<<8 | int(b[3])<<16
	q.start += queueHeader + n
	q.n--
	if q.n == 0 {
		q.buf, q.start = q.buf[:0], 0
	}
	return packetType(b[0]), b[queueHeader : queueHeader+n]
}
