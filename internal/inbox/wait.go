package inbox

import (
	"net"
	"os"
	"runtime"

	"volley/internal/deadline"
)

// Waiting works by channels that hold one token. Who waits says so by a
// counter first and looks again after that, so no wake-up is lost; who was
// woken and leaves work behind passes the token on.

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// ensureWake makes the channel that readers wait for. Who has not called it may
// use that after waiting has been seen above zero.
func (q *Inbox) ensureWake() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.wake == nil {
		q.wake = make(chan struct{}, 1)
	}
}

// Kick wakes one blocked reader, or the next one to block, which looks again
// whether to wait.
func (q *Inbox) Kick() {
	q.ensureWake()
	signal(q.wake)
}

// Callers returns how many callers of Read found no message: they are blocked,
// about to be, in the Poller or about to return.
func (q *Inbox) Callers() int { return int(q.callers.Load()) }

// Interrupt tells the blocked readers that the deadline has changed. It must be
// called after each change.
func (q *Inbox) Interrupt() {
	if q.poller != nil {
		q.poller.InterruptInline(q)
	}
	if q.waiting.Load() > 0 {
		signal(q.wake)
	}
}

// wait blocks until there may be a message, or the end.
func (q *Inbox) wait(d *deadline.Deadline) error {
	q.ensureWake()
	q.waiting.Add(1)
	defer q.leave(d)
	if q.ready() {
		return nil
	}
	if q.waitTimeless(d) {
		return nil
	}
	passed := d.Arm()
	defer d.Disarm()
	select {
	case <-q.wake:
		return nil
	case <-passed:
		return os.ErrDeadlineExceeded
	}
}

// waitTimeless waits without a deadline, which saves memory, if there is none.
func (q *Inbox) waitTimeless(d *deadline.Deadline) bool {
	q.timeless.Add(1)
	defer q.timeless.Add(-1)
	if d.IsSet() {
		return false
	}
	<-q.wake
	return true
}

// leave ends a wait. Another waiter may have to look at what is there, at the
// end, which concerns all of them, or at a new deadline.
func (q *Inbox) leave(d *deadline.Deadline) {
	if q.waiting.Add(-1) == 0 {
		return
	}
	switch {
	case q.timeless.Load() > 0 && d.IsSet():
		signal(q.wake)
		runtime.Gosched() // or else this one may take the token again and again, before the other runs
	case q.ready():
		signal(q.wake)
	}
}

// ready reports whether a reader has something to do. Both sides are looked
// at under their locks, so that a queue on its way to the consumer's side is not
// overlooked.
func (q *Inbox) ready() bool {
	q.readMu.Lock()
	defer q.readMu.Unlock()
	if q.out != nil {
		return true
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.head != nil || q.end != nil || q.noticed
}

// HasRoom reports whether a message of n bytes would be taken.
func (q *Inbox) HasRoom(n int) bool {
	return q.used.Load()+int64(int(q.front)+n) <= q.limit
}

// takes is HasRoom, but an empty inbox is as much room as there ever is.
func (q *Inbox) takes(n int) bool { return q.HasRoom(n) || q.used.Load() == 0 }

// A room is for those who want room.
type room struct {
	wake chan struct{} // one token, for WaitRoom
	n    int           // what OnRoom was given
	f    func()        // nil: it has been called
}

// roomLocked returns q.rooms, which it makes if need be.
func (q *Inbox) roomLocked() *room {
	if q.rooms == nil {
		q.rooms = &room{wake: make(chan struct{}, 1)}
	}
	return q.rooms
}

// OnRoom has f called once, as soon as a message of n bytes will be taken or the
// inbox has ended: at once, or by whoever makes room, which is mostly a caller of
// Read. F must not block. A later call of OnRoom takes the place of an earlier
// one, and a nil f takes that back, unless the call is under way. As with
// WaitRoom, the memory may still be refused by the function of Init. OnRoom must
// not be called between Lock and Unlock.
func (q *Inbox) OnRoom(n int, f func()) {
	q.mu.Lock()
	r := q.roomLocked()
	switch {
	case r.f == nil && f != nil:
		q.roomers.Add(1)
	case r.f != nil && f == nil:
		q.roomers.Add(-1)
	}
	r.n, r.f = n, f
	q.mu.Unlock()
	q.tellRoom()
}

// tellRoom calls or wakes those who want room, if there is any.
func (q *Inbox) tellRoom() {
	q.mu.Lock()
	r := q.rooms
	var f func()
	if r != nil && r.f != nil && (q.end != nil || q.takes(r.n)) {
		f, r.f = r.f, nil
		q.roomers.Add(-1)
	}
	q.mu.Unlock()
	if r != nil {
		signal(r.wake)
	}
	if f != nil {
		f()
	}
}

// WaitRoom waits until a message of n bytes will be taken. It serves one
// waiter at a time, who must be the only source of messages. It returns
// os.ErrDeadlineExceeded when cancel is closed first, and net.ErrClosed if the
// inbox has ended.
func (q *Inbox) WaitRoom(n int, cancel <-chan struct{}) error {
	q.mu.Lock()
	r := q.roomLocked()
	q.mu.Unlock()
	q.roomers.Add(1)
	defer q.roomers.Add(-1)
	for {
		q.mu.Lock()
		end := q.end
		q.mu.Unlock()
		if end != nil {
			return net.ErrClosed
		}
		if q.takes(n) {
			return nil
		}
		select {
		case <-r.wake:
		case <-cancel:
			return os.ErrDeadlineExceeded
		}
	}
}
