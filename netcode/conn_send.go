package netcode

import (
	"errors"
	"time"

	"volley/internal/datagram"
	"volley/internal/wire"
)

var errEmptyBatch = errors.New("netcode: a payload has at least one byte")

// Write sends b as one payload. It returns len(b), or 0 and the error: a
// *[PayloadTooLargeError], or one that matches os.ErrDeadlineExceeded or
// net.ErrClosed (and io.ErrClosedPipe, if it was the peer who closed). An empty
// payload cannot be sent: Write returns 0, nil. That the network below refused
// the packet for the moment is not an error.
func (c *Conn) Write(b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	c.sendMu.Lock()
	defer c.sendMu.Unlock()
	if _, err := c.out.WriteUnlocking((*framer)(c), b); err != nil {
		return 0, c.opError("write", err)
	}
	return len(b), nil
}

func (f *framer) Lock()   { f.sendMu.Lock() }
func (f *framer) Unlock() { f.sendMu.Unlock() }

// Conn returns the connection below.
func (f *framer) Conn() datagram.Conn { return f.dc }

// Arrange leaves packets in the order of their sequence numbers.
func (f *framer) Arrange(b *wire.Batch) *wire.Batch { return b }

// Now returns the time since the session began.
func (f *framer) Now() time.Duration { return time.Since(f.born) }

// Check returns why a payload cannot be sealed.
func (f *framer) Check(b []byte) error {
	switch {
	case f.sess.send.exhausted():
		return errExhausted
	case len(b) > MaxPayload:
		return &PayloadTooLargeError{Size: len(b), Max: MaxPayload}
	}
	return nil
}

// Frame seals a payload.
func (f *framer) Frame(now time.Duration, b []byte, out *wire.Batch) (uint64, error) {
	(*Conn)(f).sealLocked(f.born.Add(now), b, out)
	return 0, nil
}

// RestUnlocking does nothing: nothing comes in for what is sent.
func (f *framer) RestUnlocking(time.Duration) {}

func (c *Conn) sealLocked(now time.Time, b []byte, out *wire.Batch) {
	c.sess.sendPayload(now, b, out)
	c.sent.add(len(b))
}

// WriteBatch sends each element of payloads as Write does, in as few system
// calls as the platform allows. It returns how many were sent; if not all,
// with the error that stopped it.
func (c *Conn) WriteBatch(payloads [][]byte) (n int, err error) {
	c.sendMu.Lock()
	defer c.sendMu.Unlock()
	if c.dc.Features().Waits {
		n, err = c.out.WriteBatchUnlocking((*framer)(c), payloads)
		return n, c.opError("write", err)
	}
	if err := c.out.AcquireUnlocking(c.out.Deadline()); err != nil {
		return 0, c.opError("write", err)
	}
	defer c.out.ReleaseUnlocking(c.out.Deadline())
	for n < len(payloads) && err == nil {
		var k int
		k, err = c.writeSomeUnlocking(payloads[n:])
		n += k
	}
	return n, c.opError("write", err)
}

// batchPayloads is how many payloads WriteBatch seals before it sends them.
const batchPayloads = 64

// writeSomeUnlocking sends some payloads; the caller is busy. What is not sent
// before the deadline is given up: a sequence number more or less does not
// matter.
func (c *Conn) writeSomeUnlocking(payloads [][]byte) (n int, err error) {
	out := datagram.GetBatch()
	defer datagram.PutBatch(out)
	if err := c.out.ClearUnlocking(c.out.Deadline()); err != nil {
		return 0, err
	}
	now, each := time.Now(), c.packetsLocked()
	for n < min(len(payloads), batchPayloads) {
		if err = c.checkLocked(payloads[n]); err != nil {
			break
		}
		if len(payloads[n]) > 0 {
			c.sealLocked(now, payloads[n], out)
		}
		n++
	}
	sent, e := c.out.TransmitUnlocking(out, c.out.Deadline())
	switch {
	case sent < out.Len():
		return indexOfPacket(payloads, sent/each), e
	case e != nil:
		return 0, e
	}
	return n, err
}

// checkLocked returns why a payload cannot be written now.
func (c *Conn) checkLocked(b []byte) error {
	if err := c.out.Check(); err != nil {
		return err
	}
	return (*framer)(c).Check(b)
}

// packetsLocked returns how many packets sealing a payload makes: until the
// client is known to have its index, a keep alive tells it before each.
func (c *Conn) packetsLocked() int {
	if c.sess.confirmed {
		return 1
	}
	return 2
}

// indexOfPacket returns which of payloads is in packet i: empty ones are in
// none.
func indexOfPacket(payloads [][]byte, i int) int {
	for n, p := range payloads {
		if len(p) > 0 {
			if i == 0 {
				return n
			}
			i--
		}
	}
	return len(payloads)
}

// sealBatchLocked seals what the layer above wants to send. It returns the first
// error; the rest is sealed all the same.
func (c *Conn) sealBatchLocked(now time.Time, from, out *wire.Batch) (first error) {
	for i := range from.Len() {
		switch b := from.At(i); {
		case len(b) > MaxPayload:
			first = &PayloadTooLargeError{Size: len(b), Max: MaxPayload}
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

// answer sends what the layer above has to say to what it was given, behind all
// that was sealed before. It does not wait for room.
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
