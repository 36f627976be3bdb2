package riptide

import (
	"encoding/binary"
	"math"
	"unicode/utf8"
)

// Uint8 reads a byte.
func (m *Message) Uint8() uint8 { return uint8(m.take(8)) }

// Int8 reads an sbyte.
func (m *Message) Int8() int8 { return int8(m.take(8)) }

// Uint16 reads a ushort.
func (m *Message) Uint16() uint16 { return uint16(m.take(16)) }

// Int16 reads a short.
func (m *Message) Int16() int16 { return int16(m.take(16)) }

// Uint32 reads a uint.
func (m *Message) Uint32() uint32 { return uint32(m.take(32)) }

// Int32 reads an int.
func (m *Message) Int32() int32 { return int32(m.take(32)) }

// Uint64 reads a ulong.
func (m *Message) Uint64() uint64 { return m.take(64) }

// Int64 reads a long.
func (m *Message) Int64() int64 { return int64(m.take(64)) }

// Float32 reads a float.
func (m *Message) Float32() float32 { return math.Float32frombits(uint32(m.take(32))) }

// Float64 reads a double.
func (m *Message) Float64() float64 { return math.Float64frombits(m.take(64)) }

// Bool reads a bool. In the notes layout only a byte of 1 is true.
func (m *Message) Bool() bool {
	if m.layout == Notes {
		return m.take(8) == 1
	}
	return m.take(1) == 1
}

// Uvarint reads a varulong. Longer forms of a number than necessary are
// accepted.
func (m *Message) Uvarint() uint64 {
	v := m.take(8)
	if v < 0x80 {
		return v
	}
	v &= 0x7f
	for shift := 7; ; shift += 7 {
		g := m.take(8)
		v |= g & 0x7f << (shift & 63) // as C# shifts
		if g < 0x80 {
			break
		}
	}
	if m.err != nil {
		return 0
	}
	return v
}

// Varint reads a varlong.
func (m *Message) Varint() int64 {
	v := m.Uvarint()
	return int64(v>>1) ^ -int64(v&1)
}

// length reads a length, and checks that as many elements of at least so many
// bits are left.
func (m *Message) length(elementBits int) int {
	var n uint64
	if m.layout == Packed {
		n = m.Uvarint()
	} else {
		if n = m.take(8); n >= 0x80 {
			n = n&0x7f<<8 | m.take(8)
		}
	}
	if n > uint64(m.Unread()/elementBits) {
		m.Fail(ErrMessageEnd)
	}
	if m.err != nil {
		return 0
	}
	return int(n)
}

// String reads a string. Bytes that are not valid UTF-8 become U+FFFD each.
//
// It is not a description of the message: that is what package fmt prints.
func (m *Message) String() string {
	n := m.length(8)
	if n == 0 {
		return ""
	}
	if m.pos&7 == 0 {
		b := m.buf[m.pos>>3:][:n]
		m.pos += 8 * n
		return toString(b)
	}
	var short [64]byte
	b := short[:min(n, len(short))]
	if n > len(short) {
		b = make([]byte, n)
	}
	m.copyBytes(b)
	return toString(b)
}

func toString(b []byte) string {
	if !utf8.Valid(b) {
		return string([]rune(string(b)))
	}
	return string(b)
}

// Bytes reads a length and as many bytes. [ReadArray] reads bytes that have no
// length.
func (m *Message) Bytes() []byte {
	n := m.length(8)
	if m.err != nil {
		return nil
	}
	b := make([]byte, n)
	m.copyBytes(b)
	return b
}

// AppendBytes reads a length and as many bytes, or a string, appends them to
// dst as they are, and returns the result.
func (m *Message) AppendBytes(dst []byte) []byte {
	n := m.length(8)
	start := len(dst)
	dst = append(dst, make([]byte, n)...)
	m.copyBytes(dst[start:])
	return dst
}

// copyBytes reads bytes that are known to be there.
func (m *Message) copyBytes(dst []byte) {
	p := m.pos
	m.pos += 8 * len(dst)
	if p&7 == 0 {
		copy(dst, m.buf[p>>3:])
		return
	}
	for len(dst) >= 8 {
		binary.LittleEndian.PutUint64(dst, m.fetch(p))
		dst = dst[8:]
		p += 64
	}
	for i := range dst {
		dst[i] = byte(m.fetch(p))
		p += 8
	}
}

// Bits reads n bits, 1 to 64. In the notes layout they take as many bytes as
// they need.
func (m *Message) Bits(n int) uint64 {
	if n < 1 || n > 64 {
		m.Fail(ErrRange)
		return 0
	}
	return m.take(m.wholeBits(n)) & (1<<n - 1)
}

// SkipBits passes over n bits. In the notes layout they take as many bytes as
// they need.
func (m *Message) SkipBits(n int) {
	if n < 0 {
		m.Fail(ErrRange)
		return
	}
	if n <= m.Unread() { // so that rounding up does not overflow
		n = m.wholeBits(n)
	}
	if m.has(n) {
		m.pos += n
	}
}

// PeekBits returns n bits, 1 to 64, from the given position in the payload on,
// without moving the place of the next read. Bits beyond the end of the message
// are [ErrRange].
func (m *Message) PeekBits(at, n int) uint64 {
	if m.err != nil {
		return 0
	}
	if n < 1 || n > 64 || at < 0 || at > m.end-m.origin-n {
		m.Fail(ErrRange)
		return 0
	}
	return m.fetch(m.origin+at) & (1<<n - 1)
}
