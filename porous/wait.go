package porous

import (
	"cmp"
	"context"
	"net"
	"time"

	"volley/internal/datagram"
	"volley/porous/internal/core"
)

// A wakeUp says why a wait has ended.
type wakeUp int

const (
	woken       wakeUp = iota // something has changed
	wokenCancel               // the first channel was closed
	wokenPassed               // or the second
)

// awaitUnlocking waits for a change.
func (c *Conn) awaitUnlocking(cancel, passed <-chan struct{}) (w wakeUp) {
	if c.change == nil {
		c.change = make(chan struct{})
	}
	change := c.change
	c.waiters++
	c.mu.Unlock()
	select {
	case <-change:
	case <-cancel:
		w = wokenCancel
	case <-passed:
		w = wokenPassed
	}
	c.mu.Lock()
	c.waiters--
	return w
}

// notifyLocked wakes all who wait.
func (c *Conn) notifyLocked() {
	if c.change != nil {
		close(c.change)
		c.change = nil
	}
}

// Flush waits until every message that was accepted has its fate, or the
// connection or the context ends.
func (c *Conn) Flush(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		if err := c.writeErrorLocked(); err != nil {
			return c.opError("flush", err)
		}
		if c.connected && c.peer.Flushed() {
			return nil
		}
		if c.awaitUnlocking(ctx.Done(), nil) == wokenCancel {
			return c.opError("flush", ctx.Err())
		}
	}
}

// Close closes the connection in order: pending and later calls return an error
// that matches net.ErrClosed, what nobody has read is dropped, and what was
// accepted is sent until the peer has acknowledged it, for Config.CloseTimeout
// at most. The error is an *[UndeliveredError] if that was not enough. The peer
// reads what is there and then io.EOF. Close may be called more than once and
// returns the first call's result.
func (c *Conn) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), c.set.closeTimeout)
	defer cancel()
	return c.Shutdown(ctx)
}

// Shutdown is Close for as long as the context allows.
func (c *Conn) Shutdown(ctx context.Context) error {
	c.closing.Do(func() {
		if err := c.end(ctx.Done()); err != nil {
			err.Err = cmp.Or(err.Err, ctx.Err(), net.ErrClosed)
			c.closeErr = c.opError("close", err)
		}
	})
	return c.closeErr
}

// Abort closes the connection at once: the peer is told, and what was accepted
// and not acknowledged is lost. A peer that has messages in flight learns of it up
// to 0.6 s later. A call of Close or Shutdown that waits returns.
func (c *Conn) Abort() error {
	c.mu.Lock()
	c.closeLocked()
	c.finishUnlocking()
	c.notifyLocked()
	c.mu.Unlock()
	return c.opError("close", c.release())
}

// finishUnlocking ends the protocol. The peer is told, behind what is about to
// leave.
func (c *Conn) finishUnlocking() {
	if !c.released && !c.out.DrainUnlocking(func() {
		c.timeLocked()
		c.abortPeerLocked(c.out.Batch(c.now))
		c.unlockInboxesLocked()
	}) {
		c.abortLocked()
	}
	c.finishLocked()
	c.events = 0
}

// abortLocked ends the protocol without telling the peer.
func (c *Conn) abortLocked() {
	out := datagram.GetBatch()
	c.timeLocked()
	c.abortPeerLocked(out)
	c.unlockInboxesLocked()
	datagram.PutBatch(out)
}

// confirmTime is how long Close waits for the answer to its own request to end,
// once everything else is acknowledged: enough for the request to be repeated.
const confirmTime = 1100 * time.Millisecond

// end closes the connection in order. It returns what was not delivered.
func (c *Conn) end(cancel <-chan struct{}) *UndeliveredError {
	c.mu.Lock()
	cause := c.writeErrorLocked()
	c.closeLocked()
	if cause == nil {
		c.flushUnlocking(cancel)
		c.confirmUnlocking(cancel)
	}
	c.finishUnlocking()
	lost := c.lost
	c.mu.Unlock()
	c.release()
	if lost.Messages == 0 || cause == net.ErrClosed {
		return nil
	}
	lost.Err = cause
	return &lost
}

// flushUnlocking waits until everything is acknowledged and the protocol's own end
// has begun.
func (c *Conn) flushUnlocking(cancel <-chan struct{}) {
	for c.peer.State() == core.Connecting && c.peer.Stats().Packets > 0 {
		if c.awaitUnlocking(cancel, nil) == wokenCancel {
			return
		}
	}
	if c.peer.State() == core.Connecting {
		return // Abort tells the peer, if there is one
	}
	c.timeLocked()
	c.disconnectLocked()
	c.unlockInboxesLocked()
	c.out.PumpUnlocking(nil)
	for c.peer.State() == core.Connected {
		c.tickAt = 0
		c.scheduleLocked()
		if c.awaitUnlocking(cancel, nil) == wokenCancel {
			return
		}
	}
}

// confirmUnlocking waits for the peer's answer to the request to end.
func (c *Conn) confirmUnlocking(cancel <-chan struct{}) {
	if c.peer.State() != core.Disconnecting {
		return
	}
	c.tickAt = 0
	c.scheduleLocked()
	passed := make(chan struct{})
	timer := time.AfterFunc(confirmTime, func() { close(passed) })
	defer timer.Stop()
	for c.peer.State() == core.Disconnecting {
		if c.awaitUnlocking(cancel, passed) != woken {
			return
		}
	}
}
