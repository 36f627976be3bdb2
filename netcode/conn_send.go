package netcode

import (
	"errors"
	"io"
	"os"
	"time"

	"volley/internal/datagram"
	"volley/internal/deadline"
	"volley/internal/socket"
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
	if err := c.write(b); err != nil {
		return 0, c.opError("write", err)
	}
	return len(b), nil
}

func (c *Conn) write(b []byte) error {
	if err := c.waitRoom(b); err != nil {
		return err
	}
	if c.lossless {
		defer func() { c.writing <- struct{}{} }()
	}
	out := datagram.GetBatch()
	defer datagram.PutBatch(out)
	if err := c.seal(time.Now(), b, out); err != nil {
		return err
	}
	n, err := c.transmit(out, &c.writeDeadline)
	if n < out.Len() {
		return c.expired(b)
	}
	return err
}

// waitRoom waits, on a lossless link, until the peer has room for a payload.
// It then holds the token of writing.
func (c *Conn) waitRoom(b []byte) error {
	if !c.lossless {
		return nil
	}
	passed := c.writeDeadline.Arm()
	defer c.writeDeadline.Disarm()
	if err := c.check(b); err != nil {
		return err
	}
	select {
	case <-c.writing:
	case <-passed:
		return c.expired(b)
	}
	if err := c.dc.WaitWritable(len(b), passed); err != nil {
		c.writing <- struct{}{}
		if e := c.check(b); e != nil {
			return e
		}
		return err
	}
	return nil
}

// expired returns what a passed write deadline means: ends of sessions set it.
func (c *Conn) expired(b []byte) error {
	if err := c.check(b); err != nil {
		return err
	}
	return os.ErrDeadlineExceeded
}

func (c *Conn) check(b []byte) error {
	c.sendMu.Lock()
	defer c.sendMu.Unlock()
	return c.checkLocked(b)
}

// checkLocked returns why a payload cannot be written now.
func (c *Conn) checkLocked(b []byte) error {
	switch {
	case c.err == io.EOF:
		return datagram.ErrPeerClosed
	case c.err != nil:
		return c.err
	case c.sess.send.exhausted():
		return errExhausted
	case c.writeDeadline.Exceeded():
		return os.ErrDeadlineExceeded
	case len(b) > MaxPayload:
		return &PayloadTooLargeError{Size: len(b), Max: MaxPayload}
	}
	return nil
}

// seal appends the packet of one payload to out.
func (c *Conn) seal(now time.Time, b []byte, out *wire.Batch) error {
	c.sendMu.Lock()
	defer c.sendMu.Unlock()
	if err := c.checkLocked(b); err != nil {
		return err
	}
	c.sealLocked(now, b, out)
	return nil
}

func (c *Conn) sealLocked(now time.Time, b []byte, out *wire.Batch) {
	c.sess.sendPayload(now, b, out)
	c.sent.add(len(b))
}

// WriteBatch sends each element of payloads as Write does, in as few system
// calls as the platform allows. It returns how many were sent; if not all,
// with the error that stopped it.
func (c *Conn) WriteBatch(payloads [][]byte) (n int, err error) {
	if c.lossless {
		for ; n < len(payloads) && err == nil; n++ {
			_, err = c.Write(payloads[n])
		}
		if err != nil {
			n--
		}
		return n, err
	}
	for n < len(payloads) && err == nil {
		var k int
		k, err = c.writeSome(payloads[n:])
		n += k
	}
	return n, c.opError("write", err)
}

// batchPayloads is how many payloads WriteBatch seals before it sends them.
const batchPayloads = 64

func (c *Conn) writeSome(payloads [][]byte) (n int, err error) {
	out := datagram.GetBatch()
	defer datagram.PutBatch(out)
	now := time.Now()
	c.sendMu.Lock()
	for n < min(len(payloads), batchPayloads) {
		if err = c.checkLocked(payloads[n]); err != nil {
			break
		}
		if len(payloads[n]) > 0 {
			c.sealLocked(now, payloads[n], out)
		}
		n++
	}
	c.sendMu.Unlock()
	sent, e := c.transmit(out, &c.writeDeadline)
	switch {
	case sent < out.Len():
		return indexOfPacket(payloads, sent), c.expired(nil)
	case e != nil:
		return 0, e
	}
	return n, err
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

// sealBatch seals what the layer above wants to send, straight from its batch
// into that of the layer below. It returns the first error; the rest is sealed
// all the same.
func (c *Conn) sealBatch(now time.Time, from, out *wire.Batch) (first error) {
	if from.Len() == 0 {
		return nil
	}
	c.sendMu.Lock()
	defer c.sendMu.Unlock()
	if c.err != nil || c.sess.send.exhausted() {
		return c.checkLocked(nil)
	}
	for i := range from.Len() {
		switch b := from.At(i); {
		case len(b) > MaxPayload:
			first = &PayloadTooLargeError{Size: len(b), Max: MaxPayload}
		case len(b) == 0:
			first = errEmptyBatch
		default:
			c.sealLocked(now, b, out)
		}
	}
	return first
}

// transmit hands packets to the layer below. It returns how many: those from
// there on found no room until the deadline. Only an error that ends the
// connection is returned.
func (c *Conn) transmit(out *wire.Batch, d *deadline.Deadline) (n int, err error) {
	n, err = c.dc.WriteBatchBy(out, d)
	if n < out.Len() || socket.IsTransient(err) {
		err = nil
	}
	return n, err
}
