package simnet

import (
	"sync"
	"time"
)

// A deadline is a point in time at which waiting operations give up. It can
// be moved at any time, also after it has passed.
type deadline struct {
	mu     sync.Mutex
	at     time.Time     // zero: none
	timer  *time.Timer   // nil until first needed
	passed chan struct{} // closed while the deadline is in the past
}

func newDeadline() *deadline {
	return &deadline{passed: make(chan struct{})}
}

// wait returns a channel that is closed when the deadline passes. A deadline
// set later moves the time, unless the channel has been closed already.
func (d *deadline) wait() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.passed
}

// expired reports whether the deadline has passed. It looks at the clock,
// since a timer may be late.
func (d *deadline) expired() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closeIfPassed()
	return isClosed(d.passed)
}

// set moves the deadline to t; zero means none.
func (d *deadline) set(t time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.timer != nil {
		d.timer.Stop()
	}
	if isClosed(d.passed) {
		d.passed = make(chan struct{})
	}
	d.at = t
	if t.IsZero() || d.closeIfPassed() {
		return
	}
	if d.timer == nil {
		d.timer = time.AfterFunc(time.Until(t), d.fire)
	} else {
		d.timer.Reset(time.Until(t))
	}
}

// fire is called by the timer. It may be late and belong to a time set
// earlier, so it looks at the clock.
func (d *deadline) fire() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closeIfPassed()
}

// closeIfPassed closes the channel if the deadline has passed.
func (d *deadline) closeIfPassed() bool {
	if d.at.IsZero() || time.Now().Before(d.at) {
		return false
	}
	if !isClosed(d.passed) {
		close(d.passed)
	}
	return true
}

// stop ends the timer of a deadline that is no longer used.
func (d *deadline) stop() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.timer != nil {
		d.timer.Stop()
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
