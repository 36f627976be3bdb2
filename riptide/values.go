package riptide

import (
	"math"
	"math/bits"
	"unicode/utf8"
)

// AddUint8 adds a byte.
func (m *Message) AddUint8(v uint8) { m.put(uint64(v), 8) }

// AddInt8 adds an sbyte.
func (m *Message) AddInt8(v int8) { m.put(uint64(uint8(v)), 8) }

// AddUint16 adds a ushort.
func (m *Message) AddUint16(v uint16) { m.put(uint64(v), 16) }

// AddInt16 adds a short.
func (m *Message) AddInt16(v int16) { m.put(uint64(uint16(v)), 16) }

// AddUint32 adds a uint.
func (m *Message) AddUint32(v uint32) { m.put(uint64(v), 32) }

// AddInt32 adds an int.
func (m *Message) AddInt32(v int32) { m.put(uint64(uint32(v)), 32) }

// AddUint64 adds a ulong.
func (m *Message) AddUint64(v uint64) { m.put(v, 64) }

// AddInt64 adds a long.
func (m *Message) AddInt64(v int64) { m.put(uint64(v), 64) }

// AddFloat32 adds a float, bit for bit.
func (m *Message) AddFloat32(v float32) { m.put(uint64(math.Float32bits(v)), 32) }

// AddFloat64 adds a double, bit for bit.
func (m *Message) AddFloat64(v float64) { m.put(math.Float64bits(v), 64) }

// AddBool adds a bool: one bit, or a byte in the notes layout.
func (m *Message) AddBool(v bool) {
	n := 1
	if m.layout == Notes {
		n = 8
	}
	if v {
		m.put(1, n)
	} else {
		m.put(0, n)
	}
}

// AddUvarint adds a varulong: 7 bits a byte, the lowest first, with the top bit
// set in all but the last; 1 byte below 128, at most 10.
func (m *Message) AddUvarint(v uint64) {
	if v < 0x80 {
		m.put(v, 8)
		return
	}
	if !m.room(8 * uvarintSize(v)) {
		return
	}
	for ; v >= 0x80; v >>= 7 {
		m.put(v&0x7f|0x80, 8)
	}
	m.put(v, 8)
}

// uvarintSize returns the length of a varulong above 0 in bytes.
func uvarintSize(v uint64) int { return (bits.Len64(v) + 6) / 7 }

// AddVarint adds a varlong: the sign moves to the lowest bit, so that 0, -1, 1,
// -2 become 0, 1, 2, 3, and a varulong follows.
//
// C# libraries up to 2.2.1 misread values below -1<<62 and above 1<<62 - 1.
func (m *Message) AddVarint(v int64) { m.AddUvarint(uint64(v)<<1 ^ uint64(v>>63)) }

// maxNotesLength is the largest length that the notes layout can express.
const maxNotesLength = 1<<15 - 1

// addLength adds the length of a slice or string.
func (m *Message) addLength(n int) {
	switch {
	case m.layout == Packed:
		m.AddUvarint(uint64(n))
	case n > maxNotesLength:
		m.Fail(ErrRange)
	case n < 0x80:
		m.put(uint64(n), 8)
	default: // the high byte first
		m.put(uint64(n>>8|0x80|n&0xff<<8), 16)
	}
}

// AddString adds a string: the length of its UTF-8 in bytes, and these. Bytes
// that are not valid UTF-8 are replaced by U+FFFD each.
func (m *Message) AddString(s string) {
	if !utf8.ValidString(s) {
		s = string([]rune(s))
	}
	m.addLength(len(s))
	addRaw(m, s)
}

// AddBytes adds the length of b and its bytes. [AddArray] adds them without a
// length.
func (m *Message) AddBytes(b []byte) {
	m.addLength(len(b))
	addRaw(m, b)
}

// addRaw adds bytes.
func addRaw[S string | []byte](m *Message, s S) {
	n := len(s)
	if n > (m.limit-m.end)/8 {
		m.failFull()
	}
	if n == 0 || !m.room(8*n) {
		return
	}
	b, shift := m.buf[m.end>>3:], m.end&7
	m.end += 8 * n
	if shift == 0 {
		copy(b, s)
		return
	}
	carry := b[0] & (1<<shift - 1)
	i := 0
	if n >= 8 {
		copy(b[1:], s)
		i, carry = shiftWords(b, n, shift, carry)
	}
	for ; i < n; i++ {
		c := s[i]
		b[i] = c<<shift | carry
		carry = c >> (8 - shift)
	}
	b[n] = carry
}

// AddBits adds the n lowest bits of v; n is 1 to 64, or the message fails with
// [ErrRange]. In the notes layout they take as many bytes as they need.
func (m *Message) AddBits(v uint64, n int) {
	if n < 1 || n > 64 {
		m.Fail(ErrRange)
		return
	}
	m.put(v&(1<<n-1), m.wholeBits(n))
}

// wholeBits returns how many bits a field of n bits takes.
func (m *Message) wholeBits(n int) int {
	if m.layout == Notes {
		return (n + 7) &^ 7
	}
	return n
}

// ReserveBits adds n zero bits, to be set later with [Message.SetBits], and
// returns their position in the payload. In the notes layout they take as many
// bytes as they need.
func (m *Message) ReserveBits(n int) (at int) {
	at = m.end - m.origin
	if n < 0 {
		m.Fail(ErrRange)
		return at
	}
	if n > m.limit-m.end {
		m.failFull()
		return at
	}
	for n = m.wholeBits(n); n > 0; n -= 64 {
		m.put(0, min(n, 64))
	}
	return at
}

// SetBits overwrites n bits, 1 to 64, from the given position in the payload on
// with the lowest of v. They must have been added before, or the message fails
// with [ErrRange].
func (m *Message) SetBits(at int, v uint64, n int) {
	if m.err != nil {
		return
	}
	if n < 1 || n > 64 || at < 0 || at > m.end-m.origin-n {
		m.Fail(ErrRange)
		return
	}
	mask := uint64(1)<<n - 1
	v &= mask
	p := m.origin + at
	i, s := p>>3, p&7
	b := m.buf[i : i+9]
	for k := range b { // byte by byte: what is around stays
		lo := 8*k - s // the bit of v at the start of byte k
		switch {
		case lo < 0:
			b[k] = b[k]&^byte(mask<<s) | byte(v<<s)
		case lo < 64:
			b[k] = b[k]&^byte(mask>>lo) | byte(v>>lo)
		}
	}
}

// AddMessage adds what has not been read of another message, without a length.
// Both must be of the same layout. Without one, which is nil, m fails.
func (m *Message) AddMessage(inner *Message) {
	if inner == nil {
		m.Fail(errNilMessage)
		return
	}
	if inner.layout != m.layout {
		m.Fail(ErrLayout)
		return
	}
	m.Fail(inner.err)
	if inner.Unread() > m.limit-m.end {
		m.failFull()
		return
	}
	p := inner.pos
	for p < inner.end {
		n := min(64, inner.end-p)
		m.put(inner.fetch(p)&(1<<n-1), n)
		p += n
	}
}
