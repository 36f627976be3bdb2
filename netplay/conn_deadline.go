package netplay

import (
	"context"
	"sync"
	"time"
)

// past is a deadline that has passed, on any clock.
var past = time.Unix(1, 0)

// A deadline is what a connection below is told of three: the user's, one of
// our own, and that of a context which has ended.
type deadline struct {
	apply func(time.Time) error // of the connection below

	mu       sync.Mutex
	user     time.Time
	own      time.Time
	canceled bool // a context has ended
	poked    bool // whoever reads is needed elsewhere
	closed   bool
}

// set sets the user's deadline.
func (d *deadline) set(t time.Time) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.user = t
	return d.apply(d.effective())
}

// setOwn sets our own deadline.
func (d *deadline) setOwn(t time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if t.Equal(d.own) {
		return
	}
	d.own = t
	d.apply(d.effective())
}

// effective returns the earliest deadline.
func (d *deadline) effective() time.Time {
	switch {
	case d.canceled || d.poked || d.closed:
		return past
	case d.user.IsZero() || !d.own.IsZero() && d.own.Before(d.user):
		return d.own
	}
	return d.user
}

// poke has calls fail until it is called again with false.
func (d *deadline) poke(on bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.poked = on
	d.apply(d.effective())
}

// wake has all calls fail, now and later.
func (d *deadline) wake() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	d.apply(d.effective())
}

// watch has calls fail once ctx ends, until the returned function is called.
func (d *deadline) watch(ctx context.Context) (stop func()) {
	if ctx.Done() == nil {
		return func() {}
	}
	done := make(chan struct{})
	unregister := context.AfterFunc(ctx, func() {
		defer close(done)
		d.mu.Lock()
		defer d.mu.Unlock()
		d.canceled = true
		d.apply(d.effective())
	})
	return func() {
		if unregister() {
			return
		}
		<-done
		d.mu.Lock()
		defer d.mu.Unlock()
		d.canceled = false
		d.apply(d.effective())
	}
}

// userExpired reports whether the user's deadline is over.
func (d *deadline) userExpired() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return !d.user.IsZero() && !time.Now().Before(d.user)
}

// A gate lets one through at a time. Unlike a mutex, waiting for it can be
// given up, and is durable in the bubbles of testing/synctest.
type gate chan struct{}

func newGate() gate { return make(gate, 1) }

// enter waits for its turn, until ctx or the connection ends.
func (g gate) enter(ctx context.Context, c *Conn) error {
	select {
	case g <- struct{}{}:
		return nil
	default:
	}
	select {
	case g <- struct{}{}:
		return nil
	case <-c.closed:
		return c.endCause()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (g gate) leave() { <-g }
