package porous

import (
	"volley/internal/deadline"
	"volley/porous/internal/core"
)

// In a flood of Writes messages gather for a moment, so that frames are full and leave in
// runs. A goroutine that starts with the first one sends them, or a Write when many are
// there, because it may be long until that goroutine runs. Other Writes send at once.

const (
	gatherMessages = 1024
	gatherBytes    = 48 << 10 // about a run of frames
)

// timeOfWriteLocked returns the time of a Write and whether it is one of a flood. Not all
// Writes of a flood look at the clock, which takes longer than to queue a message.
func (c *Conn) timeOfWriteLocked() (now core.Clock, flood bool) {
	if c.messages > 0 && c.flood.Skip() {
		return c.now, true
	}
	now = c.timeLocked()
	gap := now - c.wrote
	c.wrote = now
	return now, c.flood.Note(gap)
}

// gatherUnlocking counts a message of a flood, and sends what is there if that is enough.
// If everything waits for the peer or for a timer, those have it sent.
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
