package volley

import (
	"io"
	"time"

	"volley/internal/recording"
	"volley/internal/wire"
)

const (
	restEvery  = time.Millisecond       // at most so often a flood rests, ...
	restFor    = 20 * time.Microsecond  // ... for so long, ...
	restMost   = 640 * time.Microsecond // ... then for twice that, up to this, while nothing comes in,
	restInVain = 10 * time.Millisecond  // and then not for a while, see RestUnlocking
)

// Write sends b as one message. It returns len(b), or 0 and the error: a
// *MessageTooLargeError, one that matches os.ErrDeadlineExceeded or
// net.ErrClosed, io.ErrClosedPipe or a *[CloseError] after the peer has closed, or
// that ListenConfig.MaxMemory leaves no room for a first message. An empty message is
// not sent: Write returns 0, nil. That the network below refused a datagram for
// the moment is not an error; such a message is lost and counted in Stats.
func (c *Conn) Write(b []byte) (int, error) {
	if _, err := c.write(b, false); err != nil {
		return 0, c.opError("write", err)
	}
	return len(b), nil
}

// WriteMessage sends b as one message, as Write does, and returns its number,
// by which its [Receipt] will name it. The low 16 bits are its sequence number
// on the wire. An empty message is not sent and has no receipt: WriteMessage
// returns 0, nil. With an error
// the message was not sent. If it already had a number, as when the deadline passes
// while the socket has no room, the number is returned and gets a receipt. The first call turns receipts on.
func (c *Conn) WriteMessage(b []byte) (id uint64, err error) {
	id, err = c.write(b, true)
	return id, c.opError("write", err)
}

// WriteBatch sends each element of msgs as a message, in as few system calls as
// the platform allows, and returns when all have left. It returns how many of them
// it is done with; if not all, with the error that stopped it. An empty element
// counts, but is not sent.
//
// ids may be nil. Else it must be as long as msgs: WriteBatch turns receipts on, as
// [Conn.WriteMessage] does, and sets ids[:n] to the numbers of the messages, 0 for
// an empty one. A message with a number has a receipt even if WriteBatch fails. If
// ids is shorter, nothing is sent and the error matches io.ErrShortBuffer.
func (c *Conn) WriteBatch(ids []uint64, msgs [][]byte) (n int, err error) {
	if ids != nil && len(ids) < len(msgs) {
		return 0, c.opError("write", io.ErrShortBuffer)
	}
	c.seat.Flush() // or it would wait for what only the handler's end sends
	c.mu.Lock()
	defer c.mu.Unlock()
	if ids != nil {
		c.armReceiptsLocked()
	}
	n, err = c.out.WriteBatchUnlocking((*framer)(c), c.born(), ids, msgs)
	return n, c.opError("write", err)
}

func (c *Conn) write(b []byte, receipts bool) (id uint64, err error) {
	if c.seat.Taken() {
		if id, done, err := c.writeServed(b, receipts); done {
			return id, err
		}
	}
	c.mu.Lock()
	if receipts && len(b) > 0 {
		c.armReceiptsLocked()
	}
	id, err = c.out.WriteUnlocking((*framer)(c), c.born(), b)
	c.mu.Unlock()
	return id, err
}

// Arrange makes runs of datagrams of one size longer.
func (f *framer) Arrange(b *wire.Batch) *wire.Batch { return groupFragments(b) }

// Check refuses messages that are too large.
func (f *framer) Check(b []byte) error {
	if c := (*Conn)(f); len(b) > c.set.maxMessage {
		return &MessageTooLargeError{Size: len(b), Max: c.set.maxMessage}
	}
	return nil
}

// Frame gives a message to the endpoint. Its errors are Check's, or that memory is refused.
func (f *framer) Frame(now time.Duration, b []byte, out *wire.Batch) (uint64, error) {
	if err := f.Check(b); err != nil {
		return 0, err
	}
	c := (*Conn)(f)
	t := c.at(now)
	if c.asking && c.set.packets && c.set.protocol != 0 {
		c.askLocked(now, out) // first, so that it is known whose the message is
	}
	id, err := c.do(recording.Send, t, b, out)
	if err != nil {
		return 0, err
	}
	if c.asking {
		c.askLocked(now, out)
	}
	c.counts.messagesSent++
	c.lastSent, c.lastMessage = now, max(c.lastMessage, now)
	c.activeLocked(now)
	if c.endpoint.InFlight() == 1 && (c.tickAt == 0 || c.tickAt-now > tickSoon) {
		c.scheduleLocked(t, now) // else those before it have seen to that
	}
	return uint64(id), nil
}

// RestUnlocking lets acknowledgements in when so much waits for them that the window will
// soon forget some. With all processors busy, the scheduler looks at sockets only each 10
// ms, in which a flood sends more than a window holds.
func (f *framer) RestUnlocking(now time.Duration) {
	c := (*Conn)(f)
	before := c.endpoint.InFlight()
	if before < c.set.reliable.MaxWindow/2 || c.set.reliable.MaxWindow == 0 || now < c.extraLocked().restAt {
		return
	}
	for d := restFor; d <= restMost; d *= 2 {
		c.mu.Unlock()
		time.Sleep(d)
		c.mu.Lock()
		if c.endpoint.InFlight() < before {
			c.extraLocked().restAt = c.now() + restEvery
			return
		}
	}
	c.extraLocked().restAt = c.now() + restInVain
}
