package riptide

// A Marshaler is a type that adds its own values to a message.
type Marshaler interface {
	MarshalRiptide(*Message)
}

// An Unmarshaler is a type that reads its own values from a message. Those that
// it finds out of range it reports with [Message.Fail].
type Unmarshaler interface {
	UnmarshalRiptide(*Message)
}

// Add adds the values of v, and nothing that tells its type.
func (m *Message) Add(v Marshaler) { v.MarshalRiptide(m) }

// Read reads the values of v.
func (m *Message) Read(v Unmarshaler) { v.UnmarshalRiptide(m) }

// AddValues adds the length of vs and the values of each. [Values] reads them.
func AddValues[T Marshaler](m *Message, vs []T) {
	m.addLength(len(vs))
	AddValueArray(m, vs)
}

// AddValueArray adds the values of each of vs without their number, which the
// receiver must know. [ReadValues] reads them.
func AddValueArray[T Marshaler](m *Message, vs []T) {
	for _, v := range vs {
		v.MarshalRiptide(m)
	}
}

// Values reads a length and as many values. It returns nil if the message has
// an error, or if it ends too early. As a length is not believed to be larger
// than the number of bits that are left, each value must take at least one.
func Values[T any, P interface {
	*T
	Unmarshaler
}](m *Message) []T {
	n := m.length(1)
	if m.err != nil {
		return nil
	}
	vs := make([]T, n)
	if ReadValues[T, P](m, vs); m.err != nil {
		return nil
	}
	return vs
}

// ReadValues reads as many values as dst has. Once the message has an error,
// the rest of dst stays as it is.
func ReadValues[T any, P interface {
	*T
	Unmarshaler
}](m *Message, dst []T) {
	for i := range dst {
		if m.err != nil {
			return
		}
		P(&dst[i]).UnmarshalRiptide(m)
	}
}

// A Vector2 is written as the floats x and y, like Unity's.
type Vector2 struct{ X, Y float32 }

// MarshalRiptide implements [Marshaler].
func (v Vector2) MarshalRiptide(m *Message) {
	m.AddFloat32(v.X)
	m.AddFloat32(v.Y)
}

// UnmarshalRiptide implements [Unmarshaler].
func (v *Vector2) UnmarshalRiptide(m *Message) { *v = Vector2{m.Float32(), m.Float32()} }

// A Vector3 is written as the floats x, y and z, like Unity's.
type Vector3 struct{ X, Y, Z float32 }

// MarshalRiptide implements [Marshaler].
func (v Vector3) MarshalRiptide(m *Message) {
	m.AddFloat32(v.X)
	m.AddFloat32(v.Y)
	m.AddFloat32(v.Z)
}

// UnmarshalRiptide implements [Unmarshaler].
func (v *Vector3) UnmarshalRiptide(m *Message) {
	*v = Vector3{m.Float32(), m.Float32(), m.Float32()}
}

// A Quaternion is written as the floats x, y, z and w, like Unity's.
type Quaternion struct{ X, Y, Z, W float32 }

// MarshalRiptide implements [Marshaler].
func (q Quaternion) MarshalRiptide(m *Message) {
	m.AddFloat32(q.X)
	m.AddFloat32(q.Y)
	m.AddFloat32(q.Z)
	m.AddFloat32(q.W)
}

// UnmarshalRiptide implements [Unmarshaler].
func (q *Quaternion) UnmarshalRiptide(m *Message) {
	*q = Quaternion{m.Float32(), m.Float32(), m.Float32(), m.Float32()}
}

// AddVector2 adds a Vector2.
func (m *Message) AddVector2(v Vector2) { v.MarshalRiptide(m) }

// Vector2 reads a Vector2.
func (m *Message) Vector2() (v Vector2) { v.UnmarshalRiptide(m); return v }

// AddVector3 adds a Vector3.
func (m *Message) AddVector3(v Vector3) { v.MarshalRiptide(m) }

// Vector3 reads a Vector3.
func (m *Message) Vector3() (v Vector3) { v.UnmarshalRiptide(m); return v }

// AddQuaternion adds a Quaternion.
func (m *Message) AddQuaternion(q Quaternion) { q.MarshalRiptide(m) }

// Quaternion reads a Quaternion.
func (m *Message) Quaternion() (q Quaternion) { q.UnmarshalRiptide(m); return q }
