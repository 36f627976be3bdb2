package porous

import (
	"volley/internal/deadline"
	"volley/porous/internal/core"
)

// In a flood of Writes messages gather for a moment, so that frames are full and
// leave in runs: until a goroutine sends them, which is started with the first
// one, or so many are there that a Write does, for it may be long until that
// goroutine runs. A Write that is not one of a flood sends what it has written.

const (
	gatherMessages = 1024
	gatherBytes    = 48 << 10 // about a run of frames
)

// timeOfWriteLocked returns the time of a Write and whether it is one of a
// flood. Not all Writes of a flood look at the clock, which takes longer than
// to queue a message.
func (c *Conn) timeOfWriteLocked() (now core.Clock, flood bool) {
	if c.messages > 0 && c.flood.Skip() {
		return c.now, true
	}
	now = c.timeLocked()
	gap := now - c.wrote
	c.wrote = now
	return now, c.flood.Note(gap)
}

// gatherUnlocking counts a message of a flood, and sends what is there if that
// is enough. What waits for the peer anyway is sent by who hears of it, and what
// waits for its time by the timer, unless a Write comes first: they would be
// disturbed for nothing.
func (c *Conn) gatherUnlocking(n int, d *deadline.Deadline) {
	held := c.peer.Held()
	if c.messages == 0 && held == core.NotHeld {
		c.out.PumpSoon()
	}
	c.messages++
	c.gathered += int32(min(n+core.FragmentHeaderSize, gatherBytes))
	if c.messages >= gatherMessages || c.gathered >= gatherBytes {
		c.messages, c.gathered = 1, 0 // who is busy, if not we, looks again
		if held != core.HeldByPeer {
			c.out.PumpUnlocking(d)
		}
	}
}
