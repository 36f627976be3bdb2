package seq

// Bits is a ring with one bit for each of the last so many sequence numbers.
// Its size is a power of two and at least 64. Newer sequences have lower
// positions, so that a run of 32 of them is read in one go as the ack_bits of
// a header: bit i stands for the sequence i before the newest.
type Bits struct {
	words []uint64
}

// MakeBits returns a ring for at least n sequences; n is a power of two.
func MakeBits(n int) Bits { return Bits{make([]uint64, max(1, n/64))} }

// Size returns the number of bits.
func (b *Bits) Size() int { return len(b.words) * 64 }

// Bytes returns the memory held.
func (b *Bits) Bytes() int { return len(b.words) * 8 }

func (b *Bits) at(s uint16) (word int, bit uint64) {
	p := int(^s)
	return p >> 6 & (len(b.words) - 1), 1 << (p & 63)
}

// Set sets the bit of s.
func (b *Bits) Set(s uint16) {
	w, bit := b.at(s)
	b.words[w] |= bit
}

// Clear clears the bit of s.
func (b *Bits) Clear(s uint16) {
	w, bit := b.at(s)
	b.words[w] &^= bit
}

// Has reports whether the bit of s is set.
func (b *Bits) Has(s uint16) bool {
	w, bit := b.at(s)
	return b.words[w]&bit != 0
}

// Last32 returns the bits of s, s-1, ... s-31, that of s lowest.
func (b *Bits) Last32(s uint16) uint32 {
	p := int(^s)
	mask := len(b.words) - 1
	lo, hi := b.words[p>>6&mask], b.words[(p>>6+1)&mask]
	shift := p & 63
	return uint32(lo>>shift | hi<<1<<(63-shift))
}

// ClearRange clears the bits of s, s+1, ... s+n-1.
func (b *Bits) ClearRange(s uint16, n int) {
	if n >= b.Size() {
		clear(b.words)
		return
	}
	p := int(^(s + uint16(n-1))) // the newest of them, at the lowest position
	for n > 0 {
		off := p & 63
		run := min(n, 64-off)
		b.words[p>>6&(len(b.words)-1)] &^= (1<<run - 1) << off
		p += run
		n -= run
	}
}

// Resize returns a ring for n sequences with the keep bits that end with newest.
func (b *Bits) Resize(n int, newest uint16, keep int) Bits {
	c := MakeBits(n)
	for i := range keep {
		if s := newest - uint16(i); b.Has(s) {
			c.Set(s)
		}
	}
	return c
}
