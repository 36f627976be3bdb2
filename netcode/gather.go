package netcode

import (
	"io"
	"time"

	"volley/internal/datagram"
	"volley/internal/deadline"
	"volley/internal/outbox"
	"volley/internal/wire"
)

// Gather implements datagram.Gatherer, with the Gathering's spare batch for the layer above.
func (s *stacked) Gather(g *datagram.Gathering) *wire.Batch {
	b := g.Scratch()
	b.Reset()
	return b
}

// Gathered implements datagram.Gatherer: WriteBatch, but the packets leave with g.
func (s *stacked) Gathered(g *datagram.Gathering, from datagram.Sender) {
	c := (*Conn)(s)
	below := c.dc.Features().Gather
	out := below.Gather(g)
	switch how, err := c.gather(g.Now(), g.Scratch(), out, from); how {
	case outbox.Framed:
		below.Gathered(g, (*gathered)(c))
	case outbox.Blocked:
		g.Flush() // otherwise the write might wait for ourselves
		if from == nil {
			s.WriteBatch(g.Scratch())
		} else {
			from.Sent(g.Scratch(), nil) // as if the socket had no room
		}
	default:
		if from != nil {
			from.Sent(nil, err)
		}
	}
}

// gather seals b into out, or behind what is pending, for from. After an error, none is sent.
func (c *Conn) gather(now time.Time, b, out *wire.Batch, from datagram.Sender) (outbox.Gathered, error) {
	c.sendMu.Lock()
	defer c.sendMu.Unlock()
	switch err := c.out.Err(); {
	case err == io.EOF:
		return outbox.Refused, datagram.ErrPeerClosed
	case err != nil:
		return outbox.Refused, err
	}
	how := c.out.Begin()
	switch how {
	case outbox.Queued:
		c.out.Take()
		return how, c.sealBatchLocked(now, b, c.out.Batch(now.Sub(c.born)))
	case outbox.Framed:
		before := out.Len()
		if err := c.sealBatchLocked(now, b, out); err != nil {
			out.Truncate(before)
			c.out.ReleaseUnlocking(c.out.Patience())
			return outbox.Refused, err
		}
		c.above = from
	}
	return how, nil
}

// A gathered is a Conn with gathered packets.
type gathered Conn

// Sent implements datagram.Sender. Packets without room are pending again, and count as sent.
func (s *gathered) Sent(unsent *wire.Batch, err error) {
	c := (*Conn)(s)
	c.sendMu.Lock()
	above := c.above
	c.above = nil
	c.out.SentUnlocking(unsent, nil, deadline.Passed())
	c.sendMu.Unlock()
	if above != nil {
		above.Sent(nil, err)
	}
}
