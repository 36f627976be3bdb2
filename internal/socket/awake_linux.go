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
// of its time. Where packets come often, a timer does the same: the monitor does
// not sleep past the time at which one comes due, and until then nobody need tell.

// Packets come often if the scheduler is told twice within a tellInterval. Then the
// timer is set to twice that, and nobody tells until it comes due. The monitor, when
// awake, interrupts who has computed for 10 ms.
const tellInterval = 100 * time.Millisecond

// A teller decides who tells the scheduler. There is one for the process, as there
// is one monitor.
type teller struct {
	bounded atomic.Bool  // a timer bounds the monitor's sleep
	last    atomic.Int64 // when the scheduler was told last
}

var (
	monitorTeller teller
	monitorTimer  = time.AfterFunc(tellInterval, monitorTeller.rang)
	processStart  = time.Now()
)

// tellScheduler reports whether the call of somebody who has waited must be one
// that the scheduler knows of. The timer is set before the call that wakes the
// monitor, so that its next sleep sees it.
func tellScheduler() bool {
	t := &monitorTeller
	if t.bounded.Load() {
		return false
	}
	if t.often(int64(time.Since(processStart))) {
		monitorTimer.Reset(2 * tellInterval)
	}
	return true
}

// often notes that the scheduler is told at a time in nanoseconds, and reports
// whether a timer is to bound the monitor's sleep from then on.
func (t *teller) often(now int64) bool {
	if now-t.last.Swap(now) >= int64(tellInterval) {
		return false
	}
	t.bounded.Store(true)
	return true
}

// rang notes that the timer has come due.
func (t *teller) rang() { t.bounded.Store(false) }
