package volley

import (
	"context"
	"io"
	"sync"

	"volley/internal/datagram"
)

// WaitReceipts waits until there are receipts, appends them to dst as
// [Conn.AppendReceipts] does, and returns the result. It returns at least one, or
// an error:
//
//   - one that matches ctx's, when ctx is over;
//   - once the connection has ended and all receipts have been taken, one that
//     matches net.ErrClosed after Close, io.ErrClosedPipe after the peer has closed,
//     or the cause of another end;
//   - a *[ConfigError] at once, if Config.Receipts is negative.
//
// Deadlines of the connection do
// not concern it.
//
// Each message gets its receipt, within Config.LostAfter if that is not negative.
// So a program that counts what it has written and not seen again can wait for all
// of it. It has nothing to wait for before it has written.
//
// If several goroutines wait, each receipt goes to one of them. They may run
// ahead of the one that writes: the receipt of a message can be here before
// WriteMessage has returned its number there. If you keep messages in a
// map by number, hold its lock while you call WriteMessage.
func (c *Conn) WaitReceipts(ctx context.Context, dst []Receipt) ([]Receipt, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.armReceiptsLocked()
	r := c.receipts
	for r != nil && len(r.queue) == 0 && c.over() == nil && ctx.Err() == nil {
		r.waitUnlocking(ctx, &c.mu)
	}
	if c.over() != nil {
		r.tell() // the next one who waits
	}
	switch {
	case r != nil && len(r.queue) > 0:
		return r.take(dst), nil
	case c.over() != nil:
		return dst, c.opError("wait", c.endedLocked())
	case r == nil:
		return dst, configError("Receipts", "it is negative, so none are kept")
	}
	return dst, c.opError("wait", ctx.Err())
}

func (c *Conn) endedLocked() error {
	if err := c.out.Err(); err != io.EOF {
		return err
	}
	return datagram.ErrPeerClosed
}

// waitUnlocking waits for a receipt, the end of the connection, or that of ctx.
func (r *receipts) waitUnlocking(ctx context.Context, mu *sync.Mutex) {
	if r.ready == nil {
		r.ready = make(chan struct{}, 1)
	}
	ready := r.ready
	r.waiting++
	mu.Unlock()
	select {
	case <-ready:
	case <-ctx.Done():
	}
	mu.Lock()
	r.waiting--
}

// tell wakes one that waits. Each wakes the next when there is more.
func (r *receipts) tell() {
	if r == nil || r.waiting == 0 {
		return
	}
	select {
	case r.ready <- struct{}{}:
	default:
	}
}
