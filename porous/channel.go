package porous

import (
	"context"
	"fmt"
	"math"
	"net"
	"os"
	"time"

	"volley/internal/deadline"
	"volley/internal/netconn"
	"volley/internal/recording"
	"volley/porous/internal/core"
)

// A Mode says how much is done to make a message arrive.
type Mode int

const (
	// Reliable messages all arrive, once, and in order. Later messages of the
	// channel wait for them.
	Reliable Mode = 1 + iota
	// Unreliable messages are sent once. A lost one is missing.
	Unreliable
	// Passive messages are sent again until they are acknowledged, but the
	// receiver does not wait for them: it skips one that comes too late.
	Passive
)

// A Channel is one of the independent sequences of messages of a [Conn], and a
// net.Conn itself. Its methods may be called from several goroutines at once;
// messages of concurrent Writes do not mix.
type Channel struct {
	c             *Conn
	number        int
	user          netconn.Side
	writeDeadline deadline.Deadline

	// Guarded by Conn.mu.
	closed  bool
	ended   bool // the end of its byte stream was sent
	batch   bool // it is in Conn.pushed
	writers int  // calls that wait for room
	least   int  // bytes of the smallest message of those
}

var _ net.Conn = (*Channel)(nil)

// maxInbox is no limit: the core refuses what exceeds Config.ReceiveBuffer.
const maxInbox = math.MaxInt

func (ch *Channel) init(c *Conn, n int) {
	ch.c, ch.number = c, n
	var count func(int) bool
	if c.set.limits != nil {
		count = c.countChunk
	}
	ch.user.Init(c.out.Below, maxInbox, count)
}

// Read waits for a message and copies it to b. If b is too short, Read fills
// it, drops the rest of the message and returns io.ErrShortBuffer with n =
// len(b). With an empty b it returns 0, nil at once.
//
// After the peer has closed the connection, Read returns the messages that came before,
// and then io.EOF. Past the deadline the error matches os.ErrDeadlineExceeded, even if
// messages wait. After Close it matches net.ErrClosed.
func (ch *Channel) Read(b []byte) (n int, err error) {
	n, err = ch.user.Read(b)
	return n, ch.c.opError("read", err)
}

// ReadMessage waits for a message, appends it to dst, and returns the result. Its
// errors are those of Read, without io.ErrShortBuffer, and the context's.
func (ch *Channel) ReadMessage(ctx context.Context, dst []byte) ([]byte, error) {
	p, _, err := ch.user.ReadMessage(ctx, dst)
	return p, ch.c.opError("read", err)
}

// Write sends b as one reliable message. It waits while Config.SendBuffer has
// no room, and returns when the message is queued or sent. Before the handshake
// is done, messages are queued. It returns len(b), or 0 and an error. That is a
// *[MessageTooLargeError], or matches os.ErrDeadlineExceeded or net.ErrClosed. If
// the peer has closed the connection, it also matches io.ErrClosedPipe.
func (ch *Channel) Write(b []byte) (int, error) {
	if _, err := ch.send(context.Background(), message{data: b, mode: Reliable}); err != nil {
		return 0, ch.c.opError("write", err)
	}
	return len(b), nil
}

// WriteMessage sends b as one message and returns its id, which is also in its
// [Receipt]. The first call turns receipts on. The context and the write deadline
// bound the wait for room, and nothing else. A deadline that has passed is always an
// error, a context that has ended only if there is no room. Errors are those of
// Write, the context's, and a *[ConfigError] for a Mode that does not exist.
func (ch *Channel) WriteMessage(ctx context.Context, b []byte, mode Mode) (id uint64, err error) {
	return ch.WriteMessageUntil(ctx, b, mode, time.Time{})
}

// WriteMessageUntil is WriteMessage for a message that is useless after a time: after
// it nothing of the message is sent, or sent again, and its fate is Lost. A
// reliable message of which a part was sent before is sent to the end, because later
// ones depend on it. The zero time is never.
func (ch *Channel) WriteMessageUntil(ctx context.Context, b []byte, mode Mode, expires time.Time) (id uint64, err error) {
	id, err = ch.send(ctx, message{data: b, mode: mode, expires: expires, receipt: true})
	return id, ch.c.opError("write", err)
}

// SetHighPriority says whether the channel's messages are sent before those of
// other channels, also those that are queued. Off by default. As long as channels of
// high priority have something to send, the others wait (see Config.LowShare).
func (ch *Channel) SetHighPriority(high bool) {
	c := ch.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.last == nil {
		c.doLocked(c.now, call{kind: recording.Priority, args: [3]int64{int64(ch.number), truth(high)}}, nil)
	}
}

// MaxMessageSize returns the largest message in bytes that Write takes.
func (ch *Channel) MaxMessageSize() int { return ch.c.set.core.MaxPacket }

// KeepsOrder reports whether everything that Write sends arrives, in the order of
// the Writes. On a Channel that is always so. Programs that take any net.Conn can
// look for this method.
func (ch *Channel) KeepsOrder() bool { return true }

// LocalAddr returns the local address of the connection.
func (ch *Channel) LocalAddr() net.Addr { return ch.c.out.Below.LocalAddr() }

// RemoteAddr returns the peer's address.
func (ch *Channel) RemoteAddr() net.Addr { return ch.c.out.Below.RemoteAddr() }

// SetDeadline sets the deadlines of the calls that read and of those that write, also
// of pending ones. The zero time is none. After Close the error matches net.ErrClosed.
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

// Close closes the channel at this side only, because the protocol has no end of a
// channel. Pending and later calls return an error that matches net.ErrClosed.
// Messages that have been accepted are still sent; those that arrive are dropped.
// The peer is not told. Closing channel 0 does not close the Conn.
func (ch *Channel) Close() error {
	c := ch.c
	c.mu.Lock()
	defer c.mu.Unlock()
	ch.closeLocked()
	return nil
}

func (ch *Channel) closeLocked() bool {
	if ch.closed {
		return false
	}
	ch.closed = true
	ch.writeDeadline.Expire()
	ch.user.In.Fail(net.ErrClosed)
	ch.c.notifyLocked()
	return true
}

// A message is one to send.
type message struct {
	data    []byte
	mode    Mode
	expires time.Time // zero: never
	receipt bool      // receipts are wanted
	end     bool      // it ends the byte stream of the channel
}

// send queues a message, and sends what may leave.
func (ch *Channel) send(ctx context.Context, m message) (uint64, error) {
	c := ch.c
	c.mu.Lock()
	defer c.mu.Unlock()
	return ch.sendUnlocking(ctx, m)
}

func (ch *Channel) sendUnlocking(ctx context.Context, m message) (uint64, error) {
	c, patience := ch.c, &ch.writeDeadline
	if ch.closed {
		patience = nil // for the end of a stream; it has expired
	}
	for {
		if err := ch.checkLocked(m); err != nil {
			return 0, err
		}
		if m.receipt {
			c.armReceiptsLocked()
		}
		now, flood := c.timeOfWriteLocked()
		var until core.Clock
		if !m.expires.IsZero() {
			until = max(1, m.expires.Sub(c.born))
		}
		k := call{kind: recording.Send, args: [3]int64{int64(ch.number), int64(m.mode - Reliable), int64(until)}, data: m.data}
		if id := c.doLocked(now, k, nil); id >= 0 {
			ch.ended = m.end // it was false: checkLocked has looked
			c.busyLocked(now)
			switch {
			case c.set.manual:
			case flood:
				c.gatherUnlocking(len(m.data), patience)
			default:
				c.out.PumpUnlocking(patience)
			}
			return uint64(id), nil
		}
		if err := ch.waitUnlocking(ctx, len(m.data), patience); err != nil {
			return 0, err
		}
	}
}

// checkLocked returns why a message cannot be sent now.
func (ch *Channel) checkLocked(m message) error {
	c := ch.c
	if err := c.writeErrorLocked(); err != nil {
		return err
	}
	switch {
	case ch.ended, ch.closed && !m.end:
		return net.ErrClosed
	case !ch.closed && ch.writeDeadline.Exceeded():
		return os.ErrDeadlineExceeded
	case len(m.data) > c.set.core.MaxPacket:
		return &MessageTooLargeError{Size: len(m.data), Max: c.set.core.MaxPacket}
	case m.mode < Reliable || m.mode > Passive:
		return &ConfigError{Field: "mode", Reason: fmt.Sprintf("there is no Mode %d", int(m.mode))}
	}
	return nil
}

// waitUnlocking waits until there may be room for n bytes.
func (ch *Channel) waitUnlocking(ctx context.Context, n int, d *deadline.Deadline) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	var passed <-chan struct{}
	if d != nil {
		passed = d.Arm()
		defer d.Disarm()
	}
	if ch.writers == 0 || n < ch.least {
		ch.least = n
	}
	ch.writers++
	ch.c.writers++
	w := ch.c.awaitUnlocking(ctx.Done(), passed)
	ch.writers--
	ch.c.writers--
	if w == wokenCancel {
		return ctx.Err()
	}
	return nil // checkLocked sees the deadline
}
