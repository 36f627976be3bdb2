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
// long as something arrives of every 32,000 messages. After a longer gap, with a
// peer that has started again, and with one that was taken up in mid-stream
// (ListenConfig.AdmitMidStream), only the low 16 bits are the peer's own; later
// numbers are still larger than those before.
func (c *Conn) ReadMessageID(dst []byte) (msg []byte, id uint64, err error) {
	msg, id, err = c.user.ReadMessage(context.Background(), dst)
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
		if c.rare != nil {
			refused = c.rare.misfits.passed(before, number)
		}
		if empty && missing > refused {
			missing--
		}
		if missing > 0 {
			r := c.rareLocked()
			r.missing += missing
			r.missing -= min(r.missing, refused)
		}
	case number < before && c.rare != nil && c.rare.missing > 0:
		c.rare.missing--
	}
}

// numberLocked returns the number of a packet that the endpoint has accepted:
// one within the window behind the newest, or one ahead of it. A peer that has
// started again counts as ahead, too, for the endpoint believes that only of
// sequences outside of the window.
func (c *Conn) numberLocked(sequence uint16) uint64 {
	behind := uint64(uint16(c.newest) - sequence)
	switch {
	case behind >= uint64(c.set.window) || c.newest == 0:
		c.newest += uint64(sequence - uint16(c.newest))
		return c.newest
	case behind > c.newest:
		return 0 // from before the first that was heard of a peer in mid-stream
	}
	return c.newest - behind
}
