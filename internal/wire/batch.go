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

// At returns datagram i. It is valid until the next call of Extend, Append or
// Reset, and may be overwritten but not appended to.
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

// Extend adds a datagram of n bytes and returns it for the caller to fill. Its
// content is unspecified. Datagrams returned earlier become invalid.
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

// grow makes room for n bytes, in powers of two so that a batch in use soon
// stops allocating.
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

// Shrink shortens the last datagram to n bytes, for a writer that reserved
// more than it needed.
func (b *Batch) Shrink(n int) {
	last := len(b.ends) - 1
	end := b.start(last) + n
	b.buf = b.buf[:end]
	b.ends[last] = int32(end)
}

// Reset empties b and keeps its memory.
func (b *Batch) Reset() {
	b.buf = b.buf[:0]
	b.ends = b.ends[:0]
}

// Run returns the longest run of datagrams from number i on that one segmented send
// can carry. All have one size, except that the last one may be shorter. A run has
// at most maxSegments datagrams and maxBytes bytes, and at least one datagram. Run
// returns its bytes, the segment size, and the number of the first datagram behind.
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
