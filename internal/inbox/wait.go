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

// ensureWake makes the readers' channel. Others may use it once waiting is above zero.
func (q *Inbox) ensureWake() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.wake == nil {
		q.wake = make(chan struct{}, 1)
	}
}

// Kick wakes one blocked reader, or the next to block, to look whether to wait.
func (q *Inbox) Kick() {
	q.ensureWake()
	signal(q.wake)
}

// Callers counts the callers of Read without a message, blocked, in the Poller or leaving.
func (q *Inbox) Callers() int { return int(q.callers.Load()) }

// Interrupt tells blocked readers of a changed deadline. Each change needs it.
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

// leave ends a wait, and wakes another waiter, which may have to look.
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

// ready reports whether a reader has something to do, under both locks.
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

// tellRoom wakes WaitRoom, if that has ever been called.
func (q *Inbox) tellRoom() {
	q.mu.Lock()
	wake := q.roomWake
	q.mu.Unlock()
	if wake != nil {
		signal(wake)
	}
}

// WaitRoom waits until a message of n bytes will be taken, for one waiter, which must be the
// only source. It returns os.ErrDeadlineExceeded if cancel closes first, and net.ErrClosed
// at the end.
func (q *Inbox) WaitRoom(n int, cancel <-chan struct{}) error {
	q.mu.Lock()
	if q.roomWake == nil {
		q.roomWake = make(chan struct{}, 1)
	}
	wake := q.roomWake
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
		case <-wake:
		case <-cancel:
			return os.ErrDeadlineExceeded
		}
	}
}
