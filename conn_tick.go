package volley

import (
	"fmt"
	"math"
	"time"

	"volley/internal/netconn"
	"volley/internal/recording"
	"volley/internal/wire"
)

// HandleTick does what is due: acknowledgements, keepalives, timeouts, giving memory back.
func (h *handler) HandleTick(t time.Time, out *wire.Batch) time.Time {
	c := (*Conn)(h)
	now := t.Sub(c.born())
	c.mu.Lock()
	c.tickAt = 0
	if c.out.Err() != nil {
		defer c.mu.Unlock()
		return c.tickAfterUnlocking(now, out)
	}
	if c.set.idleTimeout > 0 && now-c.lastHeard >= c.set.idleTimeout {
		c.mu.Unlock()
		c.end(c.silence())
		return time.Time{}
	}
	defer c.mu.Unlock()
	before := c.out.Pending()
	if wait, due := c.endpoint.ControlDue(t); due && wait == 0 {
		c.sendControlLocked(now)
	} else if due, ok := c.keepAliveLocked(now); ok && now >= due {
		c.counts.keepAlivesSent++
		c.queueEmptyLocked(now)
	}
	if wait, pending := c.endpoint.inner().LossDue(t); pending && wait == 0 {
		c.do(recording.Update, t, nil, nil)
	}
	if due, ok := c.askHiddenLocked(); ok && now >= due {
		c.saluteLocked(now, c.out.Batch(now), answerPrefix, c.greeting.peer)
	}
	c.freeLocked(t, now)
	next := c.nextTickLocked(t, now)
	c.tickAt = next
	c.out.SendFreshUnlocking(before)
	if next == 0 {
		return time.Time{}
	}
	return c.at(next)
}

// silence returns the error of a silent peer, with the socket's last error, without matching it.
func (c *Conn) silence() error {
	if last := netconn.LastError(c.out.Below); last != nil {
		return fmt.Errorf("%w; the socket's last error: %v", ErrIdleTimeout, last)
	}
	return ErrIdleTimeout
}

// freeLocked frees old reassemblies, and in idleness, whatever fragments come, the rest.
func (c *Conn) freeLocked(t time.Time, now clock) {
	idle := now-c.lastMessage >= idleAfter
	compact := idle && !c.compact
	if wait, pending := c.endpoint.inner().ReassemblyDue(t); pending && wait == 0 {
		c.do(recording.Expire, t, nil, nil)
		compact = idle
	}
	if compact {
		c.compact = true
		c.do(recording.Compact, t, nil, nil)
	}
}

// nextTickLocked returns when HandleTick has something to do; zero: never.
func (c *Conn) nextTickLocked(t time.Time, now clock) clock {
	const never = math.MaxInt64
	next := clock(never)
	if c.ending() != nil {
		return max(now, 1)
	}
	if c.set.idleTimeout > 0 {
		next = c.lastHeard + c.set.idleTimeout
	}
	if !c.compact {
		next = min(next, c.lastMessage+idleAfter)
	}
	stuck := false // for want of room a control packet could not leave: keepalives wait for it
	if wait, due := c.endpoint.ControlDue(t); due && wait == 0 {
		stuck, next = true, min(next, now+controlRetry)
	} else if due {
		next = min(next, now+wait)
	}
	if !stuck && (c.tickAt == 0 || c.tickAt > c.lastSent+min(c.set.keepAlive, urgentMin)) { // else that tick is earlier
		if due, ok := c.keepAliveLocked(now); ok {
			next = min(next, due)
		}
	}
	if wait, pending := c.endpoint.inner().ReassemblyDue(t); pending {
		next = min(next, now+wait)
	}
	if wait, pending := c.endpoint.inner().LossDue(t); pending {
		next = min(next, now+wait)
	}
	if due, ok := c.askHiddenLocked(); ok {
		next = min(next, due)
	}
	if next == never {
		return 0
	}
	return max(next, 1)
}

// Keepalives get lost like anything else. So they come faster when the timeout
// nears: not our own, of which we would hear nothing before it is too late, but
// the peer's, as far as we can know. It has heard nothing of us since the newest
// packet of ours that it has acknowledged; where that is longer ago than
// keepalives in both directions explain, each waits for a part of the time that
// is left only. A peer that has acknowledged nothing gets no more than usual.
const (
	urgentShare = 10                     // of the time left
	urgentMin   = 250 * time.Millisecond // the least time between two
)

// keepAliveLocked returns when the next keepalive is due, if there is to be one.
func (c *Conn) keepAliveLocked(now clock) (due clock, ok bool) {
	pause := c.set.keepAlive
	if pause <= 0 || c.hidden {
		return 0, false
	}
	timeout := c.set.idleTimeout
	if timeout <= 0 || now-c.lastSent >= pause || !c.endpoint.Acked() {
		return c.lastSent + pause, true
	}
	acked := c.endpoint.inner().AckedAt().Sub(c.born())
	urgentAt := acked + min(2*pause+pause/8, timeout*2/3)
	if now < urgentAt {
		return min(c.lastSent+pause, max(urgentAt, c.lastSent+urgentMin)), true
	}
	left := max(0, acked+timeout-now)
	return c.lastSent + min(pause, max(urgentMin, left/urgentShare)), true
}

// scheduleLocked asks for a tick unless one is due early enough. See nextTickLocked for now.
func (c *Conn) scheduleLocked(t time.Time, now clock) {
	if c.out.Err() != nil {
		return // the endpoint is gone
	}
	next := c.nextTickLocked(t, now)
	if next == 0 || c.tickAt != 0 && next >= c.tickAt {
		return
	}
	c.tickAt = next
	c.out.Below.Schedule(c.at(next))
}

// postponeLocked is scheduleLocked where a tick may have become needless.
func (c *Conn) postponeLocked(t time.Time, now clock) {
	before := c.tickAt
	if before != 0 && c.seat.Taken() && c.endpoint.InFlight() == 0 {
		c.tickAt = 0 // for all that may be next
		next := c.nextTickLocked(t, now)
		c.tickAt = before
		if p := c.out.Below.Features().Postpone; p != nil && next > before {
			c.tickAt = next
			p.Postpone(c.at(next))
			return
		}
	}
	c.scheduleLocked(t, now)
}

// tickSoon: a Write leaves a tick this near alone, which then looks at the new message.
const tickSoon = 100 * time.Millisecond

// activeLocked notes that there was a message: figures are brought up to date now and then.
func (c *Conn) activeLocked(now clock) {
	if now-c.endpoint.inner().Updated() >= updateEvery {
		c.updateLocked(now)
	}
	if c.compact {
		c.compact = false
		c.scheduleLocked(c.at(now), now)
	}
}

// updateEvery is how often messages update the smoothed figures.
const updateEvery = 100 * time.Millisecond

func (c *Conn) updateLocked(now clock) {
	if now-c.endpoint.inner().Updated() >= smoothingInterval {
		c.do(recording.Update, c.at(now), nil, nil)
	}
}

// controlRetry is when a control packet without room or memory is tried again.
const controlRetry = 10 * time.Millisecond

// sendControlLocked queues the due control packet, unless so many wait that it is no use yet.
func (c *Conn) sendControlLocked(now clock) {
	if c.out.Crowded() {
		return
	}
	c.counts.acksSent++
	out := c.out.Batch(now)
	c.do(recording.Control, c.at(now), nil, out)
	if c.asking {
		c.askLocked(now, out)
	}
	c.lastSent = now
	c.out.Answered()
}

// queueEmptyLocked queues a packet without payload, which the peer's application never sees.
func (c *Conn) queueEmptyLocked(now clock) {
	out := c.out.Batch(now)
	c.do(recording.Send, c.at(now), nil, out)
	if c.asking {
		c.askLocked(now, out)
	}
	c.lastSent = now
}
