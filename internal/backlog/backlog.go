// Package backlog is the queue between a listener and the callers of its
// Accept.
package backlog

import (
	"io"
	"net"
	"os"
	"sync"
	"time"

	"volley/internal/deadline"
)

// A Queue holds connections that nobody has accepted yet, up to a limit. It is
// made by New, and safe for concurrent use.
type Queue[C io.Closer] struct {
	conns    chan C
	done     chan struct{}
	deadline deadline.Deadline

	mu     sync.Mutex
	closed bool // nothing goes into conns any more
	err    error
}

// New returns a Queue of up to size connections.
func New[C io.Closer](size int) *Queue[C] {
	return &Queue[C]{conns: make(chan C, size), done: make(chan struct{})}
}

// Full reports whether Push would find no place.
func (q *Queue[C]) Full() bool { return len(q.conns) == cap(q.conns) }

// Push queues c. It returns false if there is no place, or the Queue is closed.
func (q *Queue[C]) Push(c C) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return false
	}
	select {
	case q.conns <- c:
		return true
	default:
		return false
	}
}

// Accept waits for a connection. Its error is what Close was given, or
// os.ErrDeadlineExceeded; both come before what is queued.
func (q *Queue[C]) Accept() (c C, err error) {
	passed := q.deadline.Arm()
	defer q.deadline.Disarm()
	select {
	case <-q.done:
		return c, q.err
	default:
	}
	if q.deadline.Exceeded() {
		return c, os.ErrDeadlineExceeded
	}
	select {
	case c = <-q.conns:
		return c, nil
	case <-passed:
		return c, os.ErrDeadlineExceeded
	case <-q.done:
		return c, q.err
	}
}

// SetDeadline sets the deadline of Accept; the zero time is none. After Close it
// returns net.ErrClosed.
func (q *Queue[C]) SetDeadline(t time.Time) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return net.ErrClosed
	}
	q.deadline.Set(t)
	return nil
}

// Close ends Accept with err (nil: net.ErrClosed) and closes the connections
// that nobody has accepted. Only the first call counts.
func (q *Queue[C]) Close(err error) {
	if err == nil {
		err = net.ErrClosed
	}
	q.mu.Lock()
	if q.closed {
		q.mu.Unlock()
		return
	}
	q.closed, q.err = true, err
	close(q.done)
	q.mu.Unlock()
	for {
		select {
		case c := <-q.conns:
			c.Close()
		default:
			return
		}
	}
}
