package netplay

import (
	"context"
	"sync"
	"time"
)

// past is a deadline that has passed, on any clock.
var past = time.Unix(1, 0)

// A deadline merges three: the user's, our own, and that of an ended context.
type deadline struct {
	apply func(time.Time) error // of the connection below

	mu       sync.Mutex
	user     time.Time
	own      time.Time
	canceled bool // a context has ended
	poked    bool // whoever reads is needed elsewhere
	closed   bool
}

// change changes fields of d, and tells the connection below.
func (d *deadline) change(change func()) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	change()
	return d.apply(d.effective())
}

func (d *deadline) set(t time.Time) error { return d.change(func() { d.user = t }) }

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
func (d *deadline) poke(on bool) { d.change(func() { d.poked = on }) }

// watch has calls fail once ctx ends, until the returned function is called.
func (d *deadline) watch(ctx context.Context) (stop func()) {
	if ctx.Done() == nil {
		return func() {}
	}
	done := make(chan struct{})
	unregister := context.AfterFunc(ctx, func() {
		defer close(done)
		d.change(func() { d.canceled = true })
	})
	return func() {
		if unregister() {
			return
		}
		<-done
		d.change(func() { d.canceled = false })
	}
}

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
