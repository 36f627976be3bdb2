package volley

import (
	"time"

	"volley/internal/wire"
)

// HandleTick does what is due by time alone: acknowledgements that found no
// message to travel with, keepalives, the idle timeout, and giving memory
// back.
func (h *handler) HandleTick(now time.Time, out *wire.Batch) time.Time {
	c := (*Conn)(h)
	c.mu.Lock()
	c.tickAt = time.Time{}
	if c.err != nil {
		c.mu.Unlock()
		return time.Time{}
	}
	if c.set.idleTimeout > 0 && now.Sub(c.lastHeard) >= c.set.idleTimeout {
		c.mu.Unlock()
		c.end(ErrIdleTimeout)
		return time.Time{}
	}
	defer c.mu.Unlock()
	if due, _ := c.ackDueLocked(now); due {
		c.counts.acksSent++
		c.sendEmptyLocked(now, out)
	} else if c.set.keepAlive > 0 && now.Sub(c.lastSent) >= c.set.keepAlive {
		c.counts.keepAlivesSent++
		c.sendEmptyLocked(now, out)
	}
	if !c.compact && now.Sub(c.lastMessage) >= idleAfter {
		c.compact = true
		c.endpoint.Compact(now)
	}
	c.tickAt = c.nextTickLocked(now)
	return c.tickAt
}

// nextTickLocked returns when HandleTick has something to do; zero: never.
func (c *Conn) nextTickLocked(now time.Time) time.Time {
	var next time.Time
	sooner := func(t time.Time) {
		if next.IsZero() || t.Before(next) {
			next = t
		}
	}
	if c.set.idleTimeout > 0 {
		sooner(c.lastHeard.Add(c.set.idleTimeout))
	}
	if c.set.keepAlive > 0 {
		sooner(c.lastSent.Add(c.set.keepAlive))
	}
	if !c.compact {
		sooner(c.lastMessage.Add(idleAfter))
	}
	if due, at := c.ackDueLocked(now); due {
		sooner(now.Add(c.set.ackDelay)) // there was no memory to send it
	} else if !at.IsZero() {
		sooner(at)
	}
	return next
}

// scheduleLocked asks for a tick if none is asked for that is early enough.
func (c *Conn) scheduleLocked(now time.Time) {
	next := c.nextTickLocked(now)
	if next.IsZero() || !c.tickAt.IsZero() && !next.Before(c.tickAt) {
		return
	}
	c.tickAt = next
	c.dc.Schedule(next)
}

// activeLocked notes that there was a message: figures are brought up to date
// now and then.
func (c *Conn) activeLocked(now time.Time) {
	if now.Sub(c.lastUpdate) >= smoothingInterval {
		c.lastUpdate = now
		c.endpoint.Update(now)
	}
	if c.compact {
		c.compact = false
		c.scheduleLocked(now)
	}
}

// ackDueLocked tells whether a packet that only acknowledges is due, or when
// it will be; the zero time: nothing is owed.
func (c *Conn) ackDueLocked(now time.Time) (due bool, at time.Time) {
	if c.set.ackDelay <= 0 {
		return false, time.Time{}
	}
	return c.endpoint.AckDue(now, c.set.ackDelay)
}

// sendEmptyLocked appends a packet without payload, which the peer's
// application does not see.
func (c *Conn) sendEmptyLocked(now time.Time, out *wire.Batch) {
	c.endpoint.Send(now, nil, out)
	c.lastSent = now
}
