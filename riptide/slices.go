package riptide

import "math"

// An Element is what slices of a message are made of.
type Element interface {
	bool | int8 | uint8 | int16 | uint16 | int32 | uint32 | int64 | uint64 | float32 | float64 | string
}

// AddSlice adds the length of v and its elements. [Slice] reads them.
//
// C# libraries from 2.1.0 to 2.1.2 cannot send slices of short and ushort, and
// read them all the same.
func AddSlice[T Element](m *Message, v []T) {
	m.addLength(len(v))
	AddArray(m, v)
}

// AddArray adds the elements of v without their number, which the receiver must
// know. [ReadArray] reads them.
func AddArray[T Element](m *Message, v []T) {
	switch v := any(v).(type) {
	case []bool:
		m.addBools(v)
	case []uint8:
		addRaw(m, v)
	case []int8:
		for _, x := range v {
			m.AddInt8(x)
		}
	case []int16:
		for _, x := range v {
			m.AddInt16(x)
		}
	case []uint16:
		for _, x := range v {
			m.AddUint16(x)
		}
	case []int32:
		for _, x := range v {
			m.AddInt32(x)
		}
	case []uint32:
		for _, x := range v {
			m.AddUint32(x)
		}
	case []int64:
		for _, x := range v {
			m.AddInt64(x)
		}
	case []uint64:
		for _, x := range v {
			m.AddUint64(x)
		}
	case []float32:
		for _, x := range v {
			m.AddFloat32(x)
		}
	case []float64:
		for _, x := range v {
			m.AddFloat64(x)
		}
	case []string:
		for _, x := range v {
			m.AddString(x)
		}
	}
}

// addBools adds one bit each. In the notes layout they fill whole bytes.
func (m *Message) addBools(v []bool) {
	for len(v) > 0 {
		n := min(64, len(v))
		var w uint64
		for i, x := range v[:n] {
			if x {
				w |= 1 << i
			}
		}
		m.put(w, m.wholeBits(n))
		v = v[n:]
	}
}

// Slice reads a length and as many elements. It returns nil if the message has
// an error, or if it ends too early.
func Slice[T Element](m *Message) []T {
	var zero T
	n := m.length(elementBits(zero))
	if m.err != nil {
		return nil
	}
	v := make([]T, n)
	if ReadArray(m, v); m.err != nil {
		return nil
	}
	return v
}

// elementBits is the least number of bits that an element takes.
func elementBits[T Element](zero T) int {
	switch any(zero).(type) {
	case bool:
		return 1
	case int16, uint16:
		return 16
	case int32, uint32, float32:
		return 32
	case int64, uint64, float64:
		return 64
	}
	return 8
}

// ReadArray reads as many elements as dst has. If the message ends too early it
// fails with [ErrMessageEnd], and the content of dst is unspecified.
func ReadArray[T Element](m *Message, dst []T) {
	switch v := any(dst).(type) {
	case []bool:
		m.readBools(v)
	case []uint8:
		if len(v) > m.Unread()/8 {
			m.Fail(ErrMessageEnd)
		}
		if m.err == nil {
			m.copyBytes(v)
		}
	case []int8:
		for i := range v {
			v[i] = m.Int8()
		}
	case []int16:
		for i := range v {
			v[i] = m.Int16()
		}
	case []uint16:
		for i := range v {
			v[i] = m.Uint16()
		}
	case []int32:
		for i := range v {
			v[i] = m.Int32()
		}
	case []uint32:
		for i := range v {
			v[i] = m.Uint32()
		}
	case []int64:
		for i := range v {
			v[i] = m.Int64()
		}
	case []uint64:
		for i := range v {
			v[i] = m.Uint64()
		}
	case []float32:
		for i := range v {
			v[i] = math.Float32frombits(uint32(m.take(32)))
		}
	case []float64:
		for i := range v {
			v[i] = m.Float64()
		}
	case []string:
		for i := range v {
			v[i] = m.String()
		}
	}
}

func (m *Message) readBools(v []bool) {
	for len(v) > 0 {
		n := min(64, len(v))
		w := m.take(m.wholeBits(n))
		for i := range v[:n] {
			v[i] = w>>i&1 == 1
		}
		v = v[n:]
	}
}
