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
	// Lost: no acknowledgement came before it would have come for sure, see
	// [Conn.AppendReceipts]. A few such messages have arrived all the same, if
	// acknowledgements were lost, if 64 or more messages right behind were lost or
	// had no room, or if the connection ended.
	Lost = reliable.FateLost
)

// A Receipt says what became of one message.
type Receipt struct {
	ID   uint64        // as returned by WriteMessage and WriteBatch
	Fate Fate          // Delivered or Lost
	RTT  time.Duration // from Write to acknowledgement; 0 if lost
}

// A receiptQueue is a bounded queue of receipts.
type receiptQueue[R any] struct {
	max        int
	queue      []R
	overflowed uint64
}

// put queues a receipt, and reports whether there was room.
func (q *receiptQueue[R]) put(x R) bool {
	if len(q.queue) >= q.max {
		q.overflowed++
		return false
	}
	q.queue = append(q.queue, x)
	return true
}

// take appends what is queued to dst, and empties the queue.
func (q *receiptQueue[R]) take(dst []R) []R {
	dst = append(dst, q.queue...)
	clear(q.queue)
	if cap(q.queue) > 1024 && len(q.queue) < 256 {
		q.queue = nil
	}
	q.queue = q.queue[:0]
	return dst
}

// receipts are those of a connection. There are none until somebody asks.
type receipts struct {
	receiptQueue[Receipt]

	// Those who wait, see waitUnlocking.
	ready   chan struct{} // one token; nil before anybody has waited
	waiting int
}

func (r *receipts) add(x Receipt) {
	if r != nil && r.put(x) {
		r.tell()
	}
}

// armReceiptsLocked turns receipts on, also for earlier messages still remembered.
func (c *Conn) armReceiptsLocked() {
	if c.receipts != nil || c.set.receipts == 0 {
		return
	}
	r := new(receipts)
	r.max = c.set.receipts
	c.receipts = r
	if c.out.Err() == nil {
		c.endpoint.inner().SentFates(func(id uint64, fate uint8, rtt time.Duration) {
			r.add(Receipt{ID: id, Fate: Fate(fate), RTT: rtt})
		})
	}
}

// AppendReceipts appends the receipts of all messages whose fate was decided
// since the last call to dst and returns the result. Each message gets exactly
// one receipt: when the peer acknowledges it, when it is presumed lost, or when
// the connection ends. They come in the order of the decisions.
//
// A message is presumed lost when the peer acknowledges a packet that was sent
// later by a margin of a little over a round trip. The margin grows if it proves too
// short. So a loss is known within about three round trips and the interval to the
// next message. Behind the last message
// before silence, probes ask for it. It is also lost when it leaves the window
// of 16,384 messages, and when nothing has told of it for Config.LostAfter. With a
// negative AckDelay, it is lost when the peer's acknowledgements are 64 packets
// past it.
//
// Receipts are kept from the first call of AppendReceipts or WriteMessage on,
// for recent messages also from before, up to Config.Receipts; what does not
// fit is counted in Stats.ReceiptsDropped. One call before the first Write or
// WriteBatch makes sure that none is missed. [Conn.WaitReceipts] waits for
// receipts where this returns at once.
func (c *Conn) AppendReceipts(dst []Receipt) []Receipt {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.armReceiptsLocked()
	if c.receipts == nil {
		return dst
	}
	return c.receipts.take(dst)
}
