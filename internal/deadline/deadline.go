// Package deadline implements net.Conn deadlines that cost nothing while no
// call is blocked.
package deadline

import (
	"sync"
	"sync/atomic"
	"time"
)

// A Deadline is an absolute time after which calls fail. Setting and checking
// it arms no timer: a call that is about to block arms it with [Deadline.Arm],
// and takes part in every later Set. The zero value is a deadline that never
// passes. A Deadline is safe for concurrent use.
type Deadline struct {
	set atomic.Bool // whether at is non-zero, so that Exceeded is cheap without one

	mu      sync.Mutex
	at      time.Time
	waiters int
	timer   *time.Timer
	passed  chan struct{} // closed when the deadline passes; nil until a call blocked
	closed  bool          // whether passed is closed
}

// Set changes the deadline; the zero time means none. It applies to blocked
// calls as well. A time without a monotonic clock reading gets one now, so that
// the deadline does not move when the system clock is set.
func (d *Deadline) Set(t time.Time) {
	if !t.IsZero() {
		now := time.Now()
		t = now.Add(t.Sub(now))
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.at = t
	d.set.Store(!t.IsZero())
	if d.closed {
		d.passed, d.closed = nil, false
	}
	if d.waiters > 0 {
		d.armLocked()
	}
}

// At returns the deadline; the zero time is none.
func (d *Deadline) At() time.Time {
	if !d.set.Load() {
		return time.Time{}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.at
}

// Exceeded reports whether the deadline has passed.
func (d *Deadline) Exceeded() bool {
	if !d.set.Load() {
		return false
	}
	d.mu.Lock()
	at := d.at
	d.mu.Unlock()
	return !at.IsZero() && time.Until(at) <= 0
}

// Arm returns a channel that is closed once the deadline passes, which may
// have happened already. Every Arm is followed by one Disarm.
func (d *Deadline) Arm() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.waiters++
	d.armLocked()
	return d.passed
}

// Disarm ends the wait begun by Arm.
func (d *Deadline) Disarm() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.waiters--
	if d.waiters == 0 && d.timer != nil {
		d.timer.Stop()
	}
}

func (d *Deadline) armLocked() {
	if d.passed == nil {
		d.passed = make(chan struct{})
	}
	if d.timer != nil {
		d.timer.Stop()
	}
	if d.at.IsZero() || d.closed {
		return
	}
	wait := time.Until(d.at)
	switch {
	case wait <= 0:
		d.expireLocked()
	case d.timer == nil:
		d.timer = time.AfterFunc(wait, d.fire)
	default:
		d.timer.Reset(wait)
	}
}

// fire runs on the timer's goroutine, perhaps late: only the present deadline
// counts.
func (d *Deadline) fire() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.waiters == 0 || d.at.IsZero() || d.closed {
		return
	}
	if wait := time.Until(d.at); wait > 0 {
		d.timer.Reset(wait)
		return
	}
	d.expireLocked()
}

func (d *Deadline) expireLocked() {
	if !d.closed {
		close(d.passed)
		d.closed = true
	}
}
