package world

import (
	"sync/atomic"
	"time"
)

// A stall is a wait in a function of a Handler, which holds up all others.
type stall struct {
	next  atomic.Int64 // for how long the next function is to wait
	until atomic.Int64 // when the last wait is over
	spent atomic.Int64 // how long all functions of Handlers have waited
}

// stall returns for how long a function of a Handler of a host is to wait, once. The caller waits.
func (b *book) stall(host int) time.Duration {
	s := &b.stalls[host]
	d := time.Duration(s.next.Swap(0))
	if d > 0 {
		s.until.Store(int64(b.now() + d))
	}
	return d
}

// stalled reports whether a function of a Handler of a host waits, so that nobody may read its socket.
func (b *book) stalled(host int) bool { return b.stalledAt(host, b.now()) }

// stalledAt reports whether the last such wait was not over at a time.
func (b *book) stalledAt(host int, at time.Duration) bool {
	return at < time.Duration(b.stalls[host].until.Load())
}

// waited returns for how long the functions of Handlers of a host have waited, for room or in a stall.
func (b *book) waited(host int) time.Duration { return time.Duration(b.stalls[host].spent.Load()) }

// awaitStall waits until no function of a Handler of a host waits. Serve returns before: it goes on
// with messages that have come, as its doc says.
func (b *book) awaitStall(host int) {
	for b.stalled(host) {
		time.Sleep(time.Duration(b.stalls[host].until.Load()) - b.now() + time.Millisecond)
	}
}
