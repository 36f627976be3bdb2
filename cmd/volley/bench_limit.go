package main

import (
	"math"
	"sync"
	"time"
)

// A rateLimit is a bucket that fills at the rate, and from which several senders take.
type rateLimit struct {
	bits float64 // a second

	mu   sync.Mutex
	full float64 // bits that may be sent now
	last time.Time
}

// newRateLimit returns a limit in bits per second, or nil, which is none, for 0.
func newRateLimit(bits float64) *rateLimit {
	if bits <= 0 {
		return nil
	}
	return &rateLimit{bits: bits}
}

// limitBurst is the time for which a limit makes up that nobody has used it.
const limitBurst = 20 * time.Millisecond

// take returns how many of n messages may be sent now. The last one may be larger than what
// is left, which then has to be made up for: so large messages have the same chance.
func (l *rateLimit) take(n uint64, size int, now time.Time) uint64 {
	if l == nil {
		return n
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	most := l.bits * limitBurst.Seconds()
	if l.last.IsZero() {
		l.full = most
	}
	if now.After(l.last) { // callers may come in another order than they looked at the clock
		l.full = min(most, l.full+l.bits*now.Sub(l.last).Seconds())
		l.last = now
	}
	if l.full <= 0 {
		return 0
	}
	bits := 8 * float64(size)
	n = min(n, uint64(math.Ceil(l.full/bits)))
	l.full -= float64(n) * bits
	return n
}
