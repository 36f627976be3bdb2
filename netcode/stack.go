package netcode

import (
	"errors"
	"io"
	"net"
	"os"
	"time"

	"volley/internal/datagram"
	"volley/internal/deadline"
	"volley/internal/wire"
)

// stacked is a Conn as the layer above sees it.
type stacked Conn

var _ datagram.Conn = (*stacked)(nil)

func init() {
	datagram.RegisterLayer(func(c *Conn) datagram.Conn { return (*stacked)(c) })
}

var errAttached = errors.New("netcode: another layer has taken the session over")

// Attach sets the layer above. It first gets the messages that nobody has read.
func (s *stacked) Attach(h datagram.Handler) error {
	c := (*Conn)(s)
	before := c.moves()
	if err := c.attach(time.Now(), h); err != nil {
		return err
	}
	if m, ok := h.(datagram.Mover); ok && c.moves() != before { // see takeOver, which may have come too early
		m.HandleMove(time.Now())
	}
	if err := c.failure(); err != nil { // the peer's end may have come before
		h.HandleClose(err)
	}
	return nil
}

// attach gives early messages to the layer above until none is left, in order.
func (c *Conn) attach(now time.Time, h datagram.Handler) error {
	c.recvMu.Lock()
	defer c.recvMu.Unlock()
	switch err := c.failure(); {
	case c.attached:
		return errAttached
	case err == net.ErrClosed:
		return err
	}
	c.attached = true
	for c.user.In.Len() > 0 {
		early := c.early()
		c.recvMu.Unlock()
		if len(early) > 0 {
			c.deliver(now, h, early)
		}
		c.recvMu.Lock()
		if len(early) == 0 {
			break // another goroutine reads, or Close was called
		}
	}
	c.upper = h
	c.user.In.Fail(errAttached)
	return nil
}

// early takes the messages that nobody has read.
func (c *Conn) early() (payloads [][]byte) {
	var none deadline.Deadline // the application's may have passed
	for c.user.In.Len() > 0 {
		p, err := c.user.In.ReadAppend(nil, &none)
		if err != nil {
			break
		}
		payloads = append(payloads, p)
	}
	return payloads
}

// failure returns why writes fail, nil while the session lives.
func (c *Conn) failure() error {
	c.sendMu.Lock()
	defer c.sendMu.Unlock()
	return c.out.Err()
}

// WriteBatch seals the datagrams of a batch and sends them.
func (s *stacked) WriteBatch(b *wire.Batch) error {
	_, err := s.WriteBatchBy(b, nil)
	return err
}

// WriteBatchBy implements datagram.Conn. Datagrams without room are sealed again later.
func (s *stacked) WriteBatchBy(b *wire.Batch, d *deadline.Deadline) (n int, err error) {
	c := (*Conn)(s)
	c.sendMu.Lock()
	defer c.sendMu.Unlock()
	if d == nil {
		d = c.out.Patience()
	}
	now := time.Now()
	switch err := c.out.Err(); {
	case err == io.EOF:
		return b.Len(), datagram.ErrPeerClosed
	case err != nil:
		return b.Len(), err
	case c.out.Busy() && !c.out.Full():
		c.out.Take()
		return b.Len(), c.sealBatchLocked(now, b, c.out.Batch(now.Sub(c.born)))
	}
	wait := d
	if !c.out.Busy() {
		wait = c.out.Patience() // there is no wait, so also callers that must not wait may send
	}
	if err := c.out.AcquireUnlocking(wait); err != nil {
		return c.unsentLocked(b, 0, err)
	}
	defer c.out.ReleaseUnlocking(d)
	if err := c.out.ClearUnlocking(d); err != nil {
		return c.unsentLocked(b, 0, err)
	}
	out := datagram.GetBatch()
	defer datagram.PutBatch(out)
	each := c.packetsLocked()
	first := c.sealBatchLocked(now, b, out)
	if n, err = c.out.TransmitUnlocking(out, d); n < out.Len() {
		return c.unsentLocked(b, n/each, err) // at most: datagrams that cannot be sealed are not in out
	}
	if first == nil {
		first = err
	}
	return b.Len(), first
}

// unsentLocked returns WriteBatchBy's result if only n have left. After the end all count.
func (c *Conn) unsentLocked(b *wire.Batch, n int, err error) (int, error) {
	if err != os.ErrDeadlineExceeded {
		n = b.Len()
	}
	return n, err
}

// Schedule asks for a tick of the layer above.
func (s *stacked) Schedule(at time.Time) {
	c := (*Conn)(s)
	c.upperBy(at)
	c.dc.Schedule(at)
}

func (s *stacked) WaitWritable(n int, cancel <-chan struct{}) error {
	return s.dc.WaitWritable(n, cancel)
}

// Stats returns the figures of the layer below.
func (s *stacked) Stats() datagram.Stats { return s.dc.Stats() }

// Features are those below, except that the session gathers, ticks, and has its own view.
func (s *stacked) Features() datagram.Features {
	f := s.dc.Features()
	f.Viewer = (*handler)(s)
	f.Glance = nil   // a layer comes later than the admission of the session
	f.Postpone = nil // the session has ticks, too
	if f.Gather != nil {
		f.Gather = s
	}
	return f
}

func (s *stacked) MaxDatagram() int     { return (*Conn)(s).MaxMessageSize() }
func (s *stacked) LocalAddr() net.Addr  { return (*Conn)(s).LocalAddr() }
func (s *stacked) RemoteAddr() net.Addr { return (*Conn)(s).RemoteAddr() }
func (s *stacked) Close() error         { return (*Conn)(s).Close() }
