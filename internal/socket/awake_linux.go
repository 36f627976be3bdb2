package socket

import (
	"sync/atomic"
	"time"
)

// Our system calls bypass the scheduler, which saves a tenth of each. But Go's
// monitor thread, which preempts goroutines that compute for long, sleeps in an
// idle process until the next timer or a system call that the scheduler knows of.
// If a packet woke the program, and it then computed on all processors, everything
// else could stand still for up to a minute.
//
// So a goroutine that has waited for packets tells the scheduler by its next call.
// Doing so for each packet would cost a game server a fifth of its time. If packets
// come often, a timer limits the monitor's sleep instead.

// Packets come often if the scheduler is told twice in a tellInterval. Then a timer tells it.
const tellInterval = 100 * time.Millisecond

// A teller decides which calls tell the scheduler, for the whole process.
type teller struct {
	bounded atomic.Bool  // a timer limits the monitor's sleep
	last    atomic.Int64 // when the scheduler was told last
}

var (
	monitorTeller teller
	monitorTimer  = time.AfterFunc(tellInterval, monitorTeller.rang)
	processStart  = time.Now()
)

// tellScheduler reports whether the call after a wait must tell the scheduler.
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

// often notes that the scheduler is told, and reports whether a timer should limit the monitor.
func (t *teller) often(now int64) bool {
	if now-t.last.Swap(now) >= int64(tellInterval) {
		return false
	}
	t.bounded.Store(true)
	return true
}

// rang notes that the timer is due.
func (t *teller) rang() { t.bounded.Store(false) }
