package porous

import (
	"volley/internal/datagram"
	"volley/internal/recording"
	"volley/internal/wire"
	"volley/porous/internal/core"
)

// A closed connection lingers if the layer below is its own: it asks the peer to end until
// that answers, and answers a peer that asks. At the socket of a Listener the address does
// so without the connection.

// departUnlocking ends the connection for the application, and tells the peer behind what
// is about to leave. It reports whether the connection lingers, for leave; with answers,
// also for a peer that has ended it.
func (c *Conn) departUnlocking(answers bool) (lingers bool) {
	if !c.released && c.restAt == 0 && !c.out.DrainUnlocking(func() {
		c.timeLocked()
		c.abortPeerLocked(c.out.Batch(c.now), c.mayLingerLocked(answers))
		c.unlockInboxesLocked()
	}) {
		c.abortLocked()
	}
	c.finishLocked()
	c.events = 0
	if c.released || c.restAt != 0 || !c.mayLingerLocked(answers) {
		return c.restAt != 0
	}
	if c.restAt = c.now + c.set.closeTimeout; c.now >= c.lingersUntilLocked() {
		c.restAt = 0
		return false
	}
	c.endCaptureLocked()
	c.scheduleLocked()
	return true
}

// abortLocked ends the protocol without telling the peer.
func (c *Conn) abortLocked() {
	out := datagram.GetBatch()
	c.timeLocked()
	c.abortPeerLocked(out, false)
	c.unlockInboxesLocked()
	datagram.PutBatch(out)
}

// abortPeerLocked ends the protocol at once.
func (c *Conn) abortPeerLocked(out *wire.Batch, linger bool) {
	c.doLocked(c.now, call{kind: recording.Abort, args: [3]int64{truth(linger)}}, out)
}

func (c *Conn) mayLingerLocked(answers bool) bool {
	below := c.out.Below.Features()
	return (answers || c.peer.State() != core.Disconnected) && below.Linger != nil && below.Tombstone == nil && c.set.closeTimeout > 0
}

// lingersUntilLocked returns when a connection stops lingering.
func (c *Conn) lingersUntilLocked() core.Clock {
	switch c.peer.State() {
	case core.Disconnecting:
		return c.restAt
	case core.Disconnected:
		return min(c.restAt, c.peer.RestAt())
	}
	return 0
}

// leave gives the connection below back, at once or when it has lingered.
func (c *Conn) leave(lingers bool) error {
	if !lingers {
		return c.release()
	}
	c.forget()
	c.out.Below.Features().Linger.Linger()
	return nil
}
