package volley

import (
	"time"

	"volley/reliable"
)

// A Fate is what became of a message.
type Fate = reliable.Fate

const (
	// Delivered: the peer has acknowledged the message, after its Conn had
	// queued it for Read.
	Delivered = reliable.FateDelivered
	// Lost: no acknowledgement came before it would have come for sure. A
	// few such messages have arrived all the same, when acknowledgements were
	// lost or the connection ended.
	Lost = reliable.FateLost
)

// A Receipt says what became of one message.
type Receipt struct {
	ID   uint64        // as returned by WriteMessage
	Fate Fate          // Delivered or Lost
	RTT  time.Duration // from Write to acknowledgement; 0 if lost
}

// receipts is a bounded queue of receipts, off until somebody asks.
type receipts struct {
	on         bool
	max        int
	queue      []Receipt
	overflowed uint64
}

func (r *receipts) add(x Receipt) {
	switch {
	case !r.on:
	case len(r.queue) >= r.max:
		r.overflowed++
	default:
		r.queue = append(r.queue, x)
	}
}

// armReceiptsLocked turns receipts on, and makes those of messages that were
// written before as far as their fate is still remembered.
func (c *Conn) armReceiptsLocked() {
	r := &c.receipts
	if r.on || c.set.receipts == 0 {
		return
	}
	r.on, r.max = true, c.set.receipts
	if c.err == nil {
		c.endpoint.SentFates(func(id uint64, fate Fate, rtt time.Duration) {
			r.add(Receipt{ID: id, Fate: fate, RTT: rtt})
		})
	}
}

// AppendReceipts appends the receipts of all messages whose fate was decided
// since the last call to dst and returns the result. Each message gets exactly
// one receipt: when the peer acknowledges it, when that has become impossible,
// or when the connection ends. They come in the order of the decisions.
//
// Receipts are kept from the first call of AppendReceipts or WriteMessage on,
// for recent messages also from before, up to Config.Receipts; what does not
// fit is counted in Stats.ReceiptsDropped. One call before the first Write or
// WriteBatch makes sure that none is missed.
func (c *Conn) AppendReceipts(dst []Receipt) []Receipt {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.armReceiptsLocked()
	dst = append(dst, c.receipts.queue...)
	if cap(c.receipts.queue) > 1024 && len(c.receipts.queue) < 256 {
		c.receipts.queue = nil
	}
	c.receipts.queue = c.receipts.queue[:0]
	return dst
}
