// Package deadline implements net.Conn deadlines that cost nothing while no
// call is blocked.
package deadline

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// A Deadline is an absolute time after which calls fail. Setting and checking
// it arms no timer: a call that is about to block arms it with [Deadline.Arm],
// and takes part in every later Set. The zero value is a deadline that never
// passes, and takes no memory but its own. A Deadline is safe for concurrent
// use.
type Deadline struct {
	p atomic.Pointer[state] // nil until it is set or armed
}

type state struct {
	set atomic.Bool // whether at is non-zero or follows, so that Exceeded is cheap without one

	follows bool // constant: another deadline sets this one

	mu      sync.Mutex
	at      time.Time
	waiters int
	timer   *time.Timer
	passed  chan struct{} // closed when the deadline passes; nil until a call blocked
	closed  bool          // whether passed is closed

	followers []*Deadline
}

// state returns d's state, which it makes if there is none.
func (d *Deadline) state() *state {
	if s := d.p.Load(); s != nil {
		return s
	}
	d.p.CompareAndSwap(nil, new(state))
	return d.p.Load()
}

// Set changes the deadline, zero for none, with a monotonic reading from now.
func (d *Deadline) Set(t time.Time) {
	if t.IsZero() && d.p.Load() == nil {
		return
	}
	if !t.IsZero() {
		now := time.Now()
		t = now.Add(t.Sub(now))
	}
	s := d.state()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.at = t
	s.set.Store(!t.IsZero() || s.follows)
	for _, f := range s.followers {
		f.Set(t)
	}
	if s.closed {
		s.passed, s.closed = nil, false
	}
	if s.waiters > 0 {
		s.armLocked()
	}
}

// longAgo has passed on every clock.
var longAgo = time.Unix(1, 0)

var gone Deadline

func init() {
	gone.Expire()
	gone.Arm() // makes its channel here, and not within somebody's synctest bubble
	gone.Disarm()
}

// Passed returns a shared deadline that has passed. It must not be set.
func Passed() *Deadline { return &gone }

// Expire sets the deadline to a time that has passed, which wakes every blocked call.
func (d *Deadline) Expire() { d.Set(longAgo) }

// Within returns a deadline that passes with d, or when ctx ends, until stop is called.
func (d *Deadline) Within(ctx context.Context, wake func()) (follower *Deadline, stop func()) {
	s, f := d.state(), &state{follows: true}
	f.set.Store(true)
	follower = new(Deadline)
	follower.p.Store(f)
	s.mu.Lock()
	f.at = s.at
	s.followers = append(s.followers, follower)
	s.mu.Unlock()
	leave := func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.followers = slices.DeleteFunc(s.followers, func(x *Deadline) bool { return x == follower })
	}
	unregister := context.AfterFunc(ctx, func() {
		leave()
		follower.Expire()
		wake()
	})
	return follower, func() { unregister(); leave() }
}

// IsSet reports whether there may be a deadline, passed or not.
func (d *Deadline) IsSet() bool {
	s := d.p.Load()
	return s != nil && s.set.Load()
}

// At returns the deadline; the zero time is none.
func (d *Deadline) At() time.Time {
	if !d.IsSet() {
		return time.Time{}
	}
	s := d.state()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.at
}

// Exceeded reports whether the deadline has passed.
func (d *Deadline) Exceeded() bool { return d.IsSet() && d.exceeded() }

func (d *Deadline) exceeded() bool {
	at := d.At()
	return !at.IsZero() && time.Until(at) <= 0
}

// Arm returns a channel that closes when the deadline passes. Disarm must follow.
func (d *Deadline) Arm() <-chan struct{} {
	s := d.state()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiters++
	s.armLocked()
	return s.passed
}

// Disarm ends the wait begun by Arm.
func (d *Deadline) Disarm() {
	s := d.state()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiters--
	if s.waiters == 0 && s.timer != nil {
		s.timer.Stop()
	}
}

func (s *state) armLocked() {
	if s.passed == nil {
		s.passed = make(chan struct{})
	}
	if s.timer != nil {
		s.timer.Stop()
	}
	if s.at.IsZero() || s.closed {
		return
	}
	wait := time.Until(s.at)
	switch {
	case wait <= 0:
		s.expireLocked()
	case s.timer == nil:
		s.timer = time.AfterFunc(wait, s.fire)
	default:
		s.timer.Reset(wait)
	}
}

// fire runs on the timer's goroutine, perhaps late: only the present deadline counts.
func (s *state) fire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waiters == 0 || s.at.IsZero() || s.closed {
		return
	}
	if wait := time.Until(s.at); wait > 0 {
		s.timer.Reset(wait)
		return
	}
	s.expireLocked()
}

func (s *state) expireLocked() {
	if !s.closed {
		close(s.passed)
		s.closed = true
	}
}
