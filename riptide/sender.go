package riptide

import (
	"errors"
	"time"

	"volley/internal/wire"
)

// ErrSendBuffer is the error of sending a reliable message while as much waits
// to be acknowledged as the configuration allows.
var ErrSendBuffer = errors.New("riptide: the send buffer is full")

const (
	// maxAhead is how far new ids go beyond the newest one that has arrived. Losses
	// then cannot make a jump of 32 ids, after which released receivers acknowledge
	// messages that never came.
	maxAhead = 31
	// maxSpan is the largest number of ids from the oldest without an
	// acknowledgement to the newest. C# receivers remember at least 1024 ids.
	maxSpan = 512
	// maxSpanNotes is the same for the notes layout: an ack covers 17 ids.
	maxSpanNotes = 16
	// firstSlots is the number of ids that there is memory for at first.
	firstSlots = 32
	// maxSpareBodies is how many bodies without a message are kept.
	maxSpareBodies = 32
)

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
	excused   bool  // has been given time for a late tick
	lost      bool  // what left later has arrived; nothing has been sent since
	hastened  uint8 // sends that did not wait for the whole interval
	seq       uint16
	sends     int
	firstSent time.Time
	lastSent  time.Time
	due       time.Time // of the next look at it
	body      []byte
}

// A sender delivers reliable messages within a window. Others wait, in order.
type sender struct {
	codec   codec
	oldest  uint16     // the oldest id without an acknowledgement, if any is in flight
	arrived uint16     // the newest id that is known to have arrived
	next    uint16     // the next new one
	slots   []outgoing // a power of two, by the low bits of the id; nil while idle
	spare   [][]byte   // bodies for messages to come
	pending int        // of slots
	queue   queue
	bytes   int       // of bodies in flight and waiting
	due     time.Time // the earliest of the slots; zero: none
	used    time.Time // when something was sent anew
	proven  time.Time // the latest last send of an acknowledged message
	certain time.Time // the latest first send of one
	delay   ackTime
	backoff uint8 // times that the quick pace was too quick in a row
}

func (s *sender) init(c codec) { s.codec, s.oldest, s.next = c, 1, 1 }

// A pace says how long an acknowledgement is waited for.
type pace struct {
	quick time.Duration // as measured
	full  time.Duration // the interval between two sends, at least quick
	least time.Duration // how old a message must be whose sends are enough to end the connection
}

func (s *sender) slot(id uint16) *outgoing { return &s.slots[int(id)&(len(s.slots)-1)] }

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
func (s *sender) waiting() int { return s.queue.len() + s.pending }

// full reports whether no more ids may get under way.
func (s *sender) full() bool {
	span := int(s.next - s.oldest)
	if s.codec.layout == notes {
		return span >= maxSpanNotes
	}
	return span >= maxSpan || s.next-s.arrived > maxAhead
}

// send takes a message and returns its id. It leaves at once if the window allows.
func (s *sender) send(now time.Time, t packetType, body []byte, p pace, out *wire.Batch) uint16 {
	id := s.next + uint16(s.queue.len())
	s.bytes += len(body) + messageCost
	if s.queue.len() > 0 || s.full() {
		s.queue.push(t, body)
		return id
	}
	s.launch(now, t, body, p, out)
	return id
}

// launch sends a message for the first time.
func (s *sender) launch(now time.Time, t packetType, body []byte, p pace, out *wire.Batch) {
	if int(s.next-s.oldest) >= len(s.slots) {
		s.grow()
	}
	m := s.slot(s.next)
	*m = outgoing{typ: t, pending: true, seq: s.next, firstSent: now, body: append(s.spareBody(), body...)}
	s.next++
	s.pending++
	s.used = now
	s.transmit(now, m, p, out)
}

// grow makes room for twice as many ids.
func (s *sender) grow() {
	old := *s
	s.slots = make([]outgoing, max(firstSlots, 2*len(s.slots)))
	for id := s.oldest; id != s.next; id++ {
		if m := old.inFlight(id); m != nil {
			*s.slot(id) = *m
		}
	}
}

func (s *sender) spareBody() []byte {
	last := len(s.spare) - 1
	if last < 0 {
		return nil
	}
	b := s.spare[last]
	s.spare = s.spare[:last]
	return b[:0]
}

// transmit sends a message once more.
func (s *sender) transmit(now time.Time, m *outgoing, p pace, out *wire.Batch) {
	m.sends++
	m.lastSent = now
	m.lost = false
	s.setDue(m, now.Add(s.patience(m, p)))
	s.codec.appendReliable(out, m.typ, m.seq, m.body)
}

func (s *sender) setDue(m *outgoing, at time.Time) {
	m.due = at
	if s.due.IsZero() || at.Before(s.due) {
		s.due = at
	}
}

// fill sends what waits, as far as the window allows.
func (s *sender) fill(now time.Time, p pace, out *wire.Batch) {
	for s.queue.len() > 0 && !s.full() {
		t, body := s.queue.pop()
		s.launch(now, t, body, p, out)
	}
}

// acked takes an id as delivered, and returns its sends, or zero. Prompt: it tells the time.
func (s *sender) acked(now time.Time, id uint16, prompt bool) (sends int) {
	m := s.inFlight(id)
	if m == nil {
		return 0
	}
	s.prove(now, m)
	if prompt {
		s.measure(now, m)
	}
	if gap(id, s.arrived) > 0 {
		s.arrived = id
	}
	m.pending = false
	s.pending--
	s.bytes -= len(m.body) + messageCost
	if len(s.spare) < maxSpareBodies {
		s.spare = append(s.spare, m.body)
	}
	m.body = nil
	for s.oldest != s.next && s.inFlight(s.oldest) == nil {
		s.oldest++
	}
	if s.oldest == s.next {
		s.due = time.Time{}
	}
	return m.sends
}

// idleMemory is how long the memory of the window is kept without use.
const idleMemory = 5 * time.Second

// rest gives memory back that has not been used for a while.
func (s *sender) rest(now time.Time) {
	if s.slots != nil && s.oldest == s.next && now.Sub(s.used) >= idleMemory {
		s.slots, s.spare, s.queue = nil, nil, queue{}
	}
}

// A queue holds waiting messages in pieces of memory, and forgets each piece once it is
// empty. The zero value is empty.
type queue struct {
	pieces [][]byte // only the last has room
	start  int      // of the oldest message in the first
	n      int
}

const (
	queueHeader = 4
	// pieceSize is so large that what messages of usual sizes are charged covers the
	// room for one more that a piece may lack at its end.
	pieceSize = 32 << 10
)

func (q *queue) len() int { return q.n }

func (q *queue) push(t packetType, body []byte) {
	n := len(body)
	p := q.room(queueHeader + n)
	*p = append(*p, byte(t), byte(n), byte(n>>8), byte(n>>16))
	*p = append(*p, body...)
	q.n++
}

// room returns a piece with room for n bytes. The first one begins small.
func (q *queue) room(n int) *[]byte {
	last := len(q.pieces) - 1
	if last < 0 {
		q.pieces, last = append(q.pieces, nil), 0
	}
	p := &q.pieces[last]
	if last == 0 && q.start > len(*p)/2 && len(*p)+n > cap(*p) {
		*p, q.start = append((*p)[:0], (*p)[q.start:]...), 0
	}
	size := len(*p) + n
	switch {
	case size <= cap(*p):
	case last == 0 && size <= pieceSize || len(*p) == 0:
		*p = append(make([]byte, 0, max(size, min(2*cap(*p), pieceSize))), *p...)
	default:
		q.pieces = append(q.pieces, make([]byte, 0, max(n, pieceSize)))
		p = &q.pieces[last+1]
	}
	return p
}

// pop returns the oldest message; its body is valid until the next push.
func (q *queue) pop() (t packetType, body []byte) {
	p := q.pieces[0]
	b := p[q.start:]
	n := int(b[1]) | int(b[2])<<8 | int(b[3])<<16
	q.start += queueHeader + n
	q.n--
	if q.start == len(p) {
		if q.start = 0; len(q.pieces) > 1 {
			q.pieces[0], q.pieces = nil, q.pieces[1:]
		} else {
			q.pieces[0] = p[:0]
		}
	}
	return packetType(b[0]), b[queueHeader : queueHeader+n]
}

// isLarge reports whether an empty queue holds more memory than is worth to be kept.
func (q *queue) isLarge() bool { return len(q.pieces) > 0 && cap(q.pieces[0]) > pieceSize }
