package netplay

import (
	"context"
	"errors"
	"net"
	"os"
	"time"
)

// ErrIdleTimeout ends a connection if no message arrives within the IdleTimeout of the
// Server or Client, or the rest of a frame within Config.FrameTimeout. It matches
// os.ErrDeadlineExceeded.
var ErrIdleTimeout error = &timeoutError{msg: "netplay: no message within the idle timeout"}

var errFrameTimeout error = &timeoutError{"netplay: a frame has begun and not ended within the frame timeout", ErrIdleTimeout}

// A timeoutError ends a connection whose peer is too slow.
type timeoutError struct {
	msg  string
	kind error // what it also matches; may be nil
}

func (e *timeoutError) Error() string        { return e.msg }
func (e *timeoutError) Timeout() bool        { return true }
func (e *timeoutError) Temporary() bool      { return false }
func (e *timeoutError) Unwrap() error        { return e.kind }
func (e *timeoutError) Is(target error) bool { return target == os.ErrDeadlineExceeded }

// inbound is the reading side of a Conn.
type inbound struct {
	turn     gate // its holder has all but deadline
	deadline deadline
	fr       frameReader
	err      error // final

	idle     time.Duration // 0: none
	partial  bool          // the own deadline is that of a frame
	whole    bool          // that frame has come: the deadline is not the next one's
	idleFrom bool          // the own deadline is that of silence
}

func (in *inbound) init(c *Conn) {
	in.turn = newGate()
	in.deadline.apply = c.nc.SetReadDeadline
	in.fr = frameReader{maxFrame: c.codec.set.maxFrame, read: c.readMore, minRead: c.maxMessage}
}

// ReadMessage waits for the next message and returns it as a pointer to a new value of
// its registered type.
//
// After a *[MessageError], the cause of ctx's end, and a timeout of a deadline, the
// connection stays usable. A MessageError takes one message, which could not be
// decoded; the others take nothing. Every other error is final: io.EOF after the peer
// has closed the connection, a *[ProtocolError], [ErrIdleTimeout], errors of the
// connection below.
func (c *Conn) ReadMessage(ctx context.Context) (v any, err error) {
	err = c.read(ctx, func(f Frame) error {
		v, err = c.codec.Decode(f)
		return err
	})
	return v, err
}

// ReadFrame waits for the next message and returns its frame as it arrived. Errors are
// those of ReadMessage, without MessageError.
func (c *Conn) ReadFrame(ctx context.Context) (f Frame, err error) {
	err = c.read(ctx, func(got Frame) error {
		f = got
		f.Payload = append([]byte(nil), got.Payload...)
		return nil
	})
	return f, err
}

// read calls take with the next frame, which is valid until take returns.
func (c *Conn) read(ctx context.Context, take func(Frame) error) error {
	if err := c.in.turn.enter(ctx, c); err != nil {
		return c.opError("read", err)
	}
	defer c.in.turn.leave()
	f, err := c.next(ctx)
	if err != nil {
		return c.opError("read", err)
	}
	err = take(f)
	if isMessageError(err) {
		c.stats.malformed.Add(1)
	}
	return err
}

// next returns the next frame. The caller has the turn.
func (c *Conn) next(ctx context.Context) (Frame, error) {
	if c.in.err != nil {
		return Frame{}, c.in.err
	}
	stop := c.in.deadline.watch(ctx)
	f, err := c.in.fr.next()
	stop()
	if err != nil {
		return Frame{}, c.readError(ctx, err)
	}
	c.in.whole = true
	c.stats.received.Add(1)
	return f, nil
}

// readError returns the cause of err, and keeps it if it is final.
func (c *Conn) readError(ctx context.Context, err error) error {
	if cause := c.endCause(); cause != nil {
		err = cause
	} else if isTimeout(err) {
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case c.in.deadline.userExpired():
			return err
		case c.in.partial:
			err = errFrameTimeout
		case c.in.idleFrom:
			err = ErrIdleTimeout
		default:
			return err // a deadline that was moved meanwhile
		}
	}
	c.in.err = err
	return err
}

func isTimeout(err error) bool {
	var ne net.Error
	return errors.As(err, &ne) && ne.Timeout()
}

// readMore reads from the connection below, under our own deadlines.
func (c *Conn) readMore(b []byte, partial bool) (int, error) {
	c.in.arm(partial, c.codec.set.frameTimeout)
	n, err := c.nc.Read(b)
	c.stats.bytesReceived.Add(uint64(n))
	return n, err
}

// arm sets our own deadline. A frame's runs from its first byte, or from the beginning of
// the wait for the rest; that of silence from the beginning of the wait.
func (in *inbound) arm(partial bool, frameTimeout time.Duration) {
	switch {
	case partial && in.partial && !in.whole:
	case partial && frameTimeout > 0:
		in.partial, in.whole, in.idleFrom = true, false, false
		in.deadline.setOwn(time.Now().Add(frameTimeout))
	case !partial && in.idle > 0:
		in.partial, in.idleFrom = false, true
		in.deadline.setOwn(time.Now().Add(in.idle))
	case in.partial || in.idleFrom:
		in.partial, in.idleFrom = false, false
		in.deadline.setOwn(time.Time{})
	}
}
