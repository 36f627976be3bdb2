package volley

import "context"

// ReadMessageID is [Conn.ReadMessage], and also returns the message's number: the
// one that the peer's WriteMessage returned for it. Of two messages the one with
// the larger number was written later. So a program that wants only the newest
// state remembers the largest number so far and drops what is below, and needs no
// counter in the payload. Numbers are not without gaps: packets that only
// acknowledge have some, too.
//
// The wire carries the low 16 bits and the rest is counted here, which holds as
// long as something arrives of every 32,000 messages. In three cases only the low
// 16 bits are the peer's own: after a longer gap, with a peer that has started
// again, and with a peer that was taken up in mid-stream
// (ListenConfig.AdmitMidStream). Later numbers are still larger than those before.
func (c *Conn) ReadMessageID(ctx context.Context, dst []byte) (msg []byte, id uint64, err error) {
	msg, id, err = c.user.ReadMessage(ctx, dst)
	return msg, id, c.opError("read", err)
}

// believedGap is the longest gap that is taken for packets that have been lost. A
// longer one is a peer that has started again, or was taken up in mid-stream.
const believedGap = 1 << 14

// noteGapLocked counts the packets between that of a number and the newest one
// before it, or takes one out that has come late. What is before the first packet
// that was heard is from a time when perhaps nobody listened. A peer that asks for
// an acknowledgement leaves a sequence out, so that the one before an empty packet
// was perhaps never sent. What was refused for its size has come.
func (c *Conn) noteGapLocked(before, number uint64, empty bool) {
	switch {
	case before > 0 && number > before+1 && number-before <= believedGap:
		missing, refused := number-before-1, uint64(0)
		if c.extra() != nil {
			refused = c.extra().rejected.passed(before, number)
		}
		if empty && missing > refused {
			missing--
		}
		if missing > 0 {
			r := c.extraLocked()
			r.missing += missing
			r.missing -= min(r.missing, refused)
		}
	case number < before && c.extra() != nil && c.extra().missing > 0:
		c.extra().missing--
	}
}

// numberLocked returns an accepted packet's number, within the window or ahead of the newest.
func (c *Conn) numberLocked(sequence uint16) uint64 {
	behind := uint64(uint16(c.newest) - sequence)
	n := c.endpoint.inner().Renewals()
	anew := c.newest == 0 || n != c.renewals
	if !anew && behind < uint64(c.set.window) {
		return c.newest - behind
	}
	if anew {
		c.newest += firstID
		c.renewals = n
	}
	c.newest += uint64(sequence - uint16(c.newest))
	return c.newest
}

// firstID is the least number of a first message. Its low 16 bits are the first sequence.
const firstID = 1 << 16

// firstID returns the number of a first packet, with a random sequence from 1 to 32,511, the
// reference's range. It tells apart connections that had an address one after the other.
// Those that do as the reference begin at 0.
func (s *settings) firstID() uint64 {
	switch {
	case !s.reliable.MidStream:
		return firstID
	case s.firstSequence != nil:
		return firstID + uint64(s.firstSequence())
	}
	return firstID + 1 + newToken()%32_511
}
