package core

import (
	"time"

	"volley/internal/wire"
)

// A part is a message of a frame that has been sent: what it takes to write it again.
type part struct {
	kind     MessageType
	reliable bool
	copy     bool   // of a message that another frame carries, see redundancy
	lead     uint16 // of a sentinel
	fragment uint16
	id       uint32    // of a sentinel or window_ack; low bits of the number of a copy's packet
	ch       *sender   // its channel
	packet   *outgoing // of a fragment
}

func (p *part) message(m *Message) {
	m.Type, m.Channel = p.kind, p.ch.number
	if o := p.packet; p.kind == MessageFragment {
		m.Packet, m.Lead, m.Fragment, m.Last = o.id, o.lead, p.fragment, o.last
		m.Data = o.data
		if o.last > 0 {
			m.Data = o.fragment(int(p.fragment), p.ch.fragmentSize)
		}
		return
	}
	m.Packet, m.Lead, m.Data = p.id, p.lead, nil
}

func (p *part) size() int {
	switch p.kind {
	case MessageFragment:
		return FragmentHeaderSize + p.packet.fragmentLen(int(p.fragment), p.ch.fragmentSize)
	case MessageSentinel:
		return SentinelSize
	default:
		return WindowAckSize
	}
}

// A settler learns what became of the parts of frames.
type settler interface {
	settlePart(p *part, acked bool)
}

// frameCost is what a frame of a transfer's ring takes in bytes, without its parts.
const frameCost = 120

type frameState uint8

const (
	frameGone    frameState = iota // acknowledged, or given up
	frameFlying                    // sent, and not lost as far as we know
	frameWaiting                   // to be sent, or sent again
)

// A frame is one that was sent and not acknowledged yet.
type frame struct {
	parts    []part
	size     int
	copied   int // of them, bytes of copies
	sentAt   Clock
	firstAt  Clock  // when it was sent for the first time
	order    uint64 // number of its last transmission
	sends    uint32
	state    frameState
	reliable bool
	sentinel bool // empty, to be acknowledged all the same
	lost     bool // it counted as lost since it was last sent
	early    bool // because a thin stream does not wait
	snapshot snapshot

	// The neighbours in the list of what flies, by order of transmission.
	prev, next uint32
}

// A transfer is the queue of unacknowledged frames (T6): a ring of consecutive ids.
type transfer struct {
	ring   []frame // a power of two
	base   uint32  // the oldest id in the queue, or next (T2)
	next   uint32  // the id of the next new frame
	now    Clock   // the present
	window uint32  // N_P
	every  uint32  // S, spacing of sentinel frames

	parts   partPool
	scratch []part // of the frame that is being made

	flight  int    // bytes of all frames in the queue
	copied  int    // of them, bytes of copies
	waiting int    // bytes of those that wait
	waits   int    // their number
	waitAt  uint32 // no frame before this one waits
	orders  uint64

	// The list of what flies: the transmitted first is the head.
	head, tail uint32
	flying     int
}

const firstFrames = 16 // slots that a ring starts with

func (t *transfer) init(first, window, every uint32) {
	*t = transfer{base: first, next: first, window: window, every: every}
}

func (t *transfer) at(id uint32) *frame { return &t.ring[id&uint32(len(t.ring)-1)] }

// get returns the frame of an id that is in the queue.
func (t *transfer) get(id uint32) *frame {
	if id-t.base >= t.next-t.base {
		return nil
	}
	if f := t.at(id); f.state != frameGone {
		return f
	}
	return nil
}

func (t *transfer) span() uint32 { return t.next - t.base }

// open reports whether another frame lies inside the window (T2).
func (t *transfer) open() bool { return t.span() < t.window }

// pipe returns the bytes that are on their way as far as we know.
func (t *transfer) pipe() int { return t.flight - t.waiting }

// add appends a frame that waits. The caller fills its parts and calls seal.
func (t *transfer) add() (id uint32, f *frame) {
	if int(t.span()) == len(t.ring) {
		t.grow()
	}
	id = t.next
	t.next++
	f = t.at(id)
	*f = frame{parts: t.scratch[:0]}
	return id, f
}

// cancel takes back the frame that add has appended last.
func (t *transfer) cancel(f *frame) {
	f.parts = nil
	t.next--
}

func (t *transfer) grow() {
	old := t.ring
	t.ring = make([]frame, max(firstFrames, 2*len(old)))
	for id := t.base; id != t.next; id++ {
		*t.at(id) = old[id&uint32(len(old)-1)]
	}
}

// shrink gives back the memory of an empty queue.
func (t *transfer) shrink() {
	if t.base == t.next {
		t.ring = nil
	}
	t.parts.free, t.parts.kept, t.scratch = nil, 0, nil
}

// ringFrames returns how many frames the ring may have, a power of two, to take a quarter of
// the send buffer: one missing acknowledgement keeps a place for each later frame.
func ringFrames(sendBuffer int, window uint32) uint32 {
	n := uint32(leastWindow)
	for 2*n <= window && 2*int(n)*frameCost <= sendBuffer/4 {
		n *= 2
	}
	return min(n, window)
}

// leastWindow is how many frames may be in flight with the smallest send buffer.
const leastWindow = 256

// seal counts a frame whose parts are complete. It waits to be sent.
func (t *transfer) seal(id uint32, f *frame) {
	f.size = DataHeaderSize
	for i := range f.parts {
		p := &f.parts[i]
		n := p.size()
		f.size += n
		if p.copy {
			f.copied += n
		}
		f.reliable = f.reliable || p.reliable
	}
	if t.scratch = f.parts; len(f.parts) > 0 {
		f.parts = t.parts.copy(f.parts)
		clear(t.scratch)
	}
	t.flight += f.size
	t.copied += f.copied
	t.setWaiting(id, f)
}

func (t *transfer) setWaiting(id uint32, f *frame) {
	f.state = frameWaiting
	t.waiting += f.size
	t.waits++
	if t.waits == 1 || int32(id-t.waitAt) < 0 {
		t.waitAt = id
	}
}

// sent notes that a waiting frame has left.
func (t *transfer) sent(now Clock, id uint32, f *frame) {
	if f.sends == 0 {
		f.firstAt = now
	}
	t.waiting -= f.size
	t.waits--
	t.fly(now, id, f)
}

func (t *transfer) fly(now Clock, id uint32, f *frame) {
	f.state = frameFlying
	f.sentAt = now
	f.sends++
	t.orders++
	f.order = t.orders
	f.prev = t.tail
	if t.flying == 0 {
		t.head = id
	} else {
		t.at(t.tail).next = id
	}
	t.tail = id
	t.flying++
}

// unlink takes a frame out of the list of what flies.
func (t *transfer) unlink(f *frame) {
	t.flying--
	if t.flying == 0 {
		return
	}
	first, last := f == t.at(t.head), f == t.at(t.tail)
	switch {
	case first:
		t.head = f.next
	case last:
		t.tail = f.prev
	default:
		t.at(f.prev).next = f.next
		t.at(f.next).prev = f.prev
	}
}

// oldest returns the flying frame that was transmitted first.
func (t *transfer) oldest() (id uint32, f *frame) {
	if t.flying == 0 {
		return 0, nil
	}
	return t.head, t.at(t.head)
}

// remove takes a frame out of the queue.
func (t *transfer) remove(f *frame) {
	if f.state == frameFlying {
		t.unlink(f)
	} else {
		t.waiting -= f.size
		t.waits--
	}
	t.flight -= f.size
	t.copied -= f.copied
	t.parts.put(f.parts)
	f.parts, f.state = nil, frameGone
	for t.base != t.next && t.at(t.base).state == frameGone {
		t.base++
	}
	if t.waits == 0 || int32(t.waitAt-t.base) < 0 {
		t.waitAt = t.base
	}
}

// drop keeps a lost frame without unreliable parts (T7), or takes it out (T8). True: it stays.
func (t *transfer) drop(id uint32, f *frame, settle settler) bool {
	if f.state == frameFlying {
		t.unlink(f)
		t.setWaiting(id, f)
	}
	size, kept := DataHeaderSize, 0
	for i := range f.parts {
		if p := &f.parts[i]; p.reliable && !p.done(t.now) {
			size += p.size()
			f.parts[kept] = *p
			kept++
		} else {
			settle.settlePart(p, false)
		}
	}
	t.keepParts(f, kept)
	t.resize(f, size)
	f.reliable = true
	if kept == 0 && !f.sentinel {
		if f.sentinel = closes(id, t.every); !f.sentinel {
			t.remove(f)
			return false
		}
	}
	return true
}

// keepParts forgets all parts of a frame but the first n.
func (t *transfer) keepParts(f *frame, n int) {
	old := f.parts
	if f.parts = old[:n]; n > 0 && partClass(n) == partClass(cap(old)) {
		clear(old[n:])
		return
	}
	if f.parts = nil; n > 0 {
		f.parts = t.parts.copy(old[:n])
	}
	t.parts.put(old)
}

func (t *transfer) resize(f *frame, size int) {
	t.copied -= f.copied
	f.copied = 0
	t.flight += size - f.size
	t.waiting += size - f.size
	f.size = size
}

// ack takes an acknowledged frame out of the queue (T5, T6).
func (t *transfer) ack(f *frame, settle settler) {
	for i := range f.parts {
		settle.settlePart(&f.parts[i], true)
	}
	t.remove(f)
}

func (t *transfer) firstWaiting() (uint32, *frame) {
	if t.waits == 0 {
		return 0, nil
	}
	for {
		if f := t.at(t.waitAt); f.state == frameWaiting {
			return t.waitAt, f
		}
		t.waitAt++
	}
}

// expire drops frames as old as the timeout, as in the paper (T10), and reports whether any.
func (t *transfer) expire(now Clock, rto time.Duration, settle settler) (any bool) {
	for id := t.base; id != t.next; id++ {
		if f := t.at(id); f.state != frameGone && f.sends > 0 && now-f.sentAt >= rto {
			any = true
			t.drop(id, f, settle)
		}
	}
	return any
}

// append writes a frame to a batch, reliable parts first, as the original library does.
func (f *frame) append(id uint32, out *wire.Batch) {
	b := out.Extend(f.size)
	AppendDataHeader(b[:0], id, len(f.parts))
	b = b[DataHeaderSize:]
	if b = f.put(b, true); len(b) > 0 {
		f.put(b, false)
	}
}

// put writes the reliable parts, or the others, to the front of b, and returns the rest.
func (f *frame) put(b []byte, reliable bool) []byte {
	var m Message
	for i := range f.parts {
		p := &f.parts[i]
		if p.reliable != reliable {
			continue
		}
		p.message(&m)
		if len(b) < FragmentHeaderSize { // the last ones, which are short
			b = b[len(AppendMessage(b[:0], &m)):]
			continue
		}
		n := m.putHeader((*[FragmentHeaderSize]byte)(b))
		n += copy(b[n:], m.Data)
		b = b[n:]
	}
	return b
}
