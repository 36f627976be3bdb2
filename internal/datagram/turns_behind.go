package datagram

import (
	"errors"
	"os"
	"time"
)

// sleepAfter is how long no packet may come before the goroutine ends. It is
// there for a flow of ten packets a second, and not for a keepalive now and then.
const sleepAfter = 200 * time.Millisecond

// start has packets read as they come.
func (t *turns) start() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sleepLocked()
}

// run is the goroutine that reads while no caller of the application's does.
func (t *turns) run() {
	for {
		err := serve(t.sock, t.handle)
		if t.owner.isClosed() || t.yielded() {
			return
		}
		if errors.Is(err, os.ErrDeadlineExceeded) && t.inline != nil {
			if t.idle() {
				return
			}
			continue
		}
		if !t.reader.again(err) {
			t.owner.handleBroken(err)
			return
		}
		t.count(err)
	}
}

// readBehindLocked starts the goroutine.
func (t *turns) readBehindLocked() {
	if t.behind || t.owner.isClosed() {
		return
	}
	t.behind, t.yield = true, false
	t.peer, t.readers = nil, nil
	switch {
	case t.wakes:
		t.setDeadlineLocked(t.now().Add(sleepAfter))
	case t.inline != nil:
		t.setDeadlineLocked(time.Time{})
	}
	go t.run()
}

// sleepLocked starts the goroutine at the next packet.
func (t *turns) sleepLocked() {
	if t.owner.isClosed() || t.asleep || t.behind {
		return
	}
	if !t.wakes || t.sock.Features().Notifier.WakeOnPacket(t) != nil {
		t.readBehindLocked()
		return
	}
	t.asleep = true
	t.peer, t.readers = nil, nil
}

// WakeUp implements socket.Sleeper.
func (t *turns) WakeUp() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.asleep {
		t.asleep = false
		t.readBehindLocked()
	}
}

// idle ends the goroutine at its deadline if there were no packets for a while.
func (t *turns) idle() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	at := t.deadline // or an interruption came late, or the application set one
	if t.wakes && !t.yield {
		if at = t.base.Add(t.seen + sleepAfter); !t.now().Before(at) {
			t.behind = false
			t.sleepLocked()
			return true
		}
	}
	t.deadline = at
	t.inline.SetReadDeadline(at)
	return false
}

// yielded ends the goroutine if it was asked to make place, and there still is
// somebody to make place for: one caller and no more, for of several one could
// take the wake-up meant for another, and leave with a message.
func (t *turns) yielded() bool {
	t.mu.Lock()
	yield := t.yield && !t.owner.isClosed()
	readers := t.readers
	if yield {
		t.yield = false
		t.setDeadlineLocked(time.Time{})
		if yield = t.owner.mayRead(t.peer) && !readers.Several(); yield {
			t.behind = false
			t.left = time.Since(t.base)
			t.watchLocked()
		}
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
		t.timers.schedule(&t.watch, t.base.Add(t.left+inlinePatience))
	}
}

// watchTick starts the goroutine if nobody has read for a while. While a caller
// reads it stops watching: end starts again.
func (t *turns) watchTick(now time.Time) time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.watching = false
	switch {
	case t.owner.isClosed() || t.reading || t.behind:
		return time.Time{}
	case now.Sub(t.base)-t.left < inlinePatience:
		t.watching = true
		return t.base.Add(t.left + inlinePatience)
	}
	t.sleepLocked()
	return time.Time{}
}
