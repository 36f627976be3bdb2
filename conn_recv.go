package volley

import (
	"time"

	"volley/internal/recording"
	"volley/internal/wire"
	"volley/reliable"
)

// HandleBatch takes a batch under one lock. Acknowledgements leave in order, so not by out.
func (h *handler) HandleBatch(t time.Time, bufs [][]byte, out *wire.Batch) {
	c := (*Conn)(h)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.out.Err() != nil {
		c.hearAfterUnlocking(bufs, out)
		return
	}
	now := t.Sub(c.born())
	received, hidden, handed := c.counts.messagesReceived, c.hidden, false
	before := c.out.Pending()
	c.user.In.Lock()
	for _, b := range bufs {
		c.receiveLocked(t, now, b)
	}
	c.user.In.Unlock()
	if c.counts.messagesReceived != received {
		handed = c.seat.Received((*served)(c))
	}
	c.controlLocked(t, now)
	if !c.known && c.proved() {
		c.known = true
		c.user.In.SetReserve(c.set.reserveTrusted)
	}
	if c.counts.messagesReceived != received {
		c.lastMessage = max(c.lastMessage, now) // the batch may be older than a Write
		c.activeLocked(now)
	}
	err, came := c.ending(), hidden && !c.hidden
	switch {
	case err != nil || handed:
	case c.counts.messagesReceived == received:
		c.postponeLocked(t, now)
	default:
		c.scheduleLocked(t, now)
	}
	c.out.SendFreshUnlocking(before)
	if came {
		c.mu.Unlock()
		c.set.onCome(c)
		c.mu.Lock()
	}
	if err != nil {
		c.endUnlocking(err)
	}
}

// receiveLocked handles a datagram, and acknowledges if due: a batch may hold more than 32.
func (c *Conn) receiveLocked(t time.Time, now clock, b []byte) {
	if isControl(b) && c.controlledLocked(t, now, b) {
		return
	}
	result, _ := c.do(recording.Receive, t, b, nil)
	v := reliable.Verdict(result)
	switch {
	case v.Live():
		c.lastHeard, c.hidden = now, false
	case v.Valid():
		c.inquireLocked(t, now)
	default:
		c.noteRejectedLocked(v, b)
	}
	if c.endpoint.inner().ControlPresses() {
		c.controlLocked(t, now)
	}
}

// controlLocked sends the control packet that is due.
func (c *Conn) controlLocked(t time.Time, now clock) {
	if wait, due := c.endpoint.ControlDue(t); due && wait == 0 {
		c.sendControlLocked(now)
	}
}

// inquireLocked asks a peer that may have started again, if that is due. The packet may begin
// a connection at another Listener, so it goes to no address that may be forged.
func (c *Conn) inquireLocked(t time.Time, now clock) {
	if !c.proved() && !c.endpoint.Acked() {
		return
	}
	if due, _ := c.do(recording.InquiryDue, t, nil, nil); due != 0 && !c.out.Crowded() {
		c.do(recording.Inquire, t, nil, c.out.Batch(now))
		c.counts.acksSent++
		c.lastSent = now
	}
}

// HandleMessage takes a message from the endpoint; false leaves it unacknowledged.
func (s *sink) HandleMessage(sequence uint16, payload []byte) bool {
	c := (*Conn)(s)
	taken := c.takeLocked(sequence, payload)
	c.noteMessage(sequence, payload, taken)
	return taken
}

func (c *Conn) takeLocked(sequence uint16, payload []byte) bool {
	before := c.newest
	number := c.numberLocked(sequence)
	if number != before+1 {
		c.noteGapLocked(before, number, len(payload) == 0)
	}
	if len(payload) == 0 {
		return true // it only carried acknowledgements
	}
	if !c.user.In.PushNumbered(payload, number) {
		c.counts.messagesRefused++
		return false
	}
	c.counts.messagesReceived++
	return true
}

// HandleFate learns what became of a message.
func (s *sink) HandleFate(id uint64, fate reliable.Fate, rtt time.Duration) {
	c := (*Conn)(s)
	c.tape().Outputs().Fate(id, uint8(fate), rtt)
	if fate == reliable.FateDelivered {
		c.counts.messagesDelivered++
	} else {
		c.counts.messagesLost++
		if c.endpoint.NextID()-id > uint64(c.set.window) {
			c.extraLocked().forgotten++
		}
	}
	c.receipts.add(Receipt{ID: id, Fate: fate, RTT: rtt})
}

// HandleMove learns that the peer is reached by another way.
func (h *handler) HandleMove(t time.Time) {
	c := (*Conn)(h)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.out.Err() != nil {
		return
	}
	c.do(recording.Move, t, nil, nil)
	r := c.extraLocked()
	r.moves++
	r.movedAt = max(c.now(), 1)
	c.seat.Moved(c.out.Below.Features().After)
	c.scheduleLocked(t, t.Sub(c.born()))
}

// HandleClose learns that the layer below has ended: io.EOF in order.
func (h *handler) HandleClose(err error) { (*Conn)(h).end(err) }

// WaitRoom waits for room for n bytes, and while acknowledgements would leave late.
func (h *handler) WaitRoom(n int, cancel <-chan struct{}) error {
	c := (*Conn)(h)
	for {
		if err := c.user.In.WaitRoom(n, cancel); err != nil || !c.out.Clogged() {
			return err
		}
		if err := c.out.WaitUnclogged(cancel); err != nil {
			return err
		}
	}
}
