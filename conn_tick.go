package volley

import (
	"math"
	"time"

	"volley/internal/wire"
)

// HandleTick does what is due by time alone: acknowledgements that found no
// message to travel with, keepalives, the timeouts of the connection and of
// messages that lack fragments, and giving memory back.
func (h *handler) HandleTick(at time.Time, _ *wire.Batch) time.Time {
	c := (*Conn)(h)
	now := at.Sub(c.born)
	c.mu.Lock()
	c.tickAt = 0
	if c.out.Err() != nil {
		c.mu.Unlock()
		return time.Time{}
	}
	if c.set.idleTimeout > 0 && now-c.lastHeard >= c.set.idleTimeout {
		c.mu.Unlock()
		c.end(ErrIdleTimeout)
		return time.Time{}
	}
	defer c.mu.Unlock()
	before := c.out.Pending()
	if wait, owed := c.ackDueLocked(now); owed && wait == 0 {
		c.ackLocked(now)
	} else if c.set.keepAlive > 0 && now-c.lastSent >= c.set.keepAlive {
		c.counts.keepAlivesSent++
		c.queueEmptyLocked(now)
	}
	c.freeLocked(at, now)
	next := c.nextTickLocked(now)
	c.tickAt = next
	c.out.SendFreshUnlocking(before)
	if next == 0 {
		return time.Time{}
	}
	return c.at(next)
}

// freeLocked gives memory back that has been held for too long: reassemblies,
// and in idleness all that only a busy connection needs. Fragments alone do not
// make an idle one busy.
func (c *Conn) freeLocked(at time.Time, now clock) {
	idle := now-c.lastMessage >= idleAfter
	compact := idle && !c.compact
	if wait, pending := c.endpoint.ReassemblyDue(at); pending && wait == 0 {
		c.endpoint.ExpireReassemblies(at)
		compact = idle
	}
	if compact {
		c.compact = true
		c.endpoint.Compact(at)
	}
}

// nextTickLocked returns when HandleTick has something to do; zero: never.
func (c *Conn) nextTickLocked(now clock) clock {
	const never = math.MaxInt64
	next := clock(never)
	if c.set.idleTimeout > 0 {
		next = c.lastHeard + c.set.idleTimeout
	}
	if c.set.keepAlive > 0 {
		next = min(next, c.lastSent+c.set.keepAlive)
	}
	if !c.compact {
		next = min(next, c.lastMessage+idleAfter)
	}
	if wait, owed := c.ackDueLocked(now); owed && wait == 0 {
		next = min(next, now+c.set.ackDelay) // there was no memory to send it
	} else if owed {
		next = min(next, now+wait)
	}
	if wait, pending := c.endpoint.ReassemblyDue(c.at(now)); pending {
		next = min(next, now+wait)
	}
	if next == never {
		return 0
	}
	return max(next, 1)
}

// scheduleLocked asks for a tick if none is asked for that is early enough.
func (c *Conn) scheduleLocked(now clock) {
	if c.out.Err() != nil {
		return // the endpoint is gone
	}
	next := c.nextTickLocked(now)
	if next == 0 || c.tickAt != 0 && next >= c.tickAt {
		return
	}
	c.tickAt = next
	c.dc.Schedule(c.at(next))
}

// activeLocked notes that there was a message: figures are brought up to date
// now and then.
func (c *Conn) activeLocked(now clock) {
	c.updateLocked(now)
	if c.compact {
		c.compact = false
		c.scheduleLocked(now)
	}
}

func (c *Conn) updateLocked(now clock) {
	if now-c.lastUpdate >= smoothingInterval {
		c.lastUpdate = now
		c.endpoint.Update(c.at(now))
	}
}

// ackDueLocked tells whether an acknowledgement is owed, and how long a packet
// for it alone may wait.
func (c *Conn) ackDueLocked(now clock) (wait time.Duration, owed bool) {
	if c.set.ackDelay <= 0 {
		return 0, false
	}
	return c.endpoint.AckDue(c.at(now), c.set.ackDelay)
}

// ackLocked queues an acknowledgement. While so many wait to leave that the
// peer has forgotten what they speak of it stays owed.
func (c *Conn) ackLocked(now clock) {
	if c.out.Crowded() {
		return
	}
	c.counts.acksSent++
	c.queueEmptyLocked(now)
	c.out.Answered()
}

// queueEmptyLocked queues a packet without payload, which the peer's application
// does not see.
func (c *Conn) queueEmptyLocked(now clock) {
	c.endpoint.Send(c.at(now), nil, c.out.Batch(now))
	c.lastSent = now
}
