package datagram

import (
	"errors"
	"os"
	"time"
)

// sleepAfter is the silence after which the goroutine ends: it serves flows, not keepalives.
const sleepAfter = 200 * time.Millisecond

// start has packets read as they come.
func (t *turns) start() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.turn == unstarted {
		t.sleepLocked()
	}
}

// run is the goroutine that reads while no caller of the application's does.
func (t *turns) run() {
	defer t.leave()
	t.readsBehind = true
	t.settled()
	for {
		err := serve(t.sock, t.handle)
		if t.closed.Load() || t.isOver() || t.yielded() || t.isPolled() {
			return
		}
		if errors.Is(err, os.ErrDeadlineExceeded) && t.steps != nil {
			if t.idle() {
				return
			}
			continue
		}
		pause, again := t.backoff.failed(err)
		if !again {
			t.stop()
			t.owner.handleBroken(err)
			return
		}
		t.owner.handleError(err)
		time.Sleep(pause)
	}
}

// stop notes that the socket broke.
func (t *turns) stop() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.turn = over
}

func (t *turns) isOver() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.turn == over
}

// linger ends reading except for packets that the socket tells of, so that no goroutine waits.
func (t *turns) linger() {
	t.mu.Lock()
	defer t.mu.Unlock()
	features := t.sock.Features()
	switch {
	case t.sleeps || t.turn == over || t.turn == polled || t.closed.Load():
	case features.Notifier != nil:
		t.sleeps = true
		if t.turn == behind {
			t.setDeadlineLocked(t.now().Add(sleepAfter))
		}
	case features.Deadline != nil:
		t.turn = over
		t.forgetLocked()
		features.Deadline.SetReadDeadline(past)
	}
}

// readBehindLocked starts the goroutine.
func (t *turns) readBehindLocked() {
	if t.closed.Load() {
		return
	}
	t.turn = behind
	switch {
	case t.sleeps:
		t.setDeadlineLocked(t.now().Add(sleepAfter))
	case t.steps != nil:
		t.setDeadlineLocked(time.Time{})
	}
	go t.run()
}

// sleepLocked starts the goroutine at the next packet.
func (t *turns) sleepLocked() {
	if t.closed.Load() {
		return
	}
	if !t.sleeps || t.sock.Features().Notifier.WakeOnPacket(t) != nil {
		t.readBehindLocked()
		return
	}
	t.turn = asleep
}

// WakeUp implements socket.Sleeper.
func (t *turns) WakeUp() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.turn == asleep {
		t.readBehindLocked()
	}
}

// idle ends the goroutine at its deadline if there were no packets for a while.
func (t *turns) idle() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	deadline := t.deadline // or an interruption came late, or the application set one
	if t.sleeps && t.turn == behind {
		if deadline = t.seen + sleepAfter; time.Since(t.timers.base) >= deadline {
			t.sleepLocked()
			return true
		}
	}
	t.deadline = deadline
	t.steps.SetReadDeadline(t.at(deadline))
	return false
}

// yielded ends the goroutine if it has to make place, for one caller and no more.
func (t *turns) yielded() bool {
	t.mu.Lock()
	if t.turn != yielding || t.closed.Load() {
		t.mu.Unlock()
		return false
	}
	t.setDeadlineLocked(time.Time{})
	readers := t.readers
	yield := t.mayReadLocked() && t.callersLocked() <= 1
	if yield {
		t.turn = vacant
		t.left = time.Since(t.timers.base)
		t.watchLocked()
	} else {
		t.turn = behind
	}
	t.mu.Unlock()
	if yield {
		readers.Kick()
	}
	return yield
}

func (t *turns) watchLocked() {
	if !t.watching {
		t.watching = true
		t.timers.schedule(&t.watch, t.timers.base.Add(t.left+inlinePatience))
	}
}

// A watcher is a turns as its alarm sees it.
type watcher turns

// tick starts the goroutine if nobody has read for a while. end starts the watch again.
func (w *watcher) tick(now time.Time) time.Time {
	t := (*turns)(w)
	t.settled()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.watching = false
	switch {
	case t.closed.Load() || t.turn != vacant:
		return time.Time{}
	case now.Sub(t.timers.base)-t.left < inlinePatience:
		t.watching = true
		return t.timers.base.Add(t.left + inlinePatience)
	}
	t.sleepLocked()
	return time.Time{}
}
