package netcode

import (
	"errors"
	"net"
	"time"

	"volley/internal/datagram"
	"volley/internal/deadline"
	"volley/internal/wire"
)

// DatagramConn returns the connection for another layer of volley to stack on,
// which takes the Conn over. It is not for other use.
func (c *Conn) DatagramConn() datagram.Conn { return (*stacked)(c) }

// stacked is a Conn as the layer above sees it.
type stacked Conn

var (
	_ datagram.InlineConn = (*stacked)(nil)

	errAttached = errors.New("netcode: another layer has taken the session over")
)

// Attach gives the layer above. Payloads that nobody has read are handed over
// first.
func (s *stacked) Attach(h datagram.Handler) error {
	c := (*Conn)(s)
	out := datagram.GetBatch()
	defer datagram.PutBatch(out)
	if err := c.attach(time.Now(), h, out); err != nil {
		return err
	}
	if err := c.failure(); err != nil { // the peer's end may have come before
		h.HandleClose(err)
		return nil
	}
	return c.transmit(out)
}

func (c *Conn) attach(now time.Time, h datagram.Handler, out *wire.Batch) error {
	c.recvMu.Lock()
	defer c.recvMu.Unlock()
	switch err := c.failure(); {
	case c.upper != nil:
		return errAttached
	case err == net.ErrClosed:
		return err
	}
	c.upper = h
	var early [][]byte
	var none deadline.Deadline // those of Read are not the upper layer's
	for c.in.Len() > 0 {
		p, err := c.in.ReadAppend(nil, &none)
		if err != nil {
			break
		}
		early = append(early, p)
	}
	if len(early) > 0 {
		c.deliverLocked(now, early, out)
	}
	c.in.Fail(errAttached)
	return nil
}

// failure returns why writes fail, nil while the session lives.
func (c *Conn) failure() error {
	c.sendMu.Lock()
	defer c.sendMu.Unlock()
	return c.err
}

// WriteBatch seals the datagrams of a batch and sends them.
func (s *stacked) WriteBatch(b *wire.Batch) error {
	c := (*Conn)(s)
	out := datagram.GetBatch()
	defer datagram.PutBatch(out)
	first := c.sealBatch(time.Now(), b, out)
	if err := c.dc.WriteBatch(out); first == nil {
		first = err
	}
	return first
}

// Schedule asks for a call of the layer above.
func (s *stacked) Schedule(at time.Time) {
	c := (*Conn)(s)
	c.upperBy(at)
	c.dc.Schedule(at)
}

func (s *stacked) WaitWritable(n int, cancel <-chan struct{}) error {
	return s.dc.WaitWritable(n, cancel)
}

// ReadInline has the socket below read.
func (s *stacked) ReadInline(d *deadline.Deadline, r datagram.Readers) bool {
	below, ok := s.dc.(datagram.InlineConn)
	return ok && below.ReadInline(d, r)
}

func (s *stacked) InterruptInline(r datagram.Readers) {
	if below, ok := s.dc.(datagram.InlineConn); ok {
		below.InterruptInline(r)
	}
}

// Stats returns what happened below the session.
func (s *stacked) Stats() datagram.Stats {
	if below, ok := s.dc.(interface{ Stats() datagram.Stats }); ok {
		return below.Stats()
	}
	return datagram.Stats{}
}

// Lossless reports whether the link below delivers everything.
func (s *stacked) Lossless() bool       { return s.lossless }
func (s *stacked) MaxDatagram() int     { return MaxPayload }
func (s *stacked) LocalAddr() net.Addr  { return (*Conn)(s).LocalAddr() }
func (s *stacked) RemoteAddr() net.Addr { return (*Conn)(s).RemoteAddr() }
func (s *stacked) Close() error         { return (*Conn)(s).Close() }
