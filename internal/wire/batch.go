// Package wire holds what all wire formats of volley share: Batch, the
// reusable list of datagrams that a protocol core writes to, and helpers that
// append and consume little-endian integers.
package wire

// A Batch is a reusable list of datagrams in one contiguous piece of memory,
// so that a run of datagrams of equal size can be given to the kernel as one
// buffer (UDP_SEGMENT). The zero value is an empty batch ready to use. A Batch
// is not safe for concurrent use.
type Batch struct {
	buf  []byte
	ends []int32
}

// Len returns the number of datagrams in b.
func (b *Batch) Len() int { return len(b.ends) }

// Size returns the number of bytes of all datagrams in b.
func (b *Batch) Size() int { return len(b.buf) }

// Cap returns the number of bytes of memory that b holds on to.
func (b *Batch) Cap() int { return cap(b.buf) + 4*cap(b.ends) }

// At returns datagram i, to be overwritten at most, until the next change.
func (b *Batch) At(i int) []byte {
	start, end := b.start(i), int(b.ends[i])
	return b.buf[start:end:end]
}

func (b *Batch) start(i int) int {
	if i == 0 {
		return 0
	}
	return int(b.ends[i-1])
}

// Extend adds n unspecified bytes for the caller to fill. Earlier datagrams become invalid.
func (b *Batch) Extend(n int) []byte {
	start := len(b.buf)
	end := start + n
	if end > cap(b.buf) {
		b.grow(end)
	}
	b.buf = b.buf[:end]
	b.ends = append(b.ends, int32(end))
	return b.buf[start:end:end]
}

// grow makes room for n bytes, in powers of two, so that it soon stops allocating.
func (b *Batch) grow(n int) {
	c := max(256, 2*cap(b.buf))
	for c < n {
		c *= 2
	}
	buf := make([]byte, len(b.buf), c)
	copy(buf, b.buf)
	b.buf = buf
}

// Append adds a copy of the datagram p.
func (b *Batch) Append(p []byte) { copy(b.Extend(len(p)), p) }

// Truncate drops all datagrams from number n on.
func (b *Batch) Truncate(n int) {
	if n < len(b.ends) {
		b.buf = b.buf[:b.start(n)]
		b.ends = b.ends[:n]
	}
}

// Reset empties b and keeps its memory.
func (b *Batch) Reset() {
	b.buf = b.buf[:0]
	b.ends = b.ends[:0]
}

// Run returns the longest run from datagram i on for one segmented send, at least one: one
// size, the last perhaps shorter, at most maxSegments and maxBytes. It returns the bytes,
// the size, and the next datagram.
func (b *Batch) Run(i, maxSegments, maxBytes int) (run []byte, segment, next int) {
	start, end := b.start(i), int(b.ends[i])
	segment = end - start
	next = i + 1
	for next < len(b.ends) && next-i < maxSegments {
		e := int(b.ends[next])
		size := e - end
		if size > segment || size == 0 || e-start > maxBytes {
			break
		}
		end = e
		next++
		if size < segment {
			break
		}
	}
	return b.buf[start:end:end], segment, next
}
