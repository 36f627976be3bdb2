package datagram

import (
	"time"

	"volley/internal/deadline"
	"volley/internal/socket"
)

// A backoff decides what an error of a read means: go on, wait, or stop.
type backoff struct{ failures int }

const (
	patience   = 16 // attempts in a row without a pause
	maxPause   = 100 * time.Millisecond
	firstPause = time.Millisecond

	// inlinePause is the longest pause of a caller of Read.
	inlinePause = 10 * time.Millisecond
)

// failed reports whether to read on after err, and after which pause. An error
// that ends the socket is returned to the layer above by the caller; a passing
// one that repeats itself is met with pauses, so that it cannot burn a core.
//
// A read takes an error that waits, and the next one finds the packets behind
// it. So there are several attempts after every pause: otherwise whoever sends
// us one ICMP message each pause would keep us from ever reading a packet.
func (b *backoff) failed(err error) (pause time.Duration, again bool) {
	if !socket.IsTransient(err) {
		return 0, false
	}
	b.failures++
	if n := b.failures / patience; b.failures%patience == 0 {
		pause = min(maxPause, firstPause<<min(n-1, 7))
	}
	return pause, true
}

func (b *backoff) ok() { b.failures = 0 }

// pauseUntil waits for the given time, but not past the deadline.
func pauseUntil(d *deadline.Deadline, pause time.Duration) {
	if pause == 0 {
		return
	}
	t := time.NewTimer(pause)
	defer t.Stop()
	passed := d.Arm()
	defer d.Disarm()
	select {
	case <-t.C:
	case <-passed:
	}
}
