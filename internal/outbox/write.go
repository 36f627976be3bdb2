package outbox

import (
	"os"
	"time"

	"volley/internal/datagram"
	"volley/internal/wire"
)

// A Framer turns messages into datagrams. Its methods are called with the lock
// of the Outbox held.
type Framer interface {
	// Check returns why a message cannot be written, such as its size: what Frame
	// would return.
	Check(msg []byte) error
	// Frame appends the datagrams of a message to out, and returns its number, if
	// messages have some. After an error nothing has been appended. The time is
	// that since the connection was made.
	Frame(now time.Duration, msg []byte, out *wire.Batch) (id uint64, err error)
	// RestUnlocking is called in a flood after a full queue has left, and may
	// let go of the lock and wait a moment.
	RestUnlocking(now time.Duration)
}

// WriteUnlocking sends a message of a connection made at born. An empty one is not sent.
func (o *Outbox) WriteUnlocking(f Framer, born time.Time, msg []byte) (id uint64, err error) {
	if err := o.Check(); err != nil || len(msg) == 0 {
		return 0, err
	}
	if o.mustWait() {
		return o.writeWaitingUnlocking(f, born, msg)
	}
	if p := o.pending; p != nil && !o.Full() && o.flood.Skip() {
		// As nearly always in a flood: somebody is about to send the queue.
		if id, err = f.Frame(o.looked, msg, p); err == nil {
			o.taken = true
		}
		return id, err
	}
	now, flood := o.timeOfWrite(born)
	if o.busy || flood || o.Full() {
		return o.queueUnlocking(f, born, now, msg)
	}
	return o.writeNowUnlocking(f, now, msg)
}

// timeOfWrite returns the time of a Write and whether it is one of a flood.
func (o *Outbox) timeOfWrite(born time.Time) (now time.Duration, flood bool) {
	if o.pending != nil && o.flood.Skip() {
		return o.looked, true
	}
	now = time.Since(born)
	gap := now - o.looked
	o.looked = now
	return now, o.flood.Note(gap)
}

// writeNowUnlocking sends a message in the caller, behind what is pending.
func (o *Outbox) writeNowUnlocking(f Framer, now time.Duration, msg []byte) (id uint64, err error) {
	o.busy = true
	if o.pending == nil {
		id, err = o.sendOneUnlocking(f, now, msg)
	} else if id, err = f.Frame(now, msg, o.pending); err == nil {
		o.taken = true
	}
	o.ReleaseUnlocking(&o.deadline)
	return id, err
}

// sendOneUnlocking frames and transmits a message; the caller is busy, and nothing is pending.
func (o *Outbox) sendOneUnlocking(f Framer, now time.Duration, msg []byte) (id uint64, err error) {
	out := datagram.GetBatch()
	if id, err = f.Frame(now, msg, out); err == nil {
		_, err = o.TransmitUnlocking(out, &o.deadline)
	}
	datagram.PutBatch(out)
	return id, err
}

// queueUnlocking frames into the queue, starts its goroutine, or empties a full or old one.
func (o *Outbox) queueUnlocking(f Framer, born time.Time, now time.Duration, msg []byte) (uint64, error) {
	for o.Full() {
		var err error
		if o.busy {
			err = o.waitUnlocking(&o.deadline)
		} else {
			o.busy = true
			o.ReleaseUnlocking(&o.deadline)
			f.RestUnlocking(now)
			err = o.Check() // the connection may have ended meanwhile
		}
		if err != nil {
			return 0, err
		}
		now = time.Since(born)
	}
	first := o.pending == nil
	id, err := o.enqueue(f, now, msg)
	if err != nil {
		return 0, err
	}
	switch {
	case o.busy:
	case first:
		o.flushSoon()
	case now-o.oldest > maxAge:
		o.busy = true
		o.ReleaseUnlocking(&o.deadline)
	}
	if !o.Full() {
		o.notify()
	}
	return id, nil
}

// writeWaitingUnlocking waits for room, one Write at a time. Receiving does not wait.
func (o *Outbox) writeWaitingUnlocking(f Framer, born time.Time, msg []byte) (id uint64, err error) {
	if err := f.Check(msg); err != nil {
		return 0, err
	}
	o.mu.Unlock()
	passed := o.deadline.Arm()
	mine := false
	select {
	case <-o.extra.turn:
		mine = true
		err = o.Below.WaitWritable(len(msg), passed)
	case <-passed:
		err = os.ErrDeadlineExceeded
	}
	o.deadline.Disarm()
	o.mu.Lock()
	if mine {
		defer func() { o.extra.turn <- struct{}{} }()
	}
	if o.err != nil || err != nil {
		if e := o.Check(); e != nil {
			err = e
		}
		return 0, err
	}
	if err := o.AcquireUnlocking(&o.deadline); err != nil {
		return 0, err
	}
	defer o.ReleaseUnlocking(&o.deadline)
	if err := o.ClearUnlocking(&o.deadline); err != nil {
		return 0, err
	}
	return o.sendOneUnlocking(f, time.Since(born), msg)
}

// WriteBatchUnlocking sends messages in few system calls, and returns how many are done with
// when all have left, or the error that stopped it. An empty one counts, but is not sent.
// ids, unless nil, get the numbers.
func (o *Outbox) WriteBatchUnlocking(f Framer, born time.Time, ids []uint64, msgs [][]byte) (n int, err error) {
	if o.mustWait() {
		for n < len(msgs) {
			id, err := o.WriteUnlocking(f, born, msgs[n])
			if ids != nil {
				ids[n] = id
			}
			if err != nil {
				return n, err
			}
			n++
		}
		return n, nil
	}
	if err := o.AcquireUnlocking(&o.deadline); err != nil {
		return 0, err
	}
	n, sent, err := o.frameAllUnlocking(f, born, ids, msgs)
	o.ReleaseUnlocking(&o.deadline)
	if err == nil && o.failure != nil {
		return sent, o.takeFailure()
	}
	return n, err
}

// frameAllUnlocking frames messages and sends full queues. Of n, those before sent have left.
func (o *Outbox) frameAllUnlocking(f Framer, born time.Time, ids []uint64, msgs [][]byte) (n, sent int, err error) {
	now := time.Since(born)
	for n < len(msgs) {
		if err = o.Check(); err != nil {
			break
		}
		var id uint64
		if len(msgs[n]) > 0 {
			if o.Full() {
				if o.sendPendingUnlocking(&o.deadline) {
					sent = n
					f.RestUnlocking(now)
				}
				now = time.Since(born)
				continue
			}
			if id, err = f.Frame(now, msgs[n], o.Batch(now)); err != nil {
				break
			}
			o.taken = true
		}
		if ids != nil {
			ids[n] = id
		}
		n++
	}
	return n, sent, err
}
