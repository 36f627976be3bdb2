package porous

import (
	"io"
	"time"

	"volley/internal/deadline"
	"volley/internal/netconn"
	"volley/internal/recording"
	"volley/internal/wire"
	"volley/porous/internal/core"
)

const (
	// runFrames is how many frames are written at once: as many as one
	// segmented send carries.
	runFrames = 40
	// idleAfter is how long after the last message memory is given back that
	// only a busy connection needs.
	idleAfter = 2 * time.Second
)

// HandleBatch takes datagrams. Answers leave in front of data that is not framed yet.
func (h *handler) HandleBatch(now time.Time, bufs [][]byte, out *wire.Batch) {
	c := (*Conn)(h)
	c.mu.Lock()
	if c.released {
		c.mu.Unlock()
		return
	}
	c.now = max(c.now, now.Sub(c.born))
	c.unread = c.unreadLocked()
	out = c.answersLocked(out)
	for _, b := range bufs {
		c.doLocked(c.now, call{kind: recording.Receive, data: b}, out)
	}
	if !c.manualLocked() {
		c.doLocked(c.now, call{kind: recording.EndBatch}, out)
	}
	c.handling = true
	c.unlockInboxesLocked()
	c.handling = false
	c.handledUnlocking()
	c.concludeAndUnlock()
}

// handledUnlocking delivers messages, and sends what may leave.
func (c *Conn) handledUnlocking() {
	c.unlockInboxesLocked()
	c.endOveruseLocked()
	if !c.manualLocked() {
		c.out.PumpUnlocking(nil)
	}
}

// answersLocked returns where a handler frames its answers: mostly the batch that leaves
// next. With manual steps, and when too much waits to leave, it is the handler's own.
func (c *Conn) answersLocked(own *wire.Batch) *wire.Batch {
	if c.manualLocked() || c.out.Crowded() {
		return own
	}
	return c.out.Batch(c.now)
}

// HandleMove learns that the peer is reached by another way.
func (h *handler) HandleMove(at time.Time) {
	c := (*Conn)(h)
	c.mu.Lock()
	if c.released {
		c.mu.Unlock()
		return
	}
	c.now = max(c.now, at.Sub(c.born))
	c.counts.moves++
	c.counts.movedAt = c.now
	c.doLocked(c.now, call{kind: recording.Move}, nil)
	c.seat.Moved(c.out.Below.Features().After)
	c.handledUnlocking()
	c.concludeAndUnlock()
}

// WaitRoom does not wait: frames without room are refused, and come again.
func (h *handler) WaitRoom(int, <-chan struct{}) error { return nil }

// HandleTick does what is due by time alone.
func (h *handler) HandleTick(at time.Time, out *wire.Batch) time.Time {
	c := (*Conn)(h)
	c.mu.Lock()
	c.tickAt = 0
	if c.released {
		c.mu.Unlock()
		return time.Time{}
	}
	c.now = max(c.now, at.Sub(c.born))
	if !c.manualLocked() || c.peer.State() != core.Connected {
		c.doLocked(c.now, call{kind: recording.Tick}, c.answersLocked(out))
		c.handledUnlocking()
		c.compactLocked()
	}
	c.concludeAndUnlock()
	return time.Time{}
}

// compactLocked gives memory back some time after the last message.
func (c *Conn) compactLocked() {
	if !c.compact && c.now-c.lastBusy >= idleAfter && c.idleLocked() {
		c.compact = true
		c.doLocked(c.now, call{kind: recording.Compact}, nil)
		c.pushed = nil
	}
}

// idleLocked reports whether nothing is under way, such as a request to end.
func (c *Conn) idleLocked() bool { return c.peer.Flushed() && c.peer.State() != core.Disconnecting }

// concludeAndUnlock ends a handler's work, the last part of it without the lock.
func (c *Conn) concludeAndUnlock() {
	connected, over := c.handleEventsLocked()
	if c.waiters > 0 && (c.out.Err() != nil || c.roomForWritersLocked() || c.peer.Flushed()) {
		c.notifyLocked()
	}
	if !over {
		c.scheduleLocked()
	}
	c.mu.Unlock()
	if connected && c.onConnect != nil {
		c.onConnect()
	}
	if over {
		c.release()
	}
}

// wakeAfter is how long a waiting call sleeps on though there is a little room.
const wakeAfter = 5 * time.Millisecond

// roomForWritersLocked reports whether to wake waiting calls, not for each message.
func (c *Conn) roomForWritersLocked() bool {
	fits := false
	for n := 0; c.writers > 0 && n < len(c.channels); n++ {
		ch := c.channels[n].Load()
		if ch == nil || ch.writers == 0 {
			continue
		}
		if c.peer.Roomy(n) {
			c.wakeAt = 0
			return true
		}
		fits = fits || c.peer.Room(n, ch.least)
	}
	switch {
	case !fits:
		c.wakeAt = 0
	case c.wakeAt == 0:
		c.wakeAt = c.now + wakeAfter
	case c.now >= c.wakeAt:
		c.wakeAt = 0
		return true
	}
	return false
}

// handleEventsLocked takes the core's events: established, and nothing keeps it any more.
func (c *Conn) handleEventsLocked() (connected, over bool) {
	has := func(e core.Event) bool { return c.events>>e&1 != 0 }
	if connected = has(core.EventConnect); connected {
		c.connected = true
		c.notifyLocked()
	}
	switch {
	case has(core.EventTimeout):
		c.endLocked(netconn.Silence(c.out.Below, ErrIdleTimeout))
	case has(core.EventReplaced):
		c.endLocked(errReplaced)
	case has(core.EventDisconnect):
		c.endLocked(io.EOF)
	case has(core.EventRefused):
		c.endLocked(ErrRefused)
	case has(core.EventUnanswered):
		c.endLocked(netconn.Silence(c.out.Below, ErrHandshakeTimeout))
	}
	c.vanished = c.vanished || has(core.EventTimeout) || has(core.EventReplaced) || has(core.EventUnanswered)
	c.events = 0
	if c.peer.State() >= core.Disconnected {
		c.finishLocked()
	}
	if c.restAt != 0 {
		return connected, !c.released && c.now >= c.lingersUntilLocked()
	}
	// A disconnected one goes on answering for a while, unless the Listener does that.
	over = c.peer.State() == core.Zombie || c.peer.State() == core.Disconnected && c.out.Below.Features().Tombstone != nil
	return connected, over && !c.released && !c.closedLocked() // else Close sees to it
}

// HandleClose learns that the layer below has ended: io.EOF in order.
func (h *handler) HandleClose(err error) {
	c := (*Conn)(h)
	c.mu.Lock()
	c.abortLocked() // which delivers what no Step has delivered
	c.endLocked(err)
	c.events = 0
	c.concludeAndUnlock()
}

// manualLocked reports whether only Step sends.
func (c *Conn) manualLocked() bool { return c.set.manual && c.out.Err() == nil }

func (f *framer) Arrange(b *wire.Batch) *wire.Batch { return b }

// Refill frames data that may leave now, one goroutine at a time, in the order of ids.
func (f *framer) Refill() {
	c := (*Conn)(f)
	if c.released {
		return
	}
	c.messages, c.gathered = 0, 0
	out := c.out.Batch(c.timeLocked())
	c.doLocked(c.now, call{kind: recording.Transmit}, out)
	if c.roomForWritersLocked() { // messages whose time was over are gone
		c.notifyLocked()
	}
	if out.Len() == 0 {
		c.scheduleLocked()
	}
}

// scheduleLocked asks for a tick if none is asked for that is early enough.
func (c *Conn) scheduleLocked() {
	if c.manualLocked() && c.peer.State() == core.Connected {
		return // Step looks at the timers
	}
	at, ok := c.peer.Next(c.now)
	if c.restAt != 0 {
		at = min(at, c.lingersUntilLocked())
	}
	if c.wakeAt != 0 {
		at = min(at, c.wakeAt)
	}
	if !c.compact {
		if compactAt := c.lastBusy + idleAfter; !ok || compactAt < at && c.idleLocked() {
			at, ok = max(compactAt, c.now), true
		}
	}
	if !ok || c.released || c.tickAt != 0 && at >= c.tickAt {
		return
	}
	c.tickAt = max(at, 1)
	c.out.Below.Schedule(c.born.Add(c.tickAt))
}

func (c *Conn) busyLocked(now core.Clock) { c.lastBusy, c.compact = now, false }

// unreadLocked returns the bytes that wait for Read.
func (c *Conn) unreadLocked() (n int) {
	for i := range c.channels {
		if ch := c.channels[i].Load(); ch != nil {
			n += ch.user.In.Len()
		}
	}
	return n
}

// HandlePacket queues a message for Read.
func (s *sink) HandlePacket(n int, b []byte) {
	c := (*Conn)(s)
	if c.tape != nil {
		c.tape.Outputs().Delivered(uint64(n), b)
	}
	ch := c.channelLocked(n)
	if ch.closed {
		c.counts.dropped++
		if c.set.limits != nil {
			c.keepLocked(0)
		}
		return
	}
	if !ch.batch {
		ch.batch = true
		ch.user.In.Lock()
		c.pushed = append(c.pushed, ch)
	}
	kept, ok := ch.user.In.PushKept(b)
	if c.set.limits != nil {
		c.keepLocked(kept)
	}
	if ok {
		c.counts.received++
		c.counts.bytes += uint64(len(b))
		c.unread += len(b)
	} else {
		c.counts.dropped++ // the connection is being closed
	}
	c.busyLocked(c.now)
}

// unlockInboxesLocked wakes readers, after each call of the core that may deliver.
func (c *Conn) unlockInboxesLocked() {
	if len(c.pushed) == 0 {
		return
	}
	for i, ch := range c.pushed {
		ch.batch = false
		ch.user.In.Unlock()
		c.pushed[i] = nil
	}
	c.pushed = c.pushed[:0]
	if c.handling {
		c.seat.Received((*served)(c))
	} else {
		c.seat.Ended((*served)(c)) // or has more, which no packet brought
	}
}

// HandleFate learns what became of a message.
func (s *sink) HandleFate(f core.Fate) {
	c := (*Conn)(s)
	if c.tape != nil {
		noteFate(c.tape.Outputs(), f)
	}
	fate := Lost
	if f.Delivered {
		fate = Delivered
		c.counts.delivered++
	} else {
		c.counts.lost++
		if f.Mode == core.Reliable && c.peer.State() != core.Connected {
			if c.lost == nil {
				c.lost = new(undelivered)
			}
			c.lost.messages++
			c.lost.bytes += f.Size
		}
	}
	if c.receipts != nil {
		c.receipts.add(Receipt{ID: f.Number, Channel: f.Channel, Fate: fate, RTT: f.RTT})
	}
}

// HandleEvent notes what happened to the state.
func (s *sink) HandleEvent(e core.Event) {
	s.tape.Outputs().Result(int64(e))
	s.events |= 1 << e
}

// Unread returns how much waits for Read.
func (s *sink) Unread(n int) (one, all int) {
	if ch := s.channels[n].Load(); ch != nil {
		one = ch.user.In.Len()
	}
	if s.tape.Outputs() != nil {
		s.tape.AnswerNumber(one)
		s.tape.AnswerNumber(s.unread)
	}
	return one, s.unread
}

// Step acknowledges what was received, sends what may leave, and looks at the timers. With
// Config.ManualStep nothing else does once the connection is established.
func (c *Conn) Step() {
	c.mu.Lock()
	if c.released {
		c.mu.Unlock()
		return
	}
	c.unread = c.unreadLocked()
	out := c.out.Batch(c.timeLocked())
	c.doLocked(c.now, call{kind: recording.EndBatch}, out)
	c.doLocked(c.now, call{kind: recording.Tick}, out)
	c.unlockInboxesLocked()
	c.out.PumpUnlocking(c.out.Patience())
	c.concludeAndUnlock()
}

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

// gatherUnlocking counts a message of a flood, and sends when there is enough.
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
