package riptide

import (
	"encoding/binary"
	"math"
	"math/bits"
	"unicode/utf8"
)

// A Number is a number of a fixed size. C# calls these types byte, sbyte,
// ushort, short, uint, int, ulong, long, float and double.
type Number interface {
	uint8 | int8 | uint16 | int16 | uint32 | int32 | uint64 | int64 | float32 | float64
}

// Add adds a number, bit for bit.
func Add[T Number](m *Message, v T) { addNumber(m, v) }

// Read reads a number.
func Read[T Number](m *Message) T { return readNumber[T](m) }

// addNumber is Add for callers whose T may be another type.
func addNumber[T any](m *Message, v T) {
	switch v := any(v).(type) {
	case uint8:
		m.put(uint64(v), 8)
	case int8:
		m.put(uint64(uint8(v)), 8)
	case uint16:
		m.put(uint64(v), 16)
	case int16:
		m.put(uint64(uint16(v)), 16)
	case uint32:
		m.put(uint64(v), 32)
	case int32:
		m.put(uint64(uint32(v)), 32)
	case float32:
		m.put(uint64(math.Float32bits(v)), 32)
	case uint64:
		m.put(v, 64)
	case int64:
		m.put(uint64(v), 64)
	case float64:
		m.put(math.Float64bits(v), 64)
	}
}

// readNumber is Read for callers whose T may be another type.
func readNumber[T any](m *Message) (v T) {
	switch p := any(&v).(type) {
	case *uint8:
		*p = uint8(m.take(8))
	case *int8:
		*p = int8(m.take(8))
	case *uint16:
		*p = uint16(m.take(16))
	case *int16:
		*p = int16(m.take(16))
	case *uint32:
		*p = uint32(m.take(32))
	case *int32:
		*p = int32(m.take(32))
	case *float32:
		*p = math.Float32frombits(uint32(m.take(32)))
	case *uint64:
		*p = m.take(64)
	case *int64:
		*p = int64(m.take(64))
	case *float64:
		*p = math.Float64frombits(m.take(64))
	}
	return v
}

// AddBool adds a bool: one bit, or a byte in the notes layout.
func (m *Message) AddBool(v bool) {
	var bit uint64
	if v {
		bit = 1
	}
	m.put(bit, m.wholeBits(1))
}

// ReadBool reads a bool. In the notes layout only a byte of 1 is true.
func (m *Message) ReadBool() bool { return m.take(m.wholeBits(1)) == 1 }

// AddUvarint adds a varulong: 7 bits a byte, the lowest first. The top bit is
// set in all bytes except the last. It takes 1 to 10 bytes.
func (m *Message) AddUvarint(v uint64) {
	if v < 0x80 {
		m.put(v, 8)
		return
	}
	if !m.room((bits.Len64(v) + 6) / 7 * 8) {
		return
	}
	for ; v >= 0x80; v >>= 7 {
		m.put(v&0x7f|0x80, 8)
	}
	m.put(v, 8)
}

// ReadUvarint reads a varulong. Longer forms of a number than necessary are
// accepted.
func (m *Message) ReadUvarint() uint64 {
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

// AddVarint adds a varlong: the numbers 0, -1, 1, -2 become the varulongs 0,
// 1, 2, 3.
//
// C# libraries up to 2.2.1 misread values below -1<<62 and above 1<<62 - 1.
func (m *Message) AddVarint(v int64) { m.AddUvarint(uint64(v)<<1 ^ uint64(v>>63)) }

// ReadVarint reads a varlong.
func (m *Message) ReadVarint() int64 {
	v := m.ReadUvarint()
	return int64(v>>1) ^ -int64(v&1)
}

// maxNotesLength is the largest length that the notes layout can express.
const maxNotesLength = 1<<15 - 1

func (m *Message) addLength(n int) {
	switch {
	case m.layout == packed:
		m.AddUvarint(uint64(n))
	case n > maxNotesLength:
		m.Fail(ErrRange)
	case n < 0x80:
		m.put(uint64(n), 8)
	default: // the high byte first
		m.put(uint64(n>>8|0x80|n&0xff<<8), 16)
	}
}

// readLength reads a length, and checks that so many elements are left.
func (m *Message) readLength(elementBits int) int {
	var n uint64
	if m.layout == packed {
		n = m.ReadUvarint()
	} else if n = m.take(8); n >= 0x80 {
		n = n&0x7f<<8 | m.take(8)
	}
	if n > uint64(m.Unread()/elementBits) {
		m.Fail(errMessageEnd)
	}
	if m.err != nil {
		return 0
	}
	return int(n)
}

// AddString adds a string: the length of its UTF-8 in bytes, and the bytes.
// Each byte that is not valid UTF-8 becomes U+FFFD.
func (m *Message) AddString(s string) {
	if !utf8.ValidString(s) {
		s = string([]rune(s))
	}
	m.addLength(len(s))
	addRaw(m, s)
}

// ReadString reads a string. Each byte that is not valid UTF-8 becomes U+FFFD.
func (m *Message) ReadString() string {
	n := m.readLength(8)
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

// ReadAppend reads a string or a slice of bytes, appends its bytes to dst, and
// returns the result.
func (m *Message) ReadAppend(dst []byte) []byte {
	n := m.readLength(8)
	start := len(dst)
	dst = append(dst, make([]byte, n)...)
	m.copyBytes(dst[start:])
	return dst
}

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

// shiftWords moves n bytes from b[1] to b[0], shifted left, and returns bytes done and carry.
func shiftWords(b []byte, n, shift int, carry byte) (done int, rest byte) {
	c := uint64(carry)
	for n-done >= 8 {
		w := binary.LittleEndian.Uint64(b[done+1:])
		binary.LittleEndian.PutUint64(b[done:], w<<shift|c)
		c = w >> (64 - shift)
		done += 8
	}
	return done, byte(c)
}

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

// wholeBits returns how many bits a field of n bits takes.
func (m *Message) wholeBits(n int) int {
	if m.layout == notes {
		return (n + 7) &^ 7
	}
	return n
}

// AddBits adds the n lowest bits of v; n is 1 to 64. In the notes layout they
// take whole bytes.
func (m *Message) AddBits(v uint64, n int) {
	if n < 1 || n > 64 {
		m.Fail(ErrRange)
		return
	}
	m.put(v&(1<<n-1), m.wholeBits(n))
}

// ReadBits reads n bits, 1 to 64.
func (m *Message) ReadBits(n int) uint64 {
	if n < 1 || n > 64 {
		m.Fail(ErrRange)
		return 0
	}
	return m.take(m.wholeBits(n)) & (1<<n - 1)
}

// SkipBits passes over n bits. In the notes layout they take whole bytes.
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

// inPayload reports whether n bits, 1 to 64, are there. If not, the message fails with ErrRange.
func (m *Message) inPayload(at, n int) bool {
	if n < 1 || n > 64 || at < 0 || at > m.end-m.origin-n {
		m.Fail(ErrRange)
	}
	return m.err == nil
}

// PeekBits returns n bits, 1 to 64, at a position in the payload. The next read
// stays where it is. If the payload has no such bits, the message fails with
// [ErrRange].
func (m *Message) PeekBits(at, n int) uint64 {
	if !m.inPayload(at, n) {
		return 0
	}
	return m.fetch(m.origin+at) & (1<<n - 1)
}

// SetBits overwrites n bits, 1 to 64, at a position in the payload with the
// lowest of v. If the payload has no such bits, the message fails with
// [ErrRange].
func (m *Message) SetBits(at int, v uint64, n int) {
	if !m.inPayload(at, n) {
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

// AddRest adds the unread part of another message of the same layout, without
// a length.
func (m *Message) AddRest(of *Message) {
	if of == nil {
		m.Fail(errNilMessage)
		return
	}
	if of.layout != m.layout {
		m.Fail(errLayout)
		return
	}
	m.Fail(of.err)
	if of.Unread() > m.limit-m.end {
		m.failFull()
		return
	}
	p := of.pos
	for p < of.end {
		n := min(64, of.end-p)
		m.put(of.fetch(p)&(1<<n-1), n)
		p += n
	}
}
