package porous

import (
	"context"
	"math"
	"net"
	"os"
	"strconv"
	"time"

	"volley/internal/deadline"
	"volley/internal/netconn"
	"volley/internal/recording"
	"volley/porous/internal/core"
)

// A Mode says what is done for a message to arrive.
type Mode int

const (
	// Reliable messages are delivered always, once, and in order: what was
	// sent behind one on the same channel waits for it.
	Reliable Mode = iota
	// Unreliable messages are sent once. Lost ones are missing.
	Unreliable
	// Passive messages are sent again until they are acknowledged, but nobody
	// waits for them: the receiver skips one that comes too late.
	Passive
)

func (m Mode) String() string {
	switch m {
	case Reliable:
		return "reliable"
	case Unreliable:
		return "unreliable"
	case Passive:
		return "passive"
	}
	return "invalid"
}

// A Priority is that of a channel's messages.
type Priority int

const (
	// Low is the default.
	Low Priority = iota
	// High channels send before low ones: as long as they have something to
	// send, the others wait.
	High
)

// A Channel is one of the independent sequences of messages of a [Conn]. Its
// methods may be called from several goroutines at once.
type Channel struct {
	c             *Conn
	number        int
	user          netconn.Side
	writeDeadline deadline.Deadline
	closed        bool // guarded by Conn.mu
	batch         bool // it is in Conn.pushed; guarded by Conn.mu
	writers       int  // calls that wait for room; guarded by Conn.mu
	least         int  // bytes of the smallest message of those; guarded by Conn.mu
}

var _ net.Conn = (*Channel)(nil)

// maxInbox is no limit: the core refuses what exceeds Config.ReceiveBuffer
// before it is acknowledged.
const maxInbox = math.MaxInt

func (ch *Channel) init(c *Conn, n int) {
	ch.c, ch.number = c, n
	var count func(int) bool
	if c.set.limits != nil {
		count = c.countChunk
	}
	ch.user.Init(c.dc, maxInbox, count)
}

// Number returns the channel's number.
func (ch *Channel) Number() int { return ch.number }

// Conn returns the connection.
func (ch *Channel) Conn() *Conn { return ch.c }

// Read waits for a message and copies it to b. If b is too short, Read fills
// it, drops the rest of the message and returns io.ErrShortBuffer with n =
// len(b). With an empty b it returns 0, nil at once. It returns io.EOF after the
// peer has closed the connection and what came before was read; an error that
// matches os.ErrDeadlineExceeded past the deadline, even if messages wait; one
// that matches net.ErrClosed after Close or the idle timeout.
func (ch *Channel) Read(b []byte) (n int, err error) {
	n, err = ch.user.Read(b)
	return n, ch.c.opError("read", err)
}

// ReadMessage waits for a message, appends it to dst, and returns the result.
// Its errors are those of Read, without io.ErrShortBuffer. An empty message
// leaves dst as it is.
func (ch *Channel) ReadMessage(dst []byte) ([]byte, error) {
	p, _, err := ch.user.ReadMessage(context.Background(), dst)
	return p, ch.c.opError("read", err)
}

// Write sends b as one reliable message. It waits while Config.SendBuffer has
// no room, and returns when the message is queued or sent; before the
// connection is established it is queued. It returns len(b), or 0 and the
// error: a *MessageTooLargeError, or one that matches os.ErrDeadlineExceeded or
// net.ErrClosed (and io.ErrClosedPipe, if it was the peer who closed).
func (ch *Channel) Write(b []byte) (int, error) {
	if _, err := ch.send(context.Background(), b, Reliable, time.Time{}, false); err != nil {
		return 0, ch.c.opError("write", err)
	}
	return len(b), nil
}

// Send sends b as one message and returns its number, by which its [Receipt]
// will name it. The context and the write deadline bound the wait for room;
// afterwards they mean nothing. A context that is over already matters only if
// there is no room; a deadline that has passed matters always. Errors are those of
// Write, a *[ModeError], and the context's.
// The first call turns receipts on.
func (ch *Channel) Send(ctx context.Context, b []byte, mode Mode) (id uint64, err error) {
	return ch.SendUntil(ctx, b, mode, time.Time{})
}

// SendUntil is Send for a message that is of no use after a time: from then on
// nothing of it is sent, or sent again, and its fate is Lost. Only a reliable
// message of which something has been sent before goes on, since what follows
// depends on it. The zero time is never.
func (ch *Channel) SendUntil(ctx context.Context, b []byte, mode Mode, expires time.Time) (id uint64, err error) {
	id, err = ch.send(ctx, b, mode, expires, true)
	return id, ch.c.opError("write", err)
}

// SetPriority sets the priority of the channel's messages, also of those that
// are queued. What is below [Low] is taken for Low, and what is above [High] for
// High.
func (ch *Channel) SetPriority(p Priority) {
	c := ch.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.last == nil {
		c.doLocked(c.now, call{kind: recording.Priority, args: [3]int64{int64(ch.number), truth(p >= High)}}, nil)
	}
}

// MaxMessageSize returns the largest message in bytes that Write takes.
func (ch *Channel) MaxMessageSize() int { return ch.c.MaxMessageSize() }

// KeepsOrder reports that what Write sends arrives completely and in the order of
// the Writes, which is always so; what Send sends in another mode may be lost.
// By this method, programs that take any net.Conn can tell message connections
// that keep order from others.
func (ch *Channel) KeepsOrder() bool { return true }

// LocalAddr returns the local address of the connection.
func (ch *Channel) LocalAddr() net.Addr { return ch.c.LocalAddr() }

// RemoteAddr returns the peer's address.
func (ch *Channel) RemoteAddr() net.Addr { return ch.c.RemoteAddr() }

// SetDeadline sets the deadlines of Read and of the calls that write. The zero
// time is none. A deadline concerns pending calls as well. After Close the error
// matches net.ErrClosed.
func (ch *Channel) SetDeadline(t time.Time) error { return ch.setDeadline(t, true, true) }

// SetReadDeadline sets the deadline of Read and ReadMessage.
func (ch *Channel) SetReadDeadline(t time.Time) error { return ch.setDeadline(t, true, false) }

// SetWriteDeadline sets the deadline of the calls that write.
func (ch *Channel) SetWriteDeadline(t time.Time) error { return ch.setDeadline(t, false, true) }

func (ch *Channel) setDeadline(t time.Time, read, write bool) error {
	c := ch.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if ch.closed {
		return c.opError("set", net.ErrClosed)
	}
	if err := ch.user.SetDeadlineLocked(&c.out, t, read, false); err != nil {
		return c.opError("set", err)
	}
	if write && c.out.Err() == nil { // else it has woken all writers for good
		ch.writeDeadline.Set(t)
	}
	return nil
}

// Close closes the channel on this side only, since the wire has no end of a
// channel: pending and later calls return an error that matches net.ErrClosed,
// messages that have been accepted are still sent, and those that arrive are
// dropped. The peer is not told. Closing channel 0 does not close the Conn.
func (ch *Channel) Close() error {
	c := ch.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if ch.closed {
		return nil
	}
	ch.closed = true
	ch.writeDeadline.Expire()
	ch.user.In.Fail(net.ErrClosed)
	c.notifyLocked()
	return nil
}

// send queues a message, and sends what may leave.
func (ch *Channel) send(ctx context.Context, b []byte, mode Mode, expires time.Time, receipts bool) (uint64, error) {
	c := ch.c
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		if err := ch.checkLocked(b, mode); err != nil {
			return 0, err
		}
		if receipts {
			c.armReceiptsLocked()
		}
		now, flood := c.timeOfWriteLocked()
		var until core.Clock
		if !expires.IsZero() {
			until = max(1, expires.Sub(c.born))
		}
		k := call{kind: recording.Send, args: [3]int64{int64(ch.number), int64(mode), int64(until)}, data: b}
		if id := c.doLocked(now, k, nil); id >= 0 {
			c.busyLocked(now)
			switch {
			case c.set.manual:
			case flood:
				c.gatherUnlocking(len(b), &ch.writeDeadline)
			default:
				c.out.PumpUnlocking(&ch.writeDeadline)
			}
			return uint64(id), nil
		}
		if err := ch.waitUnlocking(ctx, len(b)); err != nil {
			return 0, err
		}
	}
}

// checkLocked returns why a message cannot be sent now.
func (ch *Channel) checkLocked(b []byte, mode Mode) error {
	c := ch.c
	if err := c.writeErrorLocked(); err != nil {
		return err
	}
	switch {
	case ch.closed:
		return net.ErrClosed
	case ch.writeDeadline.Exceeded():
		return os.ErrDeadlineExceeded
	case len(b) > c.set.core.MaxPacket:
		return &MessageTooLargeError{Size: len(b), Max: c.set.core.MaxPacket}
	case mode < Reliable || mode > Passive:
		return &ModeError{mode}
	}
	return nil
}

// A ModeError is returned for a [Mode] that does not exist.
type ModeError struct{ Mode Mode }

func (e *ModeError) Error() string {
	return "porous: there is no mode " + strconv.Itoa(int(e.Mode))
}

// waitUnlocking waits until there may be room for n bytes.
func (ch *Channel) waitUnlocking(ctx context.Context, n int) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	passed := ch.writeDeadline.Arm()
	if ch.writers == 0 || n < ch.least {
		ch.least = n
	}
	ch.writers++
	ch.c.writers++
	defer func() {
		ch.writers--
		ch.c.writers--
		ch.writeDeadline.Disarm()
	}()
	if ch.c.awaitUnlocking(ctx.Done(), passed) == wokenCancel {
		return ctx.Err()
	}
	return nil // checkLocked sees the deadline
}
