// Package serve runs a server's handler on the goroutine that reads the socket:
// no goroutine is woken for a message, and what the handler writes leaves in one
// pass over the socket.
package serve

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	"volley/internal/datagram"
	"volley/internal/outbox"
)

// stale is how long a pass stays open while others write. A handler that blocks
// keeps their messages back for no longer.
const stale = time.Millisecond

// turn is how many messages of a connection the handler is given before those of others. While
// a handler waits, another goroutine may read the socket, so that a connection always has more.
const turn = 64

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
	begun   time.Time   // when it began
	opened  time.Time   // when the pass did; it is sent at times
	late    Late
	pass    datagram.Gathering
}

// put queues a connection, unless it is queued.
func (l *Loop[C]) put(c Conn[C]) {
	if c.Seat().flags.Or(queued)&queued != 0 {
		return
	}
	l.mu.Lock()
	l.ready = append(l.ready, c)
	l.mu.Unlock()
}

func (l *Loop[C]) received(c Conn[C]) {
	l.put(c)
	if l.polled {
		return
	}
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

// Run calls the handler for all connections that are queued, and sends what it
// writes. If the handler runs already, its goroutine does that. For Poll, what comes meanwhile
// waits for the next call: else a client that sends without a pause could hold Poll.
func (l *Loop[C]) Run() {
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
		if l.polled {
			return
		}
	}
}

// passUnlocking serves the connections in spare. If the handler panics, those that are left
// are ready again.
func (l *Loop[C]) passUnlocking() {
	l.mu.Unlock()
	served := 0
	defer func() {
		l.mu.Lock()
		for _, c := range l.spare[served:] {
			c.Seat().flags.Or(queued)
			l.ready = append(l.ready, c)
		}
		clear(l.spare)
	}()
	l.begin()
	defer l.end()
	for ; served < len(l.spare); served++ {
		c := l.spare[served]
		c.Seat().flags.And(^uint32(queued)) // what comes from now on queues it again
		l.deliver(c)
	}
}

// deliver hands messages that wait to the handler, a turn of them, or for Poll as many as waited
// when it began.
func (l *Loop[C]) deliver(c Conn[C]) {
	s := c.Seat()
	messages, bytes := turn, math.MaxInt
	if l.polled {
		messages, bytes = math.MaxInt, c.Waiting()
	}
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
			messages, bytes = messages-1, bytes-len(msg)-1
			if messages == 0 || bytes <= 0 {
				l.put(c)
				return
			}
		}
	}
}

func (l *Loop[C]) begin() {
	l.sending.Lock()
	l.begun = time.Now()
	l.opened = l.begun
	l.open.Store(true)
	l.sending.Unlock()
}

func (l *Loop[C]) end() {
	l.sending.Lock()
	defer l.sending.Unlock()
	l.late = l.late.with(time.Since(l.begun))
	l.open.Store(false)
	l.pass.Flush() // the Senders learn of its error
}

// LateAfter is how long the handler may take for the messages at hand.
const LateAfter = 20 * time.Millisecond

// A Late tells how often the handler took longer than that, and for how long in all.
type Late struct {
	Times uint64
	Total time.Duration
}

func (l Late) with(d time.Duration) Late {
	if d < LateAfter {
		return l
	}
	return Late{l.Times + 1, l.Total + d}
}

// lateness returns how late the handler was, the one that runs included.
func (l *Loop[C]) lateness() Late {
	l.sending.Lock()
	defer l.sending.Unlock()
	if !l.open.Load() {
		return l.late
	}
	return l.late.with(time.Since(l.begun))
}

// join lets the caller write into the pass of the handler that runs, until leave.
func (l *Loop[C]) join() bool {
	if !l.open.Load() {
		return false
	}
	l.sending.Lock()
	if !l.open.Load() {
		l.sending.Unlock()
		return false
	}
	return true
}

// leave ends what join has begun. Now is the time.
func (l *Loop[C]) leave(now time.Time) {
	if now.Sub(l.opened) > stale {
		l.pass.Flush()
		l.opened = now
	}
	l.sending.Unlock()
}

func (l *Loop[C]) flush() {
	if l.join() {
		l.pass.Flush()
		l.sending.Unlock()
	}
}

func (l *Loop[C]) write(gather func(g *datagram.Gathering, now time.Time) outbox.Gathered) bool {
	if !l.join() {
		return false
	}
	now := time.Now()
	defer l.leave(now)
	for range 2 {
		if gather(&l.pass, now) != outbox.Blocked {
			return true
		}
		l.pass.Flush() // it may be blocked by the pass itself
	}
	return false
}
