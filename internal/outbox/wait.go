package outbox

import (
	"net"
	"os"

	"volley/internal/deadline"
)

// waitUnlocking waits for a change of busy or pending, or the deadline.
func (o *Outbox) waitUnlocking(d *deadline.Deadline) error {
	free := o.addWaiter()
	o.mu.Unlock()
	passed := d.Arm()
	select {
	case <-free:
	case <-passed:
	}
	d.Disarm()
	o.mu.Lock()
	o.waiters--
	err := o.checkBy(d)
	if err != nil {
		o.notify() // the token may have been for somebody else
	}
	return err
}

func (o *Outbox) addWaiter() <-chan struct{} {
	s := o.rest()
	if s.free == nil {
		s.free = make(chan struct{}, 1)
	}
	o.waiters++
	return s.free
}

// mustWait reports whether the connection below has no room at times.
func (o *Outbox) mustWait() bool { return o.extra != nil && o.extra.turn != nil }

func (o *Outbox) notify() {
	if o.waiters > 0 {
		select {
		case o.extra.free <- struct{}{}:
		default:
		}
	}
}

// WaitUnclogged waits while too many answers are pending, until cancel or the end.
func (o *Outbox) WaitUnclogged(cancel <-chan struct{}) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	for o.clogged.Load() {
		if o.err != nil {
			return net.ErrClosed
		}
		free := o.addWaiter()
		o.mu.Unlock()
		var err error
		select {
		case <-free:
		case <-cancel:
			err = os.ErrDeadlineExceeded
		}
		o.mu.Lock()
		o.waiters--
		o.notify() // it may have been for somebody else
		if err != nil {
			return err
		}
	}
	return nil
}

// Clogged reports whether WaitUnclogged would wait. It needs no lock.
func (o *Outbox) Clogged() bool { return o.clogged.Load() }
