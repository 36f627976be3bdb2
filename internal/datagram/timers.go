package datagram

import (
	"sync"
	"sync/atomic"
	"time"
)

// timers calls the connections of one transport on time, by one runtime timer and without a
// goroutine that waits. Mostly a reader of packets does it, where it may be late.
type timers struct {
	next atomic.Int64 // the time of the earliest alarm; 0: there is none

	mu      sync.Mutex
	lag     time.Duration // how late an alarm may go off at most where that saves something
	base    time.Time     // what other times count from; constant once set
	heap    alarmHeap
	timer   *time.Timer
	waker   *waker
	armed   time.Duration // when timer fires; 0: it does not
	firing  bool
	stopped bool
	stalled bool // the last firing was late, and did nothing
	manual  bool // only pollAll has alarms go off
}

const (
	// stallGrace is how late a firing must be to show that the whole process stood
	// still, and how long what has arrived meanwhile may take to be read. Until
	// then a peer that is there looks as if it had been silent.
	stallGrace = 200 * time.Millisecond

	// minTick is the least time until an alarm goes off again that says itself
	// when: one that is late for ever must not keep the others waiting.
	minTick = 100 * time.Microsecond

	// pollMost is how many alarms poll has go off at most, as packets are waiting.
	pollMost = 64
)

// An alarm is one connection's place among the timers. It is guarded by their mutex.
type alarm struct {
	at    time.Duration
	index int32  // in the heap, plus one; zero: not in it
	reads bool   // its tick has a socket read
	of    ticker // whom it is to wake
}

// A ticker is woken by an alarm. It returns when it next wants to be, or zero.
type ticker interface {
	tick(now time.Time) (next time.Time)
}

// schedule makes a go off at the given time or earlier.
func (t *timers) schedule(a *alarm, at time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.base.IsZero() {
		t.base = time.Now()
	}
	t.scheduleLocked(a, at.Sub(t.base))
	t.armLocked()
}

func (t *timers) scheduleLocked(a *alarm, at time.Duration) {
	switch {
	case t.stopped:
	case a.index == 0:
		a.at = at
		t.heap.push(a)
	case at < a.at:
		a.at = at
		t.heap.hasten(int(a.index) - 1)
	}
}

// postpone makes a go off at the given time or later.
func (t *timers) postpone(a *alarm, at time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if d := at.Sub(t.base); a.index > 0 && a.at < d {
		a.at = d
		t.heap.delay(int(a.index) - 1)
		t.armLocked()
	}
}

// cancel makes a not go off any more.
func (t *timers) cancel(a *alarm) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if a.index > 0 {
		t.heap.remove(int(a.index) - 1)
		t.armLocked()
	}
}

// stop cancels all alarms for good.
func (t *timers) stop() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stopped = true
	for _, e := range t.heap {
		e.a.index = 0
	}
	t.heap = nil
	t.next.Store(0)
	if t.timer != nil {
		t.timer.Stop()
		t.waker.of.Store(nil)
	}
}

// A waker is what the runtime timer calls. The runtime may hold a stopped timer until it would
// have fired, and so a waker, but not the connection.
type waker struct{ of atomic.Pointer[timers] }

func (w *waker) wake() {
	if t := w.of.Load(); t != nil {
		t.fire()
	}
}

// armLocked sets the runtime timer to the first alarm, unless one goes off or it was put off.
func (t *timers) armLocked() {
	if len(t.heap) == 0 {
		t.next.Store(0)
		return
	}
	at := t.heap[0].at
	t.next.Store(int64(max(at, 1)))
	if t.firing || t.stalled || t.manual {
		return
	}
	at += t.lag
	if t.armed == 0 || at < t.armed {
		t.setLocked(at)
	}
}

func (t *timers) setLocked(at time.Duration) {
	now := time.Since(t.base)
	t.armed = max(at, now, 1)
	if t.timer == nil {
		t.waker = new(waker)
		t.waker.of.Store(t)
		t.timer = time.AfterFunc(t.armed-now, t.waker.wake)
	} else {
		t.timer.Reset(t.armed - now)
	}
}

// fire runs on the runtime timer's goroutine.
func (t *timers) fire() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.stopped {
		return
	}
	armed := t.armed
	t.armed = 0
	if t.firing || t.manual {
		return
	}
	now := time.Since(t.base)
	late := armed != 0 && now-armed >= stallGrace
	t.stalled = late && !t.stalled
	if t.stalled {
		t.readUnlocking(now)
		t.timer.Reset(stallGrace)
		return
	}
	t.tickAllUnlocking(now, len(t.heap))
}

// setLag lets alarms go off late from now on.
func (t *timers) setLag(lag time.Duration) {
	t.mu.Lock()
	t.lag = lag
	t.mu.Unlock()
}

// setManual leaves it to pollAll to have alarms go off.
func (t *timers) setManual() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.manual, t.stalled, t.armed = true, false, 0
	if t.timer != nil {
		t.timer.Stop()
	}
}

// pollAll has the alarms go off that are due.
func (t *timers) pollAll(now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.firing && !t.stopped {
		t.tickAllUnlocking(now.Sub(t.base), len(t.heap))
	}
}

// poll has due alarms go off without a goroutine. A seeming standstill waits for the timer.
func (t *timers) poll(now time.Time) {
	next := t.next.Load()
	if next == 0 || now.Sub(t.base) < time.Duration(next) {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	at := now.Sub(t.base)
	if t.lag == 0 || t.firing || t.stopped || t.stalled || t.manual || len(t.heap) == 0 || at < t.heap[0].at || at-t.heap[0].at >= stallGrace {
		return
	}
	t.tickAllUnlocking(at, pollMost)
	if len(t.heap) > 0 && t.armed != 0 && t.armed-at < t.lag/2 {
		t.setLocked(t.heap[0].at + t.lag) // it would fire for nothing
	}
}

// tickAllUnlocking has alarms go off that are due, most of them at most.
func (t *timers) tickAllUnlocking(now time.Duration, most int) {
	t.firing = true
	defer func() { // even if a callback of the application panics
		t.firing = false
		t.armLocked()
	}()
	for ; most > 0 && len(t.heap) > 0 && t.heap[0].at <= now; most-- {
		t.tickUnlocking(t.heap.remove(0), now)
	}
}

// readUnlocking has only those due go off that have a socket read.
func (t *timers) readUnlocking(now time.Duration) {
	t.firing = true
	defer func() { t.firing = false }()
	var due []*alarm
	for _, e := range t.heap {
		if e.a.reads && e.at <= now {
			due = append(due, e.a)
		}
	}
	for _, a := range due {
		if a.index > 0 {
			t.heap.remove(int(a.index) - 1)
			t.tickUnlocking(a, now)
		}
	}
}

// tickUnlocking has an alarm go off.
func (t *timers) tickUnlocking(a *alarm, now time.Duration) {
	next := t.callUnlocking(a, t.base.Add(now))
	if !next.IsZero() {
		t.scheduleLocked(a, max(next.Sub(t.base), now+minTick))
	}
}

func (t *timers) callUnlocking(a *alarm, now time.Time) time.Time {
	t.mu.Unlock()
	defer t.mu.Lock()
	return a.of.tick(now)
}

// An alarmHeap has the earliest alarm in front: four below each, with their times beside
// them. A Mux has thousands, most of which are in no cache of the processor.
type alarmHeap []heapEntry

type heapEntry struct {
	at time.Duration // that of the alarm
	a  *alarm
}

// below is how many entries are below each.
const below = 4

func (h *alarmHeap) push(a *alarm) {
	*h = append(*h, heapEntry{a.at, a})
	h.up(len(*h) - 1)
}

func (h *alarmHeap) remove(i int) *alarm {
	old := *h
	a, last := old[i].a, old[len(old)-1]
	old[len(old)-1] = heapEntry{}
	*h = old[:len(old)-1]
	a.index = 0
	if i < len(*h) {
		old[i] = last
		h.down(i)
		h.up(int(last.a.index) - 1)
	}
	return a
}

// hasten moves the alarm at an index to its new, earlier time.
func (h alarmHeap) hasten(i int) {
	h[i].at = h[i].a.at
	h.up(i)
}

// delay moves the alarm at an index to its new, later time.
func (h alarmHeap) delay(i int) {
	h[i].at = h[i].a.at
	h.down(i)
}

// up moves the alarm at an index to the front until the one above is not later.
func (h alarmHeap) up(i int) {
	e := h[i]
	for i > 0 {
		above := (i - 1) / below
		if h[above].at <= e.at {
			break
		}
		h.put(i, h[above])
		i = above
	}
	h.put(i, e)
}

// down moves it to the back until those below are not earlier.
func (h alarmHeap) down(i int) {
	e := h[i]
	for {
		first := below*i + 1
		if first >= len(h) {
			break
		}
		least := first
		for j := first + 1; j < min(first+below, len(h)); j++ {
			if h[j].at < h[least].at {
				least = j
			}
		}
		if e.at <= h[least].at {
			break
		}
		h.put(i, h[least])
		i = least
	}
	h.put(i, e)
}

func (h alarmHeap) put(i int, e heapEntry) {
	h[i] = e
	e.a.index = int32(i + 1)
}
