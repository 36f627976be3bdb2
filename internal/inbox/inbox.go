// Package inbox is the queue of received messages between a connection and
// the callers of its Read. It is bounded in bytes, and holds no memory when idle. A
// batch of messages takes one lock and one wake-up.
package inbox

import (
	"errors"
	"net"
	"os"
	"sync"
	"sync/atomic"

	"volley/internal/deadline"
)

// MessageOverhead is what a queued message counts against the limit beside
// its length, in bytes, and NumberedOverhead the same after Inbox.Numbered.
const (
	MessageOverhead  = lengthSize
	NumberedOverhead = lengthSize + numberSize
)

// An Inbox is a queue of messages. It must be set up by Init. Push belongs to
// one producer at a time, who brackets it by Lock and Unlock; everything else
// is safe for concurrent use.
type Inbox struct {
	// The producer's, guarded by mu. They stand apart from the reader's, so that
	// two processors do not take the same memory from each other for each message.
	limit      int64 // constant
	room       int64 // a message of so many bytes fits for sure
	pushed     int64 // bytes pushed since Lock
	mu         sync.Mutex
	head, tail *chunk // what was pushed
	end        error  // what Read returns once the queue is empty
	class      uint8  // size class of the next chunk
	noticed    bool   // one Read is to return ErrNotice
	front      uint8  // bytes before each message; constant

	timeless atomic.Int32 // those of waiting that found no deadline, and do not arm it

	wake     chan struct{}        // one token, see wait.go; nil before anybody waits
	roomWake chan struct{}        // one token, for WaitRoom; guarded by mu; nil before it
	reserve  func(delta int) bool // may be nil
	poller   Poller               // may be nil

	// The reader's.
	callers atomic.Int32 // callers of Read that found no message
	roomers atomic.Int32 // callers of WaitRoom that wait, or are about to
	waiting atomic.Int32 // those of callers that wait, or are about to
	news    atomic.Int32 // what Read has to know beside messages; written with mu held
	used    atomic.Int64 // bytes pushed and not yet popped, with overhead
	readMu  sync.Mutex
	out     *chunk // taken from head as a whole
}

// The values of news.
const (
	none   = iota
	told   // there is an end, or a notice
	failed // there is an end, which counts at once: queued messages do not
)

// Init sets the limit in bytes. Reserve, if not nil, is asked for memory.
func (q *Inbox) Init(limit int, reserve func(delta int) bool) {
	q.limit, q.room = int64(limit), int64(limit)
	q.reserve = reserve
	q.front = lengthSize
}

// Numbered has the Inbox keep numbers, see PushNumbered. It is called right after Init.
func (q *Inbox) Numbered() { q.front = NumberedOverhead }

// SetReserve replaces the function of Init by another one for the same budget.
func (q *Inbox) SetReserve(reserve func(delta int) bool) {
	q.readMu.Lock()
	q.mu.Lock()
	q.reserve = reserve
	q.mu.Unlock()
	q.readMu.Unlock()
}

// A Poller lets a reader that is about to block look for messages itself. It
// returns false if the reader has to wait.
type Poller interface {
	ReadInline(*deadline.Deadline, Readers) bool
	InterruptInline(Readers)
}

// Readers is what a Poller sees of an Inbox.
type Readers = interface {
	Kick()
	Callers() int
}

// SetPoller sets the Poller, before the first Read.
func (q *Inbox) SetPoller(p Poller) { q.poller = p }

// Lock begins a batch of calls of Push.
func (q *Inbox) Lock() { q.mu.Lock() }

// Unlock ends a batch and wakes a waiting reader if something was pushed.
func (q *Inbox) Unlock() {
	if q.pushed == 0 {
		q.mu.Unlock()
		return
	}
	q.used.Add(q.pushed)
	q.pushed = 0
	q.mu.Unlock()
	if q.waiting.Load() > 0 {
		signal(q.wake)
	}
}

// Push queues a copy of p. It reports false if there is no room or the inbox has ended.
func (q *Inbox) Push(p []byte) bool { return q.PushNumbered(p, 0) }

// PushNumbered is Push for a message that has a number, which a numbered Inbox keeps.
func (q *Inbox) PushNumbered(p []byte, number uint64) bool {
	n := int(q.front) + len(p)
	if q.end != nil || int64(n) > q.room && !q.makeRoom(n) {
		return false
	}
	if q.tail == nil || q.tail.room() < n {
		// Where memory is short the smallest chunk may still be had.
		if !q.addChunk(newChunk(n, int(q.class)), q.reserve) && (q.class == 0 || !q.addChunk(newChunk(n, 0), q.reserve)) {
			return false
		}
	}
	q.tail.push(p, number)
	q.pushed += int64(n)
	q.room -= int64(n)
	return true
}

// PushKept is Push for a message that its sender believes taken, so it cannot be refused. If
// reserve grants no usual chunk, it gets one of its own, at most TightOverhead larger.
// Reserve only learns of its return.
func (q *Inbox) PushKept(p []byte) (kept int, ok bool) {
	if q.Push(p) {
		return 0, true
	}
	n := int(q.front) + len(p)
	if q.end != nil || int64(n) > q.room {
		return 0, false
	}
	c := &chunk{buf: make([]byte, n), tight: true}
	q.addChunk(c, nil)
	q.tail.push(p, 0)
	q.pushed += int64(n)
	q.room -= int64(n)
	return c.size(), true
}

// makeRoom counts the room anew, and reports whether n bytes fit, with their head.
func (q *Inbox) makeRoom(n int) bool {
	q.room = q.limit - q.used.Load() - q.pushed
	return int64(n) <= q.room
}

func (q *Inbox) addChunk(c *chunk, reserve func(delta int) bool) bool {
	if reserve != nil && !reserve(c.size()) {
		c.free()
		return false
	}
	if int(q.class) < len(pools)-1 {
		q.class++
	}
	c.front = q.front
	if q.tail == nil {
		q.head = c
	} else {
		q.tail.next = c
	}
	q.tail = c
	return true
}

// End lets readers drain the queue, and then gives them err. The first End or Fail counts.
func (q *Inbox) End(err error) { q.finish(err, false) }

// Fail drops the queue and gives err to all present and future readers.
func (q *Inbox) Fail(err error) { q.finish(err, true) }

// ErrNotice is returned by one Read that finds no message after Notice.
var ErrNotice = errors.New("inbox: notice")

// Notice makes one Read that finds no message return ErrNotice.
func (q *Inbox) Notice() {
	q.mu.Lock()
	if q.end == nil {
		q.noticed = true
		q.news.Store(told)
	}
	q.mu.Unlock()
	if q.waiting.Load() > 0 {
		signal(q.wake)
	}
}

func (q *Inbox) finish(err error, drop bool) {
	q.mu.Lock()
	if q.end == nil || drop {
		q.end = err
	}
	q.news.CompareAndSwap(none, told)
	if drop {
		q.news.Store(failed)
		q.freeList(q.head)
		q.head, q.tail = nil, nil
	}
	q.mu.Unlock()
	q.tellRoom()
	q.Interrupt()
	if drop {
		q.readMu.Lock()
		q.freeList(q.out)
		q.out = nil
		q.readMu.Unlock()
	}
}

func (q *Inbox) freeList(c *chunk) {
	for c != nil {
		next := c.next
		q.used.Add(int64(c.r - c.w))
		q.release(c)
		c = next
	}
}

func (q *Inbox) release(c *chunk) {
	n := c.size()
	c.free()
	if q.reserve != nil {
		q.reserve(-n)
	}
}

// Len returns the bytes queued, with overhead. It takes no lock.
func (q *Inbox) Len() int { return int(q.used.Load()) }

// A taken says where to copy a message, and tells of it.
type taken struct {
	dst    []byte
	grow   bool // append to dst
	part   bool // leave what does not fit
	n      int  // how much was copied
	size   int
	number uint64  // 0 if the Inbox is not numbered
	from   *Origin // nil if it has none
}

// takeLocked takes the next message of the chunk that is read.
func (q *Inbox) takeLocked(t *taken) {
	c := q.out
	t.number = c.number()
	p := c.pop()
	if t.size = len(p); t.grow {
		t.dst = append(t.dst, p...)
	} else {
		t.n = copy(t.dst, p)
	}
	if left := len(p) - t.n; t.part && left > 0 {
		q.used.Add(int64(int(q.front) + left))
		c.putBack(left, t.number)
	}
	if len(c.from) > 0 {
		t.from = c.popOrigin()
	}
}

// Read copies the next message to b, and returns the bytes copied and its length.
func (q *Inbox) Read(b []byte, d *deadline.Deadline) (n, size int, err error) {
	t := taken{dst: b}
	err = q.next(d, &t)
	return t.n, t.size, err
}

// ReadPart copies the next bytes of a message to b, and leaves the rest.
func (q *Inbox) ReadPart(b []byte, d *deadline.Deadline) (n int, err error) {
	t := taken{dst: b, part: true}
	err = q.next(d, &t)
	return t.n, err
}

// ReadAppend appends the next message to dst.
func (q *Inbox) ReadAppend(dst []byte, d *deadline.Deadline) ([]byte, error) {
	t := taken{dst: dst, grow: true}
	err := q.next(d, &t)
	return t.dst, err
}

// ReadNumbered is ReadAppend, with the number of the message, for a numbered Inbox.
func (q *Inbox) ReadNumbered(dst []byte, d *deadline.Deadline) (p []byte, number uint64, err error) {
	t := taken{dst: dst, grow: true}
	err = q.next(d, &t)
	return t.dst, t.number, err
}

// TryNumbered is ReadNumbered without waiting. It reports whether there was a message.
func (q *Inbox) TryNumbered(dst []byte, d *deadline.Deadline) (p []byte, number uint64, ok bool, err error) {
	t := taken{dst: dst, grow: true}
	ok, err = q.try(d, &t)
	return t.dst, t.number, ok, err
}

// next takes the next message, and waits for it.
func (q *Inbox) next(d *deadline.Deadline, t *taken) error {
	if ok, err := q.try(d, t); ok || err != nil {
		return err
	}
	q.callers.Add(1)
	defer q.callers.Add(-1)
	for {
		if q.poller == nil || !q.poller.ReadInline(d, q) {
			if err := q.wait(d); err != nil {
				return err
			}
		}
		if ok, err := q.try(d, t); ok || err != nil {
			return err
		}
	}
}

// try is next without waiting: it reports whether there was a message.
func (q *Inbox) try(d *deadline.Deadline, t *taken) (bool, error) {
	if q.news.Load() == failed {
		return false, q.ended()
	}
	if d.Exceeded() {
		return false, os.ErrDeadlineExceeded
	}
	if q.used.Load() == 0 && q.news.Load() == none {
		return false, nil
	}
	q.readMu.Lock()
	if q.out == nil {
		if err := q.take(); err != nil || q.out == nil {
			q.readMu.Unlock()
			return false, err
		}
	}
	q.takeLocked(t)
	q.poppedLocked(t.size)
	q.readMu.Unlock()
	if q.roomers.Load() > 0 {
		q.tellRoom()
	}
	return true, nil
}

func (q *Inbox) ended() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.end == nil {
		return net.ErrClosed
	}
	return q.end
}

// poppedLocked accounts for a message of n bytes that was taken from q.out.
func (q *Inbox) poppedLocked(n int) {
	c := q.out
	q.used.Add(-int64(int(c.front) + n))
	if c.r == c.w {
		q.out = c.next
		q.release(c)
	}
}

// take moves what was pushed to the consumer. If there is nothing it returns the end's error.
func (q *Inbox) take() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.head == nil && q.noticed && q.end == nil {
		q.noticed = false
		q.news.Store(none)
		return ErrNotice
	}
	if q.head == nil {
		return q.end
	}
	q.out, q.head, q.tail = q.head, nil, nil
	q.class = 0
	if q.out.next != nil {
		q.class = uint8(len(pools) - 1)
	}
	return nil
}
