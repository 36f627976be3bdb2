package socket

import (
	"sync/atomic"
	"time"
)

// The scheduler is not told of our system calls, which saves a tenth of each.
// But one thing hangs on it: Go's monitor, the thread that interrupts those who
// compute for long, and looks after timers and the network while they do. It
// sleeps once nobody in the process has anything to do, until the next timer or
// until somebody makes a system call that the scheduler knows of. If we woke up
// a program behind its back, and the program then computed on all processors,
// everything else in it would stand still for up to a minute.
//
// So whoever has waited for packets makes a call that the scheduler knows of.
// To wake the monitor for each packet would cost a server at game rates a fifth
// of its time. Where packets come so often, a timer that always has at most two
// tellInterval to go does the same: the monitor never sleeps longer than that.

// tellInterval is how often the scheduler is told where packets come often. The
// monitor, when awake, interrupts who has computed for 10 ms.
const tellInterval = 100 * time.Millisecond

// A teller decides who tells the scheduler. There is one for the process, as there
// is one monitor.
type teller struct {
	last  atomic.Int64 // when the scheduler was told last
	until atomic.Int64 // when it has to be told again
	arm   func(time.Duration)
}

var (
	monitorTimer  = time.AfterFunc(tellInterval, func() {}) // does nothing but come due
	monitorTeller = teller{arm: func(d time.Duration) { monitorTimer.Reset(d) }}
	processStart  = time.Now()
)

// tellScheduler reports whether the call of somebody who has waited must be one
// that the scheduler knows of.
func tellScheduler() bool { return monitorTeller.tell(int64(time.Since(processStart))) }

// tell is tellScheduler at a time in nanoseconds. The timer is armed before the
// call that wakes the monitor, so that its next sleep sees it.
func (t *teller) tell(now int64) bool {
	if now < t.until.Load() {
		return false
	}
	if last := t.last.Swap(now); now-last < int64(tellInterval) {
		t.arm(2 * tellInterval)
		t.until.Store(now + int64(tellInterval))
	}
	return true
}
