package datagram

import (
	"container/heap"
	"sync"
	"time"
)

// timers calls the connections of one transport at the times they asked for.
// One runtime timer serves all of them, and no goroutine waits.
type timers struct {
	mu      sync.Mutex
	heap    alarmHeap
	timer   *time.Timer
	armed   time.Time // when timer fires; zero: it does not
	firing  bool
	stopped bool
	stalled bool // the last firing was late, and did nothing
}

// stallGrace is how late a firing must be to show that the whole process stood
// still, and how long what has arrived meanwhile may take to be read. Until
// then a peer that is there looks as if it had been silent.
const stallGrace = 200 * time.Millisecond

// An alarm is one connection's place among the timers. It is guarded by their
// mutex.
type alarm struct {
	at    time.Time
	index int32 // in the heap, plus one; zero: not in it
	reads bool  // its tick has a socket read
	tick  func(now time.Time) (next time.Time)
}

// schedule makes a go off at the given time or earlier.
func (t *timers) schedule(a *alarm, at time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.scheduleLocked(a, at)
	t.armLocked()
}

func (t *timers) scheduleLocked(a *alarm, at time.Time) {
	switch {
	case t.stopped:
	case a.index == 0:
		a.at = at
		heap.Push(&t.heap, a)
	case at.Before(a.at):
		a.at = at
		heap.Fix(&t.heap, int(a.index)-1)
	}
}

// cancel makes a not go off any more.
func (t *timers) cancel(a *alarm) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if a.index > 0 {
		heap.Remove(&t.heap, int(a.index)-1)
	}
}

// stop cancels all alarms for good.
func (t *timers) stop() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stopped = true
	for _, a := range t.heap {
		a.index = 0
	}
	t.heap = nil
	if t.timer != nil {
		t.timer.Stop()
	}
}

// armLocked sets the runtime timer to the earliest alarm. While alarms go off,
// or the timer has been put off, it waits: fire arms it at its end.
func (t *timers) armLocked() {
	if t.firing || t.stalled || len(t.heap) == 0 {
		return
	}
	at := t.heap[0].at
	if !t.armed.IsZero() && !at.Before(t.armed) {
		return
	}
	now := time.Now()
	t.armed = later(at, now)
	wait := t.armed.Sub(now)
	if t.timer == nil {
		t.timer = time.AfterFunc(wait, t.fire)
	} else {
		t.timer.Reset(wait)
	}
}

// minTick is the least time until an alarm goes off again that says itself
// when: one that is late for ever must not keep the others waiting.
const minTick = 100 * time.Microsecond

func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// fire runs on the runtime timer's goroutine.
func (t *timers) fire() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.firing || t.stopped {
		return
	}
	now := time.Now()
	late := !t.armed.IsZero() && now.Sub(t.armed) >= stallGrace
	t.stalled = late && !t.stalled
	t.firing = true
	if t.stalled {
		t.readLocked(now)
		t.firing = false
		t.armed = now.Add(stallGrace)
		t.timer.Reset(stallGrace)
		return
	}
	t.armed = time.Time{}
	for len(t.heap) > 0 && !t.heap[0].at.After(now) {
		t.tickLocked(heap.Pop(&t.heap).(*alarm), now)
	}
	t.firing = false
	t.armLocked()
}

// readLocked has only those due go off that have a socket read.
func (t *timers) readLocked(now time.Time) {
	var due []*alarm
	for _, a := range t.heap {
		if a.reads && !a.at.After(now) {
			due = append(due, a)
		}
	}
	for _, a := range due {
		if a.index > 0 {
			heap.Remove(&t.heap, int(a.index)-1)
			t.tickLocked(a, now)
		}
	}
}

// tickLocked has an alarm go off.
func (t *timers) tickLocked(a *alarm, now time.Time) {
	t.mu.Unlock()
	next := a.tick(now)
	t.mu.Lock()
	if !next.IsZero() {
		t.scheduleLocked(a, later(next, now.Add(minTick)))
	}
}

type alarmHeap []*alarm

func (h alarmHeap) Len() int           { return len(h) }
func (h alarmHeap) Less(i, j int) bool { return h[i].at.Before(h[j].at) }

func (h alarmHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = int32(i+1), int32(j+1)
}

func (h *alarmHeap) Push(x any) {
	a := x.(*alarm)
	*h = append(*h, a)
	a.index = int32(len(*h))
}

func (h *alarmHeap) Pop() any {
	old := *h
	a := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	a.index = 0
	return a
}
