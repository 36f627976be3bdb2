package netplay

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"time"
)

// ErrSlowReader means that a peer reads more slowly than messages are written
// to it: the queue of its connection is full.
var ErrSlowReader = errors.New("netplay: the peer reads too slowly, its queue is full")

var errTorn = errors.New("netplay: an earlier write ended within a frame")

// outbound is the writing side of a Conn.
type outbound struct {
	turn     gate
	deadline deadline
	err      error // final; the holder of the turn has it

	// queue is where messages go that are written behind, nil for a
	// connection whose WriteMessage writes.
	queue   atomic.Pointer[queue]
	owned   bool // the queue ends with the connection
	policy  SlowPolicy
	timeout time.Duration // of a write from the queue; 0 for none
}

func (out *outbound) init(c *Conn) {
	out.turn = newGate()
	out.deadline.apply = c.nc.SetWriteDeadline
}

// WriteMessage writes the message v, a struct or a pointer to one of a
// registered type. When it returns nil, the system has taken the message; that
// does not mean that the peer has got it.
//
// On a connection that a Server or Client has made it does not wait for the
// system: the message was accepted, and is written behind, in order. If the
// queue is full there, what happens is up to the policy for slow readers.
//
// Nothing is written, and the connection stays as it is, after a [*TypeError],
// a [*ValueError] or a [*FrameTooLargeError].
func (c *Conn) WriteMessage(v any) error { return c.WriteMessageContext(context.Background(), v) }

// WriteMessageContext is like WriteMessage and gives up when ctx ends: before
// the first byte was written, or, with the consequence that nothing can be
// written any more, within a frame. On a connection that writes behind it waits
// until then for room in the queue, if ctx can end at all.
func (c *Conn) WriteMessageContext(ctx context.Context, v any) error {
	f, err := c.codec.encode(v)
	if err != nil {
		return err
	}
	defer f.release()
	if q := c.out.queue.Load(); q != nil {
		return c.opError("write", c.accept(ctx, q, f))
	}
	if err := c.out.turn.enter(ctx, c); err != nil {
		return c.opError("write", err)
	}
	defer c.out.turn.leave()
	return c.opError("write", c.writeNow(ctx, f.b))
}

// WriteMessages writes several messages with one call of the connection below,
// where that takes them. They are all encoded before the first byte is written.
func (c *Conn) WriteMessages(vs ...any) error {
	frames := make([]*outFrame, 0, len(vs))
	defer func() {
		for _, f := range frames {
			f.release()
		}
	}()
	for _, v := range vs {
		f, err := c.codec.encode(v)
		if err != nil {
			return err
		}
		frames = append(frames, f)
	}
	ctx := context.Background()
	if q := c.out.queue.Load(); q != nil {
		for _, f := range frames {
			if err := c.accept(ctx, q, f); err != nil {
				return c.opError("write", err)
			}
		}
		return nil
	}
	if err := c.out.turn.enter(ctx, c); err != nil {
		return c.opError("write", err)
	}
	defer c.out.turn.leave()
	scratch := scratches.Get().(*[]byte)
	defer putScratch(scratch)
	*scratch = (*scratch)[:0]
	for _, f := range frames {
		*scratch = append(*scratch, f.b...)
	}
	if err := c.writeNow(ctx, *scratch); err != nil {
		return c.opError("write", err)
	}
	c.stats.sent.Add(uint64(len(frames)) - 1) // writeNow has counted one
	return nil
}

// writeNow writes a frame. The caller has the turn.
func (c *Conn) writeNow(ctx context.Context, b []byte) error {
	if c.out.err != nil {
		return c.out.err
	}
	stop := c.out.deadline.watch(ctx)
	n, err := c.write(b)
	stop()
	if err == nil {
		c.stats.sent.Add(1)
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

// write hands b to the connection below, in messages if it has such.
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

// accept puts a frame into the queue.
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
	if c.out.policy == DropSlow {
		c.stats.dropped.Add(1)
		return ErrSlowReader
	}
	c.end(ErrSlowReader)
	return ErrSlowReader
}

// writeBehind writes for the queue.
func (c *Conn) writeBehind(b []byte) (int, error) {
	if c.out.timeout > 0 {
		c.nc.SetWriteDeadline(time.Now().Add(c.out.timeout))
	}
	n, err := c.write(b)
	if err != nil && isTimeout(err) {
		err = ErrWriteTimeout
	}
	return n, err
}

// ErrWriteTimeout means that the system took too little of what was to be
// written within the WriteTimeout of the Server or Client, because the peer
// does not read. It matches os.ErrDeadlineExceeded.
var ErrWriteTimeout error = &timeoutError{"netplay: the peer has not read within the write timeout"}

var _ net.Error = (*timeoutError)(nil)
