package world

import (
	"context"
	"errors"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"weak"

	"volley"
	"volley/netcode"
	"volley/secure"
)

// A link is a connection of any protocol, as an end uses it.
type link interface {
	read(ctx context.Context, dst []byte) (msg []byte, id uint64, err error)
	write(b []byte) (id uint64, err error) // the id is 0 if there are no fates
	// fates waits for fates and calls f for each. It returns an error once there are no more.
	fates(f func(id uint64, fate volley.Fate)) error
	SetReadDeadline(time.Time) error
	look()
	close() error
	max() int                  // the size of the largest message
	pin() (pin, time.Duration) // the time is how long the memory may be held longer than usual
}

// A pin tells whether the memory of a connection is still held.
type pin func() bool

// pinOf returns the pin of a session, or of nothing.
func pinOf(c net.Conn) pin {
	switch c := c.(type) {
	case *netcode.Conn:
		return pinTo(c)
	case *secure.Conn:
		return pinTo(c)
	case *liar:
		return pinOf(c.Conn)
	}
	return func() bool { return false }
}

// pinTo returns the pin of an object.
func pinTo[T any](p *T) pin {
	w := weak.Make(p)
	return func() bool { return w.Value() != nil }
}

// A route is where a connection leads, and what it promises.
type route struct {
	home, peer int // hosts
	promises   promises
	fates      bool
	served     bool // a Handler reads
	dialed     bool
}

// An end is one side of a connection with the application that uses it.
type end struct {
	*book
	route
	link   link
	flow   *flow  // that it writes
	others []*end // of the other channels of the connection
	began  time.Duration

	rests    atomic.Int64  // until when nothing is read, as the time of the book
	answered atomic.Int64  // when the newest answer was read
	answers  atomic.Int64  // that were read
	ending   atomic.Int64  // when the reader has ended
	done     chan struct{} // closed when the reader has ended
	settled  chan struct{} // closed when all fates are known

	mu     sync.Mutex
	closed bool
	quit   bool          // this side has closed before the end
	asked  time.Duration // when the read began that is under way; negative: none is
	empty  time.Duration // when the reader has last found nothing to read
	due    time.Duration // the deadline of reads; 0: none
	err    error         // what ended the reader
	finish sync.Once

	seen map[uint32]*sight // of flows; the reader's own
}

// A sight is which messages of a flow an end has read.
type sight struct {
	flow *flow
	bits []uint64
	next uint32 // one more than the newest
}

// newEnd begins to read a connection, and to collect fates.
func newEnd(b *book, l link, r route) *end {
	e := &end{
		book: b, link: l, route: r, began: b.now(), flow: b.open(r, l), asked: -1, empty: b.now(),
		done: make(chan struct{}), settled: make(chan struct{}), seen: make(map[uint32]*sight),
	}
	b.trace("%v begins", e)
	b.alive(r.home, r.peer, 1)
	if !r.served {
		go e.readAll()
	}
	if r.fates {
		go e.collect()
	} else {
		close(e.settled)
	}
	return e
}

// readAll reads until the connection ends.
func (e *end) readAll() {
	buf := make([]byte, 0, 2048)
	for {
		for wait := e.resting(); wait > 0; wait = e.resting() {
			if closed, _ := e.over(); closed || e.abandoned() {
				break
			}
			time.Sleep(min(wait, time.Second))
		}
		began := e.now()
		e.asks(began)
		msg, id, err := e.link.read(context.Background(), buf[:0])
		e.asks(-1)
		switch {
		case err == nil:
			e.punctual()
			e.take(msg, id)
		case errors.Is(err, os.ErrDeadlineExceeded):
			e.hurried(began)
		case errors.Is(err, syscall.ECONNREFUSED):
		default:
			e.finished(err)
			return
		}
	}
}

// hurry gives reads a deadline.
func (e *end) hurry(d time.Duration) {
	if e.served {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.due = e.now() + d
	e.link.SetReadDeadline(time.Now().Add(d))
}

// shaky is by how much the clock goes back, see TestClock.
const shaky = time.Nanosecond

// hurried checks that the deadline of a read was kept, and takes it back.
func (e *end) hurried(began time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if late := e.now() - max(e.due, began); e.due == 0 || late < -2*shaky || late > time.Millisecond {
		e.fail("%v: a read with the deadline %v, begun at %v, ends %v late", e, e.due, began, late)
	}
	e.due = 0
	e.link.SetReadDeadline(time.Time{})
}

// punctual checks that a read which returns a message is not past its deadline.
func (e *end) punctual() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if late := e.now() - e.due; e.due != 0 && late > time.Millisecond {
		e.fail("%v: a read returns a message %v after its deadline", e, late)
	}
}

// abandoned reports whether the reader of another channel knows that the connection has ended.
func (e *end) abandoned() bool {
	l, ok := e.link.(*porousLink)
	return ok && l.ended()
}

// resting returns how long nothing is to be read.
func (e *end) resting() time.Duration { return time.Duration(e.rests.Load()) - e.now() }

// finished notes that all has been read, and why there is no more.
func (e *end) finished(err error) {
	e.finish.Do(func() {
		e.mu.Lock()
		e.err = err
		e.mu.Unlock()
		e.ending.Store(int64(e.now()))
		e.trace("%v ends: %v", e, err)
		e.flow.end()
		e.alive(e.home, e.peer, -1)
		e.count(func(c *counts) { c.Ends++; c.Lived += e.now() - e.began })
		close(e.done)
		l, ok := e.link.(*porousLink)
		if ok {
			l.ending.read.Done()
		}
		if !e.dialed {
			go func() {
				if ok {
					l.ending.read.Wait() // since to close drops what is unread in the other channels
				}
				e.close()
			}()
		}
	})
}

// asks notes that a read begins at a time, or with a negative time, that it is over.
func (e *end) asks(t time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.empty = e.emptyLocked()
	e.asked = t
}

// emptyLocked returns a time at which all was read that had arrived. Only a read that waits
// shows that: a reader that rests, or writes an answer, leaves unread what comes meanwhile. A
// Handler is given all as it comes, or soon.
func (e *end) emptyLocked() time.Duration {
	now := e.now()
	switch {
	case e.served:
		return now - lag - longestStall
	case e.asked >= 0 && now-e.asked > 2*shaky:
		return now
	}
	return e.empty
}

// rest reads nothing for a while.
func (e *end) rest(d time.Duration) {
	e.rests.Store(int64(e.now() + d))
}

// take checks a message, and answers it.
func (e *end) take(msg []byte, id uint64) {
	e.count(func(c *counts) { c.Read++ })
	if ended, _ := e.ended(); ended {
		e.fail("%v: a message comes after the end", e)
	}
	if e.served {
		began := e.now()
		defer func() { e.stalls[e.home].spent.Add(int64(e.now() - began)) }()
		if d := e.stall(e.home); d > 0 {
			time.Sleep(d)
		}
	}
	m, intact := parseMessage(msg)
	if !intact {
		e.count(func(c *counts) { c.Corrupt++ })
		if e.flow.promises.exact {
			e.fail("%v: a message of %d bytes is not as it was written", e, len(msg))
		}
		return
	}
	s := e.sight(m.flow)
	if s == nil {
		if e.flow.promises.exact { // a forger may have seen it elsewhere
			e.fail("%v: a message of flow %d, which is of other hosts", e, m.flow)
		}
		return
	}
	if !s.flow.arrived(m.n) {
		e.fail("%v: message %d of %v, which was not written yet", e, m.n, s.flow)
		return
	}
	e.check(s, m.n)
	switch {
	case m.answer == 0:
		e.answered.Store(int64(e.now()))
		e.answers.Add(1)
	default:
		began := e.now()
		e.write(m.answer, 0)
		s.flow.hold(e.now() - began)
	}
}

// check checks the order of messages, and that none comes twice.
func (e *end) check(s *sight, n uint32) {
	p := s.flow.promises
	for int(n/64) >= len(s.bits) {
		s.bits = append(s.bits, 0)
	}
	word, bit := &s.bits[n/64], uint64(1)<<(n%64)
	if *word&bit != 0 && p.once && p.exact && (p.turn == 0 || s.flow.recent() < p.turn && !s.flow.opening(n)) {
		e.fail("%v: message %d of %v, written at %v, came twice", e, n, s.flow, s.flow.writtenAt(n))
	}
	*word |= bit
	if p.ordered && p.exact && n < s.next {
		e.fail("%v: message %d of %v after %d", e, n, s.flow, s.next-1)
	}
	if p.reliable && p.exact && n > s.next {
		e.fail("%v: message %d of %v after %d: some are missing", e, n, s.flow, int(s.next)-1)
	}
	s.next = max(s.next, n+1)
}

// sight returns the one of a flow, or nil if no such flow leads here.
func (e *end) sight(number uint32) *sight {
	s := e.seen[number]
	if s == nil {
		f := e.find(number)
		if f == nil || f.from != e.peer || f.to != e.home {
			return nil
		}
		s = &sight{flow: f}
		e.seen[number] = s
	}
	return s
}

// write writes a message, if the connection is there.
func (e *end) write(size, answer int) error {
	err := e.flow.write(min(size, largestSize, e.link.max()), min(answer, largestSize, e.link.max()), func(msg []byte) (uint64, error) {
		began := e.now()
		id, err := e.link.write(msg)
		if took := e.now() - began; took > e.slowest {
			e.fail("%v: a write takes %v", e, took)
		}
		return id, err
	})
	if err != nil && strings.Contains(err.Error(), "too large") {
		e.fail("%v: a message of %d bytes of %d is too large: %v", e, size, e.link.max(), err)
	}
	return err
}

// channel returns the end of one of the channels of the connection.
func (e *end) channel(n int) *end {
	if n %= len(e.others) + 1; n > 0 {
		return e.others[n-1]
	}
	return e
}

// collect collects fates until all are known.
func (e *end) collect() {
	defer close(e.settled)
	for e.link.fates(e.flow.decide) == nil {
	}
	e.flow.settle()
}

// over reports whether this side has closed the connection, and whether it did so before the end.
func (e *end) over() (closed, quit bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.closed, e.quit
}

// ended reports whether the reader has ended, and why.
func (e *end) ended() (bool, error) {
	select {
	case <-e.done:
		return true, e.err
	default:
		return false, nil
	}
}

// close closes the connection. What nobody has read is dropped.
func (e *end) close() {
	ended, _ := e.ended()
	e.mu.Lock()
	first := !e.closed
	e.closed, e.quit = true, e.quit || first && !ended
	since := e.emptyLocked()
	e.mu.Unlock()
	if !first {
		return
	}
	pin, grace := e.link.pin()
	grace += e.plan.release()
	if e.plan.troubled(e.home, e.peer, e.now()-lag, e.now()+lag) {
		grace += 2 * lag
	}
	e.trace("%v closes", e)
	e.noteClose(e.home, e.peer)
	e.flow.leave()
	for _, other := range e.others {
		other.flow.leave()
	}
	if l, ok := e.link.(*volleyLink); ok {
		e.count(func(c *counts) { c.Refused += l.Stats().MessagesRefused })
	}
	if c := sessionOf(e.link); c != nil && e.dialed {
		e.count(func(n *counts) { n.Moved += uint64(c.Stats().Moves) })
	}
	e.link.close() // the error is that of the socket, which may be gone
	if !ended {
		e.drop(e.home, e.peer, since)
	}
	e.forget(pin, grace, e.String())
}

func (e *end) String() string { return e.flow.String() }
