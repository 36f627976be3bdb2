package outbox

import (
	"os"
	"time"

	"volley/internal/datagram"
	"volley/internal/deadline"
	"volley/internal/socket"
	"volley/internal/wire"
)

// atOnce is the deadline of those who must not wait for room in a socket: who
// reads, and the timers.
var atOnce = deadline.Passed()

// Patience returns the deadline of those who have none: only the end of the
// connection makes them give up.
func (o *Outbox) Patience() *deadline.Deadline { return &o.rest().giveUp }

// SendFreshUnlocking sends what is pending, unless something was before the
// caller framed: then somebody is about to. It does not wait for room in the
// socket.
func (o *Outbox) SendFreshUnlocking(before bool) {
	if o.pending != nil && !before && !o.busy {
		o.busy = true
		o.ReleaseUnlocking(atOnce)
	}
}

// PumpUnlocking sends what is pending, and what a Refiller adds, unless
// somebody is busy, who does so then. It waits for room in the socket until the
// deadline, or not at all if that is nil; then a goroutine goes on.
func (o *Outbox) PumpUnlocking(d *deadline.Deadline) {
	if o.busy {
		return
	}
	if d == nil {
		d = atOnce
	}
	o.busy = true
	o.ReleaseUnlocking(d)
}

// PumpSoon is PumpUnlocking on a goroutine of its own, for what a Refiller holds
// back for the sake of what follows. It does not let go of the lock.
func (o *Outbox) PumpSoon() {
	if !o.busy {
		o.flushSoon()
	}
}

// more reports whether there is something to transmit.
func (o *Outbox) more() bool {
	o.trim()
	if o.pending == nil && o.refills {
		o.owner.(Refiller).Refill()
		o.trim()
	}
	return o.pending != nil
}

// trim puts a batch back into which nothing was framed.
func (o *Outbox) trim() {
	if o.pending != nil && o.pending.Len() == 0 {
		datagram.PutBatch(o.pending)
		o.pending = nil
	}
}

// AcquireUnlocking waits until nobody is busy and makes the caller so. Its error
// is that of Check, but by the deadline d.
func (o *Outbox) AcquireUnlocking(d *deadline.Deadline) error {
	if err := o.checkBy(d); err != nil {
		return err
	}
	for o.busy {
		if err := o.waitUnlocking(d); err != nil {
			return err
		}
	}
	o.busy = true
	return nil
}

// ReleaseUnlocking sends what is pending and lets the next sender in; the caller
// is busy. If there is no room for it until the deadline, a goroutine goes on.
func (o *Outbox) ReleaseUnlocking(d *deadline.Deadline) {
	for o.more() {
		if o.sendPendingUnlocking(d) {
			continue
		}
		if o.seldom != nil && d == &o.seldom.giveUp {
			datagram.PutBatch(o.pending)
			o.pending = nil
			o.clogged.Store(false)
			break
		}
		o.flushSoon()
		break
	}
	o.taken = o.taken && o.pending != nil
	o.busy = false
	o.notify()
}

// flushSoon starts flush.
func (o *Outbox) flushSoon() {
	if o.run == nil {
		o.run = o.flush
	}
	go o.run()
}

// flush sends what is pending on a goroutine of its own, unless somebody else
// does already.
func (o *Outbox) flush() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.busy {
		o.busy = true
		o.ReleaseUnlocking(o.Patience())
	}
}

// ClearUnlocking sends what is pending until nothing is; the caller is busy. It
// may frame more before it unlocks, and give that to TransmitUnlocking. The error is the end, or os.ErrDeadlineExceeded.
func (o *Outbox) ClearUnlocking(d *deadline.Deadline) error {
	for o.pending != nil {
		sent := o.sendPendingUnlocking(d)
		switch {
		case o.err != nil:
			return o.Check()
		case !sent:
			return os.ErrDeadlineExceeded
		}
	}
	return nil
}

// TransmitUnlocking sends a batch of the caller's, who is busy and has called
// ClearUnlocking. It returns how many datagrams are done with; if not all, the
// error is os.ErrDeadlineExceeded or the end, and otherwise one that ends the
// connection.
func (o *Outbox) TransmitUnlocking(out *wire.Batch, d *deadline.Deadline) (n int, err error) {
	o.mu.Unlock()
	n, err = o.transmit(out, d)
	o.mu.Lock()
	if err != nil && o.err != nil {
		err = o.Check() // the end has set the deadline, or closed what is below
	}
	return n, err
}

// transmit hands a batch to the layer below, without the lock. The error is one
// that ends the connection, or os.ErrDeadlineExceeded if there was no room for
// the datagrams from n on in time.
func (o *Outbox) transmit(out *wire.Batch, d *deadline.Deadline) (n int, err error) {
	n, err = o.Below.WriteBatchBy(out, d)
	switch {
	case err == nil:
		return n, nil
	case n < out.Len():
		return n, os.ErrDeadlineExceeded
	case socket.IsTransient(err):
		return n, nil
	}
	return n, err
}

// sendPendingUnlocking transmits the queue as it is now; the caller is busy. It
// reports false if there was no room for all of it until the deadline: the rest
// is pending again then, before what has come meanwhile.
func (o *Outbox) sendPendingUnlocking(d *deadline.Deadline) bool {
	out := o.pending
	o.pending = nil
	o.clogged.Store(false)
	o.notify()
	o.mu.Unlock()
	out = o.owner.Arrange(out)
	n, err := o.transmit(out, d)
	o.mu.Lock()
	late := n < out.Len()
	switch {
	case late:
		o.putBack(out, n)
	case err != nil && o.failure == nil:
		failure := err // only this one is to be allocated
		o.failure = &failure
	}
	datagram.PutBatch(out)
	return !late
}

// putBack makes the datagrams of out from n on pending again.
func (o *Outbox) putBack(out *wire.Batch, n int) {
	rest := datagram.GetBatch()
	for ; n < out.Len(); n++ {
		rest.Append(out.At(n))
	}
	if newer := o.pending; newer != nil {
		for i := range newer.Len() {
			rest.Append(newer.At(i))
		}
		datagram.PutBatch(newer)
	}
	o.pending = rest
}

// DrainUnlocking sends what is pending after End, and behind it what last
// frames. Datagrams of Writes that have returned may take up to 100 ms; the
// others leave at once or not at all. It reports false, and does not call last, if somebody
// is still transmitting after that time.
func (o *Outbox) DrainUnlocking(last func()) bool {
	if o.taken {
		o.Patience().Set(time.Now().Add(linger))
	} else {
		o.Patience().Expire()
	}
	var timeout <-chan time.Time
	for o.busy {
		if timeout == nil {
			t := time.NewTimer(linger)
			defer t.Stop()
			timeout = t.C
		}
		free := o.addWaiter()
		o.mu.Unlock()
		late := false
		select {
		case <-free:
		case <-timeout:
			late = true
		}
		o.mu.Lock()
		o.waiters--
		if late {
			return false
		}
	}
	o.busy = true
	last()
	o.ReleaseUnlocking(o.Patience())
	return true
}
