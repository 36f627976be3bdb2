package porous

import "time"

// A Fate is what became of a message. The zero Fate is unknown.
type Fate int

const (
	// Delivered: the peer has acknowledged every part of the message, and of all
	// reliable messages before it on its channel. The peer can read a reliable
	// message. It may have skipped another one, which came too late.
	Delivered Fate = 1 + iota
	// Lost: nobody knows whether the message has arrived, because
	//
	//   - a part of it was not acknowledged and is not sent again,
	//   - or its time was over,
	//   - or the connection ended before the message, or an earlier reliable one of
	//     its channel, was acknowledged.
	Lost
)

func (f Fate) String() string {
	switch f {
	case Delivered:
		return "delivered"
	case Lost:
		return "lost"
	}
	return "unknown"
}

// A Receipt says what became of one message.
type Receipt struct {
	ID      uint64        // as returned by WriteMessage
	Channel int           // the number of the channel it was sent on
	Fate    Fate          // Delivered or Lost, which is final
	RTT     time.Duration // from WriteMessage to the acknowledgement that made it Delivered; 0 if lost
}

// receipts is a bounded queue of receipts. It is made when somebody asks for them.
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

func (c *Conn) armReceiptsLocked() {
	if c.receipts == nil && c.set.receipts > 0 {
		c.receipts = &receipts{max: c.set.receipts}
	}
}

// AppendReceipts appends the receipts that have come in since the last call to dst,
// in the order in which they came, and returns the result. Every message that was
// sent after the first call of WriteMessage has exactly one, as far as
// Config.Receipts allows. It also works after the connection has ended.
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
