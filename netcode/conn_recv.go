package netcode

import (
	"io"
	"time"

	"volley/internal/datagram"
	"volley/internal/wire"
)

// HandleBatch opens datagrams in place and passes the messages on, with one lock and one
// wake-up. It calls the layer above without the lock, because answers may come before the
// call returns. Answers leave in the order of sequences, so the caller does not send them.
func (h *handler) HandleBatch(now time.Time, bufs [][]byte, _ *wire.Batch) {
	c := (*Conn)(h)
	c.recvMu.Lock()
	if c.ended {
		c.recvMu.Unlock()
		return
	}
	payloads, over := c.openLocked(now, bufs)
	var control [][]byte
	if c.owner != nil {
		payloads, control = c.splitLocked(payloads)
		c.noteHeard(c.sess.recv.last)
	}
	for _, p := range payloads {
		c.received.add(len(p))
	}
	c.ended = over
	upper := c.upper
	if upper == nil && len(payloads) > 0 {
		c.queueLocked(payloads)
	}
	c.recvMu.Unlock()
	if upper != nil && len(payloads) > 0 {
		c.deliver(now, upper, payloads)
	}
	for _, msg := range control {
		c.owner.Control(now, c, msg)
	}
	if over {
		c.end(upper, io.EOF)
	}
}

// openLocked opens datagrams in place and returns their messages. Over: the peer has ended.
func (c *Conn) openLocked(now time.Time, bufs [][]byte) (payloads [][]byte, over bool) {
	payloads = bufs[:0]
	for _, b := range bufs {
		if len(b) == 0 {
			continue // it was part of the handshake
		}
		p, reason := c.sess.receive(now, b)
		if reason != dropNone {
			c.shared.drop(reason, c.sess.addr)
			continue
		}
		switch p.typ {
		case packetDisconnect:
			if c.shared != nil {
				c.shared.departed.add(c.sess.addr)
			}
			return payloads, true
		case packetPayload:
			payloads = append(payloads, p.body)
		}
		if !c.alive {
			c.alive = true // and knows its index, if it is a client
			c.sendMu.Lock()
			c.sess.confirmed = true
			c.sendMu.Unlock()
		}
	}
	return payloads, false
}

// deliver gives messages to the layer above, and sends its answers.
func (c *Conn) deliver(now time.Time, upper datagram.Handler, payloads [][]byte) {
	up := datagram.GetBatch()
	defer datagram.PutBatch(up)
	upper.HandleBatch(now, payloads, up)
	c.answer(now, up)
}

func (c *Conn) queueLocked(payloads [][]byte) {
	c.user.In.Lock()
	for _, p := range payloads {
		if !c.user.In.Push(p) {
			c.sess.recv.drop(dropQueueFull)
			c.shared.drop(dropQueueFull, c.sess.addr)
		}
	}
	c.user.In.Unlock()
	c.seat.Received((*served)(c))
}

// HandleTick does what is due: a keep alive, the timeout, and the layer above.
func (h *handler) HandleTick(now time.Time, _ *wire.Batch) (next time.Time) {
	c := (*Conn)(h)
	next, spent := c.keepAlive(now)
	if spent {
		c.exhaust()
	}
	if next.IsZero() {
		return next
	}
	c.recvMu.Lock()
	upper, late := c.upper, c.sess.timedOut(now) && !c.ended
	if late {
		c.ended = true
	}
	if at := c.sess.deadline(); !at.IsZero() {
		next = earlier(next, at)
	}
	c.recvMu.Unlock()
	if late {
		c.shared.timedOut()
		c.end(upper, ErrIdleTimeout)
		return time.Time{}
	}
	if upper == nil {
		return next
	}
	if at := c.tickUpper(now, upper); !at.IsZero() {
		next = earlier(next, at)
	}
	return next
}

// keepAlive sends one if due and returns the next time. Spent: sequences are used up.
func (c *Conn) keepAlive(now time.Time) (next time.Time, spent bool) {
	c.sendMu.Lock()
	defer c.sendMu.Unlock()
	spent = c.sess.send.exhausted()
	switch due := !now.Before(c.sess.keepAliveAt()); {
	case c.out.Err() != nil:
		return time.Time{}, false
	case !spent && !due:
	case !spent && c.out.Crowded():
		c.sess.send.last = now // the pending packets show that we live
	default:
		before := c.out.Pending()
		out := c.out.Batch(now.Sub(c.born))
		if spent {
			c.sess.send.disconnect(now, out)
		} else {
			c.sess.keepAlive(now, out)
		}
		c.out.SendFreshUnlocking(before)
	}
	if spent {
		return time.Time{}, true
	}
	return c.sess.keepAliveAt(), false
}

// exhaust ends a session that has no sequence numbers left.
func (c *Conn) exhaust() {
	c.recvMu.Lock()
	c.ended = true
	upper := c.upper
	c.recvMu.Unlock()
	c.end(upper, errExhausted)
}

// tickUpper calls the layer above if it is time, and returns its next time, zero for never.
func (c *Conn) tickUpper(now time.Time, upper datagram.Handler) (next time.Time) {
	c.tickMu.Lock()
	due := !c.upperAt.IsZero() && !c.upperAt.After(now)
	if due {
		c.upperAt = time.Time{}
	}
	next = c.upperAt
	c.tickMu.Unlock()
	if !due {
		return next
	}
	up := datagram.GetBatch()
	defer datagram.PutBatch(up)
	at := upper.HandleTick(now, up)
	c.answer(now, up)
	return c.upperBy(at)
}

// upperBy notes when the layer above wants a call, and returns when it gets one; zero: never.
func (c *Conn) upperBy(at time.Time) time.Time {
	c.tickMu.Lock()
	defer c.tickMu.Unlock()
	if !at.IsZero() && (c.upperAt.IsZero() || at.Before(c.upperAt)) {
		c.upperAt = at
	}
	return c.upperAt
}

// HandleClose ends the session, because the layer below has ended.
func (h *handler) HandleClose(err error) {
	c := (*Conn)(h)
	if c.owner != nil && c.owner.Broken(c, err) {
		return
	}
	c.recvMu.Lock()
	upper := c.upper
	c.ended = true
	c.recvMu.Unlock()
	c.end(upper, err)
}

// WaitRoom waits for room for n bytes, and until answers would not wait behind too much.
func (h *handler) WaitRoom(n int, cancel <-chan struct{}) error {
	c := (*Conn)(h)
	c.recvMu.Lock()
	upper := c.upper
	c.recvMu.Unlock()
	for {
		var err error
		if upper == nil {
			err = c.user.In.WaitRoom(n, cancel)
		} else {
			err = upper.WaitRoom(n, cancel)
		}
		if err != nil || !c.out.Clogged() {
			return err
		}
		if err := c.out.WaitUnclogged(cancel); err != nil {
			return err
		}
	}
}
