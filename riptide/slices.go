package riptide

// AddSlice adds the length of v and its elements.
//
// C# libraries from 2.1.0 to 2.1.2 can read slices of short and ushort, but
// not send them.
func AddSlice[T Number | bool | string](m *Message, v []T) {
	m.addLength(len(v))
	AddArray(m, v)
}

// ReadSlice reads a length and as many elements. It returns nil if the message
// has an error or ends too early.
func ReadSlice[T Number | bool | string](m *Message) []T {
	var zero T
	n := m.readLength(elementBits(zero))
	if m.err != nil {
		return nil
	}
	v := make([]T, n)
	if ReadArray(m, v); m.err != nil {
		return nil
	}
	return v
}

// AddArray adds the elements of v without their number, which the receiver must
// know.
func AddArray[T Number | bool | string](m *Message, v []T) {
	switch s := any(v).(type) {
	case []bool:
		m.addBools(s)
	case []uint8:
		addRaw(m, s)
	case []string:
		for _, x := range s {
			m.AddString(x)
		}
	default:
		for _, x := range v {
			addNumber(m, x)
		}
	}
}

// ReadArray reads as many elements as dst has. If the message ends too early,
// it has an error, and the content of dst is unspecified.
func ReadArray[T Number | bool | string](m *Message, dst []T) {
	switch s := any(dst).(type) {
	case []bool:
		m.readBools(s)
	case []uint8:
		if len(s) > m.Unread()/8 {
			m.Fail(errMessageEnd)
		}
		if m.err == nil {
			m.copyBytes(s)
		}
	case []string:
		for i := range s {
			s[i] = m.ReadString()
		}
	default:
		for i := range dst {
			dst[i] = readNumber[T](m)
		}
	}
}

func elementBits[T any](zero T) int {
	switch any(zero).(type) {
	case bool:
		return 1
	case uint8, int8, string:
		return 8
	case uint16, int16:
		return 16
	case uint32, int32, float32:
		return 32
	}
	return 64
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

// A Marshaler is a type that adds its own values to a message.
type Marshaler interface {
	MarshalRiptide(*Message)
}

// An Unmarshaler is a type that reads its own values from a message. It reports
// values out of range with [Message.Fail].
type Unmarshaler interface {
	UnmarshalRiptide(*Message)
}

// AddValue adds v. Nothing in the message tells its type.
func (m *Message) AddValue(v Marshaler) { v.MarshalRiptide(m) }

// ReadValue reads v.
func (m *Message) ReadValue(v Unmarshaler) { v.UnmarshalRiptide(m) }

// AddValues adds the length of vs and the values of each.
func AddValues[T Marshaler](m *Message, vs []T) {
	m.addLength(len(vs))
	for _, v := range vs {
		v.MarshalRiptide(m)
	}
}

// ReadValues reads a length and as many values. It returns nil if the message
// has an error or ends too early. Each value must take at least one bit, because
// a length is refused if it is larger than the number of bits left.
func ReadValues[T any, P interface {
	*T
	Unmarshaler
}](m *Message) []T {
	vs := make([]T, m.readLength(1))
	for i := range vs {
		if m.err == nil {
			P(&vs[i]).UnmarshalRiptide(m)
		}
	}
	if m.err != nil {
		return nil
	}
	return vs
}

// A Vector2 is written as the floats x and y, like Unity's.
type Vector2 struct{ X, Y float32 }

// MarshalRiptide implements [Marshaler].
func (v Vector2) MarshalRiptide(m *Message) { addFloats(m, v.X, v.Y) }

// UnmarshalRiptide implements [Unmarshaler].
func (v *Vector2) UnmarshalRiptide(m *Message) { *v = Vector2{Read[float32](m), Read[float32](m)} }

// A Vector3 is written as the floats x, y and z, like Unity's.
type Vector3 struct{ X, Y, Z float32 }

// MarshalRiptide implements [Marshaler].
func (v Vector3) MarshalRiptide(m *Message) { addFloats(m, v.X, v.Y, v.Z) }

// UnmarshalRiptide implements [Unmarshaler].
func (v *Vector3) UnmarshalRiptide(m *Message) {
	*v = Vector3{Read[float32](m), Read[float32](m), Read[float32](m)}
}

// A Quaternion is written as the floats x, y, z and w, like Unity's.
type Quaternion struct{ X, Y, Z, W float32 }

// MarshalRiptide implements [Marshaler].
func (q Quaternion) MarshalRiptide(m *Message) { addFloats(m, q.X, q.Y, q.Z, q.W) }

// UnmarshalRiptide implements [Unmarshaler].
func (q *Quaternion) UnmarshalRiptide(m *Message) {
	*q = Quaternion{Read[float32](m), Read[float32](m), Read[float32](m), Read[float32](m)}
}

func addFloats(m *Message, v ...float32) {
	for _, x := range v {
		addNumber(m, x)
	}
}
