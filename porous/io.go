package porous

import (
	"io"
	"time"

	"volley/internal/datagram"
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

var _ datagram.Handler = (*handler)(nil)

// HandleBatch takes datagrams from the layer below. Acknowledgements, pings and
// handshakes are appended to out; data leaves through the ordered sender.
func (h *handler) HandleBatch(now time.Time, bufs [][]byte, out *wire.Batch) {
	c := (*Conn)(h)
	c.mu.Lock()
	if c.released {
		c.mu.Unlock()
		return
	}
	c.now = max(c.now, now.Sub(c.born))
	c.unread = c.unreadLocked()
	for _, b := range bufs {
		c.peer.Receive(c.now, b, out)
	}
	if !c.manualLocked() {
		c.endBatchLocked(out)
	}
	c.unlockInboxesLocked()
	c.afterLocked()
}

// endBatchLocked acknowledges what was received and sends what may leave now,
// acknowledgements first.
func (c *Conn) endBatchLocked(out *wire.Batch) {
	if !c.peer.Pending() || c.lossless {
		c.peer.EndBatch(c.now, out)
	} else {
		acks := datagram.GetBatch()
		c.peer.EndBatch(c.now, acks)
		c.unlockInboxesLocked()
		if acks.Len() > 0 {
			c.mu.Unlock()
			c.transmit(acks)
			c.mu.Lock()
		}
		datagram.PutBatch(acks)
	}
	c.pumpHandlerLocked()
}

// pumpHandlerLocked sends what may leave now, for a handler. Over a lossless
// pipe the other side's handlers run in our writes, and ours in theirs, so that
// to write here may mean to wait for ourselves: a goroutine does it, which exists
// only while there is something to send.
func (c *Conn) pumpHandlerLocked() {
	switch {
	case !c.peer.Pending():
	case !c.lossless:
		c.pumpLocked()
	case c.sending:
		c.again = true
	case !c.pumping:
		c.pumping = true
		go c.run()
	}
}

// pump sends what may leave now, on a goroutine of its own.
func (c *Conn) pump() {
	c.mu.Lock()
	c.pumping = false
	c.pumpLocked()
	c.afterLocked()
}

// WaitRoom does not wait: what finds no room is refused, and comes again.
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
		c.tickLocked(out)
	}
	c.afterLocked()
	return time.Time{}
}

func (c *Conn) tickLocked(out *wire.Batch) {
	c.peer.Tick(c.now, out)
	c.pumpHandlerLocked()
	if !c.compact && c.now-c.lastBusy >= idleAfter && c.peer.Flushed() {
		c.compact = true
		c.peer.Compact()
		c.pushed = nil
	}
}

// afterLocked ends what a handler has begun, lets go of the lock, and does what
// cannot be done with it.
func (c *Conn) afterLocked() {
	connected, over := c.handleEventsLocked()
	if c.waiters > 0 && (c.err != nil || c.peer.Room(c.set.core.SendBuffer/4) || c.peer.Flushed()) {
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

// handleEventsLocked looks at what happened to the state, and reports whether
// the connection has been established, and whether nothing keeps it.
func (c *Conn) handleEventsLocked() (connected, over bool) {
	has := func(e core.Event) bool { return c.events>>e&1 != 0 }
	if connected = has(core.EventConnect); connected {
		c.connected = true
		close(c.ready)
	}
	switch {
	case has(core.EventTimeout):
		c.endLocked(ErrIdleTimeout, false)
	case has(core.EventDisconnect) && !c.ending:
		c.endLocked(errPeerClosed, false)
	case has(core.EventRefused):
		c.endLocked(ErrRefused, false)
	case has(core.EventUnanswered):
		c.endLocked(ErrHandshakeTimeout, false)
	}
	c.events = 0
	if c.peer.State() >= core.Disconnected {
		c.finishLocked()
	}
	// A disconnected one goes on answering for a while, unless the Listener
	// does that.
	over = c.peer.State() == core.Zombie || c.peer.State() == core.Disconnected && c.dc.Features().Tombstone != nil
	return connected, over && !c.released
}

// HandleClose learns that the layer below has ended: io.EOF in order.
func (h *handler) HandleClose(err error) {
	c := (*Conn)(h)
	c.mu.Lock()
	if err == io.EOF {
		err = errPeerClosed
	}
	c.endLocked(err, false)
	out := datagram.GetBatch()
	c.peer.Abort(c.timeLocked(), out)
	datagram.PutBatch(out)
	c.events = 0
	c.afterLocked()
}

func (c *Conn) manualLocked() bool { return c.set.manual && !c.ending }

// pumpLocked sends the data frames that may leave now. There is one who
// transmits at a time, so that frames leave in the order of their ids, and no
// lock is held while a batch is given to the layer below.
func (c *Conn) pumpLocked() {
	if c.sending {
		c.again = true
		return
	}
	c.sending = true
	c.unlockInboxesLocked()
	out := datagram.GetBatch()
	for more := true; more && !c.released; {
		c.again = false
		more = c.peer.Transmit(c.timeLocked(), out, runFrames)
		if out.Len() > 0 {
			c.mu.Unlock()
			c.transmit(out)
			out.Reset()
			c.mu.Lock()
		}
		more = more || c.again
	}
	datagram.PutBatch(out)
	c.sending = false
}

// transmit hands a batch to the layer below. What it does not take is lost, and
// sent again where that was promised.
func (c *Conn) transmit(out *wire.Batch) {
	if err := c.dc.WriteBatch(out); err != nil {
		c.writeErrors.Add(1)
	}
}

// scheduleLocked asks for a tick if none is asked for that is early enough.
func (c *Conn) scheduleLocked() {
	if c.manualLocked() && c.peer.State() == core.Connected {
		return // Step looks at the timers
	}
	at, ok := c.peer.Next(c.now)
	if !c.compact {
		if compactAt := c.lastBusy + idleAfter; !ok || compactAt < at && c.peer.Flushed() {
			at, ok = max(compactAt, c.now), true
		}
	}
	if !ok || c.released || c.tickAt != 0 && at >= c.tickAt {
		return
	}
	c.tickAt = max(at, 1)
	c.dc.Schedule(c.born.Add(c.tickAt))
}

// busyLocked notes that there was a message.
func (c *Conn) busyLocked(now core.Clock) { c.lastBusy, c.compact = now, false }

// unreadLocked returns the bytes that wait for Read.
func (c *Conn) unreadLocked() (n int) {
	for i := range c.channels {
		if ch := c.channels[i].Load(); ch != nil {
			n += ch.in.Len()
		}
	}
	return n
}

// HandlePacket queues a message for Read.
func (s *sink) HandlePacket(n int, b []byte) {
	c := (*Conn)(s)
	ch := c.channelLocked(n)
	if ch.closed {
		c.counts.dropped++
		return
	}
	if !ch.batch {
		ch.batch = true
		ch.in.Lock()
		c.pushed = append(c.pushed, ch)
	}
	if ch.in.Push(b) {
		c.counts.received++
		c.unread += len(b)
	} else {
		c.counts.dropped++ // the connection is being closed
	}
	c.busyLocked(c.now)
}

// unlockInboxesLocked wakes the readers of channels that have got messages.
func (c *Conn) unlockInboxesLocked() {
	for i, ch := range c.pushed {
		ch.batch = false
		ch.in.Unlock()
		c.pushed[i] = nil
	}
	c.pushed = c.pushed[:0]
}

// HandleFate learns what became of a message.
func (s *sink) HandleFate(f core.Fate) {
	c := (*Conn)(s)
	fate := Lost
	if f.Delivered {
		fate = Delivered
		c.counts.delivered++
	} else {
		c.counts.lost++
		if f.Mode == core.Reliable && c.peer.State() != core.Connected {
			c.lost.Messages++
			c.lost.Bytes += f.Size
		}
	}
	c.receipts.add(Receipt{ID: f.Number, Channel: f.Channel, Fate: fate, RTT: f.RTT})
}

// HandleEvent notes what happened to the state.
func (s *sink) HandleEvent(e core.Event) { s.events |= 1 << e }

// Unread returns how much waits for Read.
func (s *sink) Unread(n int) (one, all int) {
	if ch := s.channels[n].Load(); ch != nil {
		one = ch.in.Len()
	}
	return one, s.unread
}

// Step does at once what is due: it acknowledges what was received, sends what
// may leave, and looks at the timers. With Config.ManualStep nothing else does
// once the connection is established.
func (c *Conn) Step() {
	out := datagram.GetBatch()
	defer datagram.PutBatch(out)
	c.mu.Lock()
	if c.released {
		c.mu.Unlock()
		return
	}
	c.timeLocked()
	c.unread = c.unreadLocked()
	c.peer.EndBatch(c.now, out)
	c.unlockInboxesLocked()
	c.peer.Tick(c.now, out)
	c.mu.Unlock()
	c.transmit(out)
	c.mu.Lock()
	c.pumpLocked()
	c.afterLocked()
}
