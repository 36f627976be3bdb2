package outbox

import (
	"os"
	"time"

	"volley/internal/datagram"
	"volley/internal/deadline"
	"volley/internal/socket"
	"volley/internal/wire"
)

// atOnce is the deadline of the reader and of timers, which never wait for room.
var atOnce = deadline.Passed()

// Patience returns a deadline that never passes: only the connection's end stops a wait.
func (o *Outbox) Patience() *deadline.Deadline { return &o.rest().giveUp }

// SendFreshUnlocking sends what is pending, unless somebody is about to.
func (o *Outbox) SendFreshUnlocking(before bool) {
	if o.pending != nil && !before && !o.busy {
		o.busy = true
		o.ReleaseUnlocking(atOnce)
	}
}

// PumpUnlocking sends what is pending and a Refiller's, until the deadline, or by a goroutine.
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

// PumpSoon is PumpUnlocking on its own goroutine, for what a Refiller holds back.
func (o *Outbox) PumpSoon() {
	if !o.busy {
		o.flushSoon()
	}
}

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

// AcquireUnlocking waits until nobody is busy, and takes the turn. Its error is Check's, by d.
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

// ReleaseUnlocking sends what is pending and ends the caller's turn, or leaves a goroutine.
func (o *Outbox) ReleaseUnlocking(d *deadline.Deadline) {
	for o.more() {
		if o.sendPendingUnlocking(d) {
			continue
		}
		if o.extra != nil && d == &o.extra.giveUp {
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

func (o *Outbox) flushSoon() {
	if o.run == nil {
		o.run = o.flush
	}
	go o.run()
}

// flush sends what is pending on a goroutine of its own, unless somebody else does already.
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

// TransmitUnlocking sends a batch of a busy caller, after ClearUnlocking. It returns how
// many datagrams are done with; if not all, the error is os.ErrDeadlineExceeded or the end.
func (o *Outbox) TransmitUnlocking(out *wire.Batch, d *deadline.Deadline) (n int, err error) {
	o.mu.Unlock()
	n, err = o.transmit(out, d)
	o.mu.Lock()
	if err != nil && o.err != nil {
		err = o.Check() // the end has set the deadline, or closed what is below
	}
	return n, err
}

// transmit hands a batch down without the lock. The error is the end, or no room from n on.
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

// sendPendingUnlocking transmits the queue; the caller is busy. False: the rest found no room.
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

// DrainUnlocking sends what is pending after End, and then what last frames. Datagrams of
// finished Writes may take 100 ms; others leave at once or not at all. False: somebody still
// transmits after that, and last is not called.
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
