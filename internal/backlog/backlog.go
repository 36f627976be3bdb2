// Package backlog is the queue between a listener and the callers of its
// Accept.
package backlog

import (
	"context"
	"net"
	"os"
	"slices"
	"sync"
	"time"

	"volley/internal/deadline"
)

// A Queue holds connections that nobody has accepted yet, up to a limit. Those
// that have ended meanwhile give way to new ones. It is made by New, and safe
// for concurrent use.
type Queue[C comparable] struct {
	size     int
	drop     func(C) error
	ready    chan struct{} // one token: there may be a connection
	done     chan struct{}
	deadline deadline.Deadline

	mu     sync.Mutex
	conns  []entry[C]
	ended  int  // how many of conns have
	closed bool // nothing goes into conns any more
	err    error
	divert func(C) // what is pushed goes here; nil: it does not
}

type entry[C comparable] struct {
	conn  C
	ended bool
}

// New returns a Queue of up to size connections. It closes by drop those that nobody accepts.
func New[C comparable](size int, drop func(C) error) *Queue[C] {
	return &Queue[C]{size: size, drop: drop, ready: make(chan struct{}, 1), done: make(chan struct{})}
}

// Full reports whether Push would find no place.
func (q *Queue[C]) Full() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.conns)-q.ended >= q.size
}

// Push queues c, perhaps in place of an ended one, or diverts it. False: no place, or closed.
func (q *Queue[C]) Push(c C) bool {
	if take := q.diverted(); take != nil {
		take(c)
		return true
	}
	victim, evict, ok := q.push(c)
	if evict {
		q.drop(victim)
	}
	return ok
}

func (q *Queue[C]) diverted() func(C) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.divert
}

func (q *Queue[C]) push(c C) (victim C, evict, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed || len(q.conns)-q.ended >= q.size {
		return victim, false, false
	}
	if len(q.conns) >= q.size {
		i := slices.IndexFunc(q.conns, func(e entry[C]) bool { return e.ended })
		victim, evict = q.conns[i].conn, true
		q.removeLocked(i)
	}
	q.conns = append(q.conns, entry[C]{conn: c})
	signal(q.ready)
	return victim, evict, true
}

// Ended says that c has ended. In the queue it gives way to one that finds no place.
func (q *Queue[C]) Ended(c C) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if i := q.indexLocked(c); i >= 0 && !q.conns[i].ended {
		q.conns[i].ended = true
		q.ended++
	}
}

// Remove takes c out of the Queue, and reports whether it was there.
func (q *Queue[C]) Remove(c C) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	i := q.indexLocked(c)
	if i >= 0 {
		q.removeLocked(i)
	}
	return i >= 0
}

func (q *Queue[C]) indexLocked(c C) int {
	return slices.IndexFunc(q.conns, func(e entry[C]) bool { return e.conn == c })
}

func (q *Queue[C]) removeLocked(i int) (c C) {
	e := q.conns[i]
	if e.ended {
		q.ended--
	}
	switch {
	case len(q.conns) == 1:
		q.conns = nil
	case i == 0:
		q.conns[0] = entry[C]{}
		q.conns = q.conns[1:]
	default:
		q.conns = slices.Delete(q.conns, i, i+1)
	}
	return e.conn
}

// Accept waits for a connection. Close's error, the deadline and ctx come first.
func (q *Queue[C]) Accept(ctx context.Context) (c C, err error) {
	passed := q.deadline.Arm()
	defer q.deadline.Disarm()
	for {
		c, ok, err := q.take(ctx)
		if ok || err != nil {
			return c, err
		}
		select {
		case <-q.ready:
		case <-passed:
			return c, os.ErrDeadlineExceeded
		case <-ctx.Done():
		case <-q.done:
		}
	}
}

// take is Accept without waiting.
func (q *Queue[C]) take(ctx context.Context) (c C, ok bool, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return c, false, q.err
	}
	if len(q.conns) > 0 {
		signal(q.ready) // for the next one, or if the deadline has passed
	}
	if q.deadline.Exceeded() {
		return c, false, os.ErrDeadlineExceeded
	}
	if ctx.Err() != nil {
		return c, false, context.Cause(ctx)
	}
	if len(q.conns) == 0 {
		return c, false, nil
	}
	return q.removeLocked(0), true, nil
}

// Divert ends Accept with err, and calls take for what is queued, and in place of queueing
// what is pushed. It returns false if the Queue has been closed or diverted before.
func (q *Queue[C]) Divert(err error, take func(C)) bool {
	q.mu.Lock()
	if q.closed {
		q.mu.Unlock()
		return false
	}
	conns := q.endLocked(err)
	q.divert = take
	q.mu.Unlock()
	for _, e := range conns {
		take(e.conn)
	}
	return true
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// SetDeadline sets Accept's deadline; zero is none. After Close it returns net.ErrClosed.
func (q *Queue[C]) SetDeadline(t time.Time) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return net.ErrClosed
	}
	q.deadline.Set(t)
	return nil
}

// Close ends Accept with err or net.ErrClosed, and closes what is queued. The first call counts.
func (q *Queue[C]) Close(err error) {
	if err == nil {
		err = net.ErrClosed
	}
	q.mu.Lock()
	q.divert = nil
	if q.closed {
		q.mu.Unlock()
		return
	}
	conns := q.endLocked(err)
	q.mu.Unlock()
	for _, e := range conns {
		q.drop(e.conn)
	}
}

// endLocked ends Accept, and returns what was queued.
func (q *Queue[C]) endLocked(err error) []entry[C] {
	conns := q.conns
	q.closed, q.err, q.conns, q.ended = true, err, nil, 0
	close(q.done)
	return conns
}
