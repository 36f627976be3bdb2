package outbox

import (
	"time"

	"volley/internal/datagram"
	"volley/internal/deadline"
	"volley/internal/wire"
)

// A Gathered is what Gather has done with a message.
type Gathered uint8

const (
	// Refused: nothing, there was an error, or the message was empty.
	Refused Gathered = iota
	// Framed: the message is in the caller's batch, and the caller is busy: it
	// calls SentUnlocking when the batch has left.
	Framed
	// Queued: it leaves with what is pending.
	Queued
	// Blocked: nothing, since it would have to wait; WriteUnlocking does.
	Blocked
)

// Gather is WriteUnlocking for a pass over many connections. It keeps the lock.
func (o *Outbox) Gather(f Framer, now time.Duration, msg []byte, out *wire.Batch) (id uint64, how Gathered, err error) {
	if err := o.Check(); err != nil || len(msg) == 0 {
		return 0, Refused, err
	}
	switch how = o.place(); how {
	case Queued:
		id, err = o.enqueue(f, now, msg)
	case Framed:
		id, err = f.Frame(now, msg, out)
		o.busy = err == nil
	}
	if err != nil {
		how = Refused
	}
	return id, how, err
}

// Begin is Gather for a caller that frames: Framed makes it busy, after Queued it calls Take.
func (o *Outbox) Begin() Gathered {
	how := o.place()
	o.busy = o.busy || how == Framed
	return how
}

// place returns where a message goes now.
func (o *Outbox) place() Gathered {
	switch {
	case o.mustWait() || o.Full():
		return Blocked
	case o.busy || o.pending != nil: // somebody sends that, or is about to
		return Queued
	}
	return Framed
}

// SentUnlocking ends what Gather has begun: unsent found no room, and err ends the
// connection. It sends that and what has come meanwhile once. A goroutine goes on with the
// rest, since a flood would never end.
func (o *Outbox) SentUnlocking(unsent *wire.Batch, err error, d *deadline.Deadline) {
	if unsent != nil {
		o.putBack(unsent, 0)
		o.taken = true
	}
	if err != nil && o.failure == nil {
		failure := err // only this one is to be allocated
		o.failure = &failure
	}
	if o.more() && (!o.sendPendingUnlocking(d) || o.more()) {
		o.flushSoon()
	}
	o.taken = o.taken && o.pending != nil
	o.busy = false
	o.notify()
}

// TakeFailure returns the error of what was sent for others, once; nil for none.
func (o *Outbox) TakeFailure() error {
	if o.failure == nil {
		return nil
	}
	return o.takeFailure()
}

func (o *Outbox) enqueue(f Framer, now time.Duration, msg []byte) (id uint64, err error) {
	first := o.pending == nil
	id, err = f.Frame(now, msg, o.Batch(now))
	if err != nil {
		if first {
			datagram.PutBatch(o.pending)
			o.pending = nil
		}
		return 0, err
	}
	o.taken = true
	return id, nil
}
