package porous

import "time"

// A Fate is what became of a message.
type Fate int

const (
	// Delivered: the peer has acknowledged every part of the message, and of all
	// reliable messages before it on its channel. A reliable message can be read
	// there; an unreliable or passive one may have come too late, and be skipped.
	Delivered Fate = iota
	// Lost: a part of the message was not acknowledged and is not sent again,
	// its time was over, or the connection has ended, before this message or a
	// reliable one before it was acknowledged. Such a message may have arrived all
	// the same.
	Lost
)

func (f Fate) String() string {
	if f == Delivered {
		return "delivered"
	}
	return "lost"
}

// A Receipt says what became of one message.
type Receipt struct {
	ID      uint64        // as returned by Send
	Channel int           // the number of the channel it was sent on
	Fate    Fate          // Delivered or Lost, which is final
	RTT     time.Duration // from Send to the acknowledgement that made it Delivered; 0 if lost
}

// receipts is a bounded queue of receipts. There is none until somebody asks.
type receipts struct {
	max     int
	queue   []Receipt
	dropped uint64
}

func (r *receipts) add(x Receipt) {
	if len(r.queue) >= r.max {
		r.dropped++
		return
	}
	r.queue = append(r.queue, x)
}

// armReceiptsLocked turns receipts on.
func (c *Conn) armReceiptsLocked() {
	if c.receipts == nil && c.set.receipts > 0 {
		c.receipts = &receipts{max: c.set.receipts}
	}
}

// AppendReceipts appends the receipts that have come in since the last call, in
// the order of coming in, and returns the result. Every message that was sent
// after the first call of Send has exactly one, as far as Config.Receipts
// allows. It is also of use after the connection has ended.
func (c *Conn) AppendReceipts(dst []Receipt) []Receipt {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.armReceiptsLocked()
	if c.receipts == nil {
		return dst
	}
	dst = append(dst, c.receipts.queue...)
	c.receipts.queue = c.receipts.queue[:0]
	return dst
}
