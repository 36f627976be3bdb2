package netcode

import (
	"errors"
	"time"

	"volley/internal/datagram"
	"volley/internal/wire"
)

var errEmptyBatch = errors.New("netcode: a message has at least one byte")

// Write sends b as one message. An empty b sends nothing. The error is a
// *[MessageTooLargeError], or matches os.ErrDeadlineExceeded, net.ErrClosed after Close,
// io.ErrClosedPipe after the peer's Close, or [ErrIdleTimeout]. It is no error if the
// network refuses the packet for the moment.
func (c *Conn) Write(b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	if c.seat.Taken() {
		if done, err := c.writeServed(b); err != nil {
			return 0, c.opError("write", err)
		} else if done {
			return len(b), nil
		}
	}
	c.sendMu.Lock()
	defer c.sendMu.Unlock()
	if _, err := c.out.WriteUnlocking((*framer)(c), c.born, b); err != nil {
		return 0, c.opError("write", err)
	}
	return len(b), nil
}

// Arrange leaves packets in the order of their sequence numbers.
func (f *framer) Arrange(b *wire.Batch) *wire.Batch { return b }

// Check returns why a message cannot be sealed.
func (f *framer) Check(b []byte) error {
	switch {
	case f.sess.send.exhausted():
		return errExhausted
	case len(b) > (*Conn)(f).MaxMessageSize():
		return &MessageTooLargeError{Size: len(b), Max: (*Conn)(f).MaxMessageSize()}
	}
	return nil
}

func (f *framer) Frame(now time.Duration, b []byte, out *wire.Batch) (uint64, error) {
	if err := f.Check(b); err != nil {
		return 0, err
	}
	(*Conn)(f).sealLocked(f.born.Add(now), b, out)
	return 0, nil
}

// RestUnlocking does nothing, because nothing has to be read while we send.
func (f *framer) RestUnlocking(time.Duration) {}

func (c *Conn) sealLocked(now time.Time, b []byte, out *wire.Batch) {
	if c.owner != nil {
		c.noteAskedLocked(now)
		c.sess.sendBanded(now, applicationBand, b, out)
	} else {
		c.sess.sendPayload(now, b, out)
	}
	c.sent.add(len(b))
}

// WriteBatch sends each of msgs as Write does, in as few system calls as the platform
// allows. It returns how many it has sent, and if not all, the error that stopped it.
func (c *Conn) WriteBatch(msgs [][]byte) (n int, err error) {
	c.seat.Flush()
	c.sendMu.Lock()
	defer c.sendMu.Unlock()
	if c.dc.Features().Waits {
		n, err = c.out.WriteBatchUnlocking((*framer)(c), c.born, nil, msgs)
		return n, c.opError("write", err)
	}
	if err := c.out.AcquireUnlocking(c.out.Deadline()); err != nil {
		return 0, c.opError("write", err)
	}
	defer c.out.ReleaseUnlocking(c.out.Deadline())
	for n < len(msgs) && err == nil {
		var k int
		k, err = c.writeSomeUnlocking(msgs[n:])
		n += k
	}
	return n, c.opError("write", err)
}

// batchMessages is how many messages WriteBatch seals before it sends them.
const batchMessages = 64

// writeSomeUnlocking sends messages; the caller is busy. Late packets are given up.
func (c *Conn) writeSomeUnlocking(msgs [][]byte) (n int, err error) {
	out := datagram.GetBatch()
	defer datagram.PutBatch(out)
	if err := c.out.ClearUnlocking(c.out.Deadline()); err != nil {
		return 0, err
	}
	now, each := time.Now(), c.packetsLocked()
	for n < min(len(msgs), batchMessages) {
		if err = c.out.Check(); err == nil {
			err = (*framer)(c).Check(msgs[n])
		}
		if err != nil {
			break
		}
		if len(msgs[n]) > 0 {
			c.sealLocked(now, msgs[n], out)
		}
		n++
	}
	sent, e := c.out.TransmitUnlocking(out, c.out.Deadline())
	switch {
	case sent < out.Len():
		return indexOfPacket(msgs, sent/each), e
	case e != nil:
		return 0, e
	}
	return n, err
}

// packetsLocked returns how many packets a message takes, with keep alives at first.
func (c *Conn) packetsLocked() int {
	if c.sess.confirmed {
		return 1
	}
	return 2
}

// indexOfPacket returns which of msgs is in packet i. Empty ones are in none.
func indexOfPacket(msgs [][]byte, i int) int {
	for n, p := range msgs {
		if len(p) > 0 {
			if i == 0 {
				return n
			}
			i--
		}
	}
	return len(msgs)
}

// sealBatchLocked seals the datagrams of the layer above. It returns the first error.
func (c *Conn) sealBatchLocked(now time.Time, from, out *wire.Batch) (first error) {
	for i := range from.Len() {
		switch b := from.At(i); {
		case len(b) > c.MaxMessageSize():
			first = &MessageTooLargeError{Size: len(b), Max: c.MaxMessageSize()}
		case len(b) == 0:
			first = errEmptyBatch
		case c.sess.send.exhausted():
			return errExhausted
		default:
			c.sealLocked(now, b, out)
		}
	}
	return first
}

// answer sends the answers of the layer above in order. It does not wait for room.
func (c *Conn) answer(now time.Time, from *wire.Batch) {
	if from.Len() == 0 {
		return
	}
	c.sendMu.Lock()
	defer c.sendMu.Unlock()
	if c.out.Err() != nil || c.out.Crowded() {
		return
	}
	before := c.out.Pending()
	c.sealBatchLocked(now, from, c.out.Batch(now.Sub(c.born)))
	c.out.Answered()
	c.out.SendFreshUnlocking(before)
}
