// Package serve runs a server's handler on the goroutine that reads the socket:
// no goroutine is woken for a message, and what the handler writes leaves in one
// pass over the socket.
package serve

import (
	"sync"
	"sync/atomic"
	"time"

	"volley/internal/datagram"
)

// stale is how long a pass stays open while others write. A handler that blocks
// keeps their messages back for no longer.
const stale = time.Millisecond

// A Loop serves the connections of one socket.
type Loop[C any] struct {
	handler *Handler[C]
	after   datagram.AfterReader // of the socket; nil: it has none
	polled  bool                 // only Poll runs it
	buf     []byte               // for the message at hand

	mu      sync.Mutex
	ready   []Conn[C]
	running bool
	spare   []Conn[C] // belongs to who runs

	// sending guards the pass. The lock of a connection may be taken inside.
	sending sync.Mutex
	open    atomic.Bool // a handler runs: what is written joins the pass
	opened  time.Time
	pass    datagram.Gathering
}

// put queues a connection, unless it is queued.
func (l *Loop[C]) put(c Conn[C]) {
	if c.Seat().queued.Swap(true) {
		return
	}
	l.mu.Lock()
	l.ready = append(l.ready, c)
	l.mu.Unlock()
}

func (l *Loop[C]) received(c Conn[C]) {
	l.put(c)
	if l.after != nil {
		l.after.AfterRead(l)
	} else {
		l.wake()
	}
}

// wake runs the Loop on a goroutine of its own, because of what no packet brought.
func (l *Loop[C]) wake() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.running && !l.polled && len(l.ready) > 0 {
		go l.Run()
	}
}

// Run implements datagram.Runner.
func (l *Loop[C]) Run() {
	if !l.polled {
		l.run()
	}
}

// run calls the handler for all connections that are queued, and sends what it
// writes. If the handler runs already, its goroutine does that.
func (l *Loop[C]) run() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.running {
		return
	}
	l.running = true
	defer func() { l.running = false }() // even if the handler panics
	for len(l.ready) > 0 {
		l.ready, l.spare = l.spare[:0], l.ready
		l.passUnlocking()
	}
}

// passUnlocking serves the connections in spare.
func (l *Loop[C]) passUnlocking() {
	l.mu.Unlock()
	defer l.mu.Lock()
	l.begin()
	defer l.end()
	for i, c := range l.spare {
		l.spare[i] = nil
		c.Seat().queued.Store(false) // what comes from now on queues it again
		l.deliver(c)
	}
}

// deliver hands everything that waits to the handler.
func (l *Loop[C]) deliver(c Conn[C]) {
	s := c.Seat()
	if s.phase == waiting {
		s.phase = opened
		if l.handler.Open != nil {
			l.handler.Open(c.Conn())
		}
	}
	for s.phase == opened {
		msg, ok, err := c.Next(l.buf[:0])
		switch {
		case err != nil:
			s.phase = over
			if l.handler.Closed != nil {
				l.handler.Closed(c.Conn(), err)
			}
		case !ok:
			return
		default:
			l.buf = msg
			l.handler.Message(c.Conn(), msg)
		}
	}
}

func (l *Loop[C]) begin() {
	l.sending.Lock()
	l.opened = time.Now()
	l.open.Store(true)
	l.sending.Unlock()
}

func (l *Loop[C]) end() {
	l.sending.Lock()
	defer l.sending.Unlock()
	l.open.Store(false)
	l.pass.Flush() // the Senders learn of its error
}

// Join lets the caller write into the pass of the handler that runs, until Leave.
// It reports false if none runs: then the caller writes as ever.
func (l *Loop[C]) Join() (*datagram.Gathering, bool) {
	if !l.open.Load() {
		return nil, false
	}
	l.sending.Lock()
	if !l.open.Load() {
		l.sending.Unlock()
		return nil, false
	}
	return &l.pass, true
}

// Leave ends what Join has begun. Now is the time.
func (l *Loop[C]) Leave(now time.Time) {
	if now.Sub(l.opened) > stale {
		l.pass.Flush()
		l.opened = now
	}
	l.sending.Unlock()
}
