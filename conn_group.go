package volley

import (
	"volley/internal/datagram"
	"volley/internal/wire"
)

// groupReach is how many messages fragments may overtake; headers tell of 32. See ackLead.
const groupReach = 12

// groupFragments puts the longer first fragments in front, since a segmented send has one size.
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

// groupEnd returns the end of the group of whole messages that begins with datagram i.
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

// appendWhere appends those datagrams i to j-1 of b that are first fragments, or that are not.
func appendWhere(out, b *wire.Batch, i, j int, first bool) {
	for ; i < j; i++ {
		if d := b.At(i); isFirstFragment(d) == first {
			out.Append(d)
		}
	}
}
