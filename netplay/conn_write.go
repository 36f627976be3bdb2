package netplay

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"time"
)

// ErrSlowReader means that a peer reads too slowly: the queue of its connection is full,
// or the system takes too little within the WriteTimeout of the Server or Client. In the
// second case the error matches os.ErrDeadlineExceeded, too.
var ErrSlowReader = errors.New("netplay: the send queue is full, because the peer reads too slowly")

var errWriteTimeout error = &timeoutError{"netplay: the peer has not read within the write timeout", ErrSlowReader}

var errTorn = errors.New("netplay: nothing can be written after a write that failed within a frame")

// outbound is the writing side of a Conn.
type outbound struct {
	turn     gate
	deadline deadline
	err      error // final; the holder of the turn has it

	// queue holds messages that are written later, nil for a connection whose
	// WriteMessage writes.
	queue   atomic.Pointer[queue]
	owned   bool // the queue ends with the connection
	policy  slowPolicy
	timeout time.Duration // of a write from the queue; 0 for none
}

func (out *outbound) init(c *Conn) {
	out.turn = newGate()
	out.deadline.apply = c.nc.SetWriteDeadline
}

// WriteMessage writes the message v, a struct of a registered type or a pointer to one.
// If it returns nil, the system has taken the message, and the peer may get it. If ctx
// ends within a frame, nothing can be written any more.
//
// On a connection of a Server or Client it puts the message into a queue, and the system
// takes it later, in order. If the queue of a Server's connection is full, WriteMessage
// waits for room if ctx can end. Otherwise it returns [ErrSlowReader], and
// Server.DropSlow decides about the connection.
//
// Nothing is written, and the connection stays usable, after a *[ValueError] or a
// *[MessageTooLargeError].
func (c *Conn) WriteMessage(ctx context.Context, v any) error {
	f, err := c.codec.encode(v)
	if err != nil {
		return err
	}
	defer f.release()
	if q := c.out.queue.Load(); q != nil {
		return c.opError("write", c.accept(ctx, q, f))
	}
	return c.opError("write", c.writeTurn(ctx, f.b, 1))
}

// WriteBatch writes several messages with one call of the connection below, if that
// takes them. It encodes all of them before it writes the first byte.
func (c *Conn) WriteBatch(ctx context.Context, vs ...any) error {
	scratch := scratches.Get().(*[]byte)
	defer putScratch(scratch)
	b, sizes := (*scratch)[:0], make([]int, len(vs))
	for i, v := range vs {
		sizes[i] = -len(b)
		var err error
		if b, err = c.codec.Append(b, v); err != nil {
			return err
		}
		sizes[i] += len(b)
	}
	*scratch = b
	q := c.out.queue.Load()
	if q == nil {
		return c.opError("write", c.writeTurn(ctx, b, len(vs)))
	}
	for _, n := range sizes {
		f := newOutFrame(n)
		f.b = append(f.b, b[:n]...)
		b = b[n:]
		err := c.accept(ctx, q, f)
		f.release()
		if err != nil {
			return c.opError("write", err)
		}
	}
	return nil
}

// writeTurn writes some frames when it is our turn.
func (c *Conn) writeTurn(ctx context.Context, b []byte, frames int) error {
	if err := c.out.turn.enter(ctx, c); err != nil {
		return err
	}
	defer c.out.turn.leave()
	if c.out.err != nil {
		return c.out.err
	}
	stop := c.out.deadline.watch(ctx)
	n, err := c.write(b)
	stop()
	if err == nil {
		c.stats.sent.Add(uint64(frames))
		return nil
	}
	if cause := c.endCause(); cause != nil {
		err = cause
	} else if isTimeout(err) && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if n > 0 {
		c.out.err = errTorn
	}
	return err
}

// write writes b to the connection below, in messages if it has a size of them.
func (c *Conn) write(b []byte) (n int, err error) {
	for size := len(b); n < len(b) && err == nil; {
		if c.maxMessage > 0 {
			size = min(c.maxMessage, len(b)-n)
		}
		var m int
		m, err = c.nc.Write(b[n : n+size])
		n += m
	}
	c.stats.bytesSent.Add(uint64(n))
	return n, err
}

func (c *Conn) accept(ctx context.Context, q *queue, f *outFrame) error {
	if cause := c.endCause(); cause != nil {
		return cause // the queue of a Client outlives its connections
	}
	if c.out.policy == waitSlow || ctx.Done() != nil {
		return q.pushWait(ctx, f)
	}
	ok, err := q.push(f)
	if ok || err != nil {
		return err
	}
	if c.out.policy == dropSlow {
		c.stats.dropped.Add(1)
		return ErrSlowReader
	}
	c.end(ErrSlowReader)
	return ErrSlowReader
}

// writeBehind writes frames of the queue.
func (c *Conn) writeBehind(b []byte) (int, error) {
	if c.out.timeout > 0 {
		c.nc.SetWriteDeadline(time.Now().Add(c.out.timeout))
	}
	n, err := c.write(b)
	if err != nil && isTimeout(err) {
		err = errWriteTimeout
	}
	return n, err
}

var _ net.Error = (*timeoutError)(nil)
