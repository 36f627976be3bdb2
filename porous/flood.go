package porous

import (
	"time"

	"volley/internal/deadline"
	"volley/porous/internal/core"
)

// In a flood of Writes messages gather for a moment, so that frames are full and
// leave in runs: until a goroutine sends them, which is started with the first
// one, or so much is there, or the first one has waited so long, that a Write
// does. A Write that is not one of a flood sends what it has written.

const (
	gatherBytes = 48 << 10 // about a run of frames
	gatherTime  = 50 * time.Microsecond
)

// timeOfWriteLocked returns the time of a Write and whether it is one of a
// flood. Not all Writes of a flood look at the clock, which takes longer than
// to queue a message.
func (c *Conn) timeOfWriteLocked() (now core.Clock, flood bool) {
	if c.gathered > 0 && c.flood.Skip() {
		return c.now, true
	}
	now = c.timeLocked()
	gap := now - c.wrote
	c.wrote = now
	return now, c.flood.Note(gap)
}

// gatherUnlocking counts a message of a flood, and sends what is there if that
// is enough.
func (c *Conn) gatherUnlocking(now core.Clock, n int, d *deadline.Deadline) {
	if c.gathered == 0 {
		c.since = now
		c.out.PumpSoon()
	}
	c.gathered += n + core.FragmentHeaderSize
	if c.gathered >= gatherBytes || now-c.since > gatherTime {
		c.out.PumpUnlocking(d)
	}
}
