package volley

import (
	"volley/internal/datagram"
	"volley/internal/wire"
)

// groupReach is how many messages fragments may overtake. Their first fragments
// show the peer new sequence numbers, and its headers speak of the last 32
// only. Package reliable knows that so many are usual, see ackLead there.
const groupReach = 12

// groupFragments puts the first fragments of messages in front of the other
// datagrams. The first one of a message is longer than the rest, for it has
// the header of the whole, and a segmented send takes datagrams of one size:
// message by message, a run would end at each of them.
func groupFragments(b *wire.Batch) *wire.Batch {
	first := 0
	for i := range b.Len() {
		if isFirstFragment(b.At(i)) {
			first++
		}
	}
	if first < 2 {
		return b
	}
	out := datagram.GetBatch()
	for i := 0; i < b.Len(); {
		next := groupEnd(b, i)
		appendWhere(out, b, i, next, true)
		appendWhere(out, b, i, next, false)
		i = next
	}
	datagram.PutBatch(b)
	return out
}

// groupEnd returns the end of the group of whole messages that begins with
// datagram i.
func groupEnd(b *wire.Batch, i int) int {
	for messages := 0; i < b.Len(); i++ {
		if !wire.StartsPacket(b.At(i)) {
			continue
		}
		if messages == groupReach {
			break
		}
		messages++
	}
	return i
}

func isFirstFragment(d []byte) bool {
	return wire.IsFragment(d) && wire.StartsPacket(d)
}

// appendWhere appends those of the datagrams i to j-1 of b to out that are
// first fragments, or those that are not.
func appendWhere(out, b *wire.Batch, i, j int, first bool) {
	for ; i < j; i++ {
		if d := b.At(i); isFirstFragment(d) == first {
			out.Append(d)
		}
	}
}
