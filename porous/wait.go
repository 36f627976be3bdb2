package porous

import (
	"cmp"
	"context"
	"net"
	"time"

	"volley/internal/recording"
	"volley/porous/internal/core"
)

// A wakeUp says why a wait has ended.
type wakeUp int

const (
	woken       wakeUp = iota // something has changed
	wokenCancel               // the first channel was closed
	wokenPassed               // or the second
)

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

// Flush waits until the handshake is done and every message that was accepted has its
// fate, or until the connection or the context ends.
func (c *Conn) Flush(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.handshakeUnlocking(ctx); err != nil {
		return c.opError("flush", err)
	}
	for {
		if err := c.writeErrorLocked(); err != nil {
			return c.opError("flush", err)
		}
		if c.peer.Flushed() {
			return nil
		}
		if c.awaitUnlocking(ctx.Done(), nil) == wokenCancel {
			return c.opError("flush", ctx.Err())
		}
	}
}

// Close closes the connection in order. Pending and later calls return an error that
// matches net.ErrClosed, and unread messages are dropped. Accepted messages are sent until
// the peer has acknowledged them, for Config.CloseTimeout at most; if that was not enough,
// the error is an *[UndeliveredError]. The peer reads what is there and then io.EOF. Close
// may be called more than once and returns the first call's result.
//
// The peer is asked to end until it answers. If it is silent though everything was
// acknowledged, Close returns after a second or two. The socket or the connection below
// then stays open until the peer answers, for Config.CloseTimeout at most. If the peer has
// closed first, it stays open for two seconds, in case the peer asks again. Connections of
// a [Listener], and sessions that share a socket, need not stay open for that.
func (c *Conn) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), c.set.closeTimeout)
	defer cancel()
	return c.Shutdown(ctx)
}

// Shutdown is Close with a context in place of Config.CloseTimeout. If another call of
// Shutdown or Close is under way, it waits for that, or until its own context ends.
func (c *Conn) Shutdown(ctx context.Context) error {
	c.mu.Lock()
	k := c.closing
	first := k == nil
	if first {
		k = &closing{done: make(chan struct{})}
		c.closing = k
	}
	c.mu.Unlock()
	if !first {
		return c.awaitClose(ctx, k)
	}
	defer close(k.done)
	if err := c.end(ctx.Done()); err != nil {
		err.Err = cmp.Or(err.Err, ctx.Err(), net.ErrClosed)
		k.err = c.opError("close", err)
	}
	return k.err
}

// A closing is the first call of Close or Shutdown.
type closing struct {
	done chan struct{} // closed when the call is over
	err  error         // its result, once done is closed
}

// awaitClose waits for the first call of Close or Shutdown.
func (c *Conn) awaitClose(ctx context.Context, k *closing) error {
	select {
	case <-k.done: // also if the context is over
		return k.err
	default:
	}
	select {
	case <-k.done:
		return k.err
	case <-ctx.Done():
		return c.opError("close", ctx.Err())
	}
}

// Abort closes the connection at once. The peer is told, as by Close, and messages that
// were not acknowledged are lost. A peer that has messages in flight learns of it up to
// 0.6 s later. A call of Close or Shutdown that waits returns.
func (c *Conn) Abort() error {
	c.mu.Lock()
	c.closeLocked()
	lingers := c.departUnlocking(false)
	c.notifyLocked()
	c.mu.Unlock()
	return c.opError("close", c.leave(lingers))
}

// end closes the connection in order. It returns what was not delivered.
func (c *Conn) end(cancel <-chan struct{}) *UndeliveredError {
	c.mu.Lock()
	cause := c.writeErrorLocked()
	c.closeLocked()
	if cause == nil {
		c.flushUnlocking(cancel)
		c.confirmUnlocking(cancel)
	}
	lingers := c.departUnlocking(true)
	lost := c.lost
	c.mu.Unlock()
	c.leave(lingers)
	if lost == nil || cause == net.ErrClosed {
		return nil
	}
	return &UndeliveredError{Messages: lost.messages, Bytes: lost.bytes, Err: cause}
}

// flushUnlocking waits until everything is acknowledged and the protocol's end has begun.
func (c *Conn) flushUnlocking(cancel <-chan struct{}) {
	if c.peer.State() == core.Connecting && c.peer.Stats().Packets == 0 {
		return // Abort tells the peer, if there is one
	}
	c.timeLocked()
	c.doLocked(c.now, call{kind: recording.Disconnect}, nil)
	c.unlockInboxesLocked()
	c.out.PumpUnlocking(nil)
	for c.peer.State() <= core.Connected {
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
	for c.peer.State() == core.Disconnecting {
		left := c.peer.AnswerDue() - c.timeLocked()
		if left <= 0 {
			return
		}
		passed := make(chan struct{})
		timer := time.AfterFunc(left, func() { close(passed) })
		w := c.awaitUnlocking(cancel, passed)
		timer.Stop()
		if w == wokenCancel {
			return
		}
	}
}
