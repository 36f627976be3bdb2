package riptide

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"testing"
)

// A valueOp is a value that is added and read.
type valueOp struct {
	Op            string
	Value         json.RawMessage
	IncludeLength bool `json:"include_length"`
	Count         int
	StartBit      int `json:"start_bit"`
	Ops           []valueOp
	Items         [][]valueOp
}

func as[T any](t *testing.T, raw json.RawMessage) (v T) {
	t.Helper()
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	return v
}

func asUint(t *testing.T, raw json.RawMessage) uint64 {
	t.Helper()
	v, err := strconv.ParseUint(as[string](t, raw), 0, 64)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func asInt(t *testing.T, raw json.RawMessage) int64 {
	t.Helper()
	v, err := strconv.ParseInt(as[string](t, raw), 0, 64)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func list[T any](t *testing.T, raw json.RawMessage, convert func(*testing.T, json.RawMessage) T) []T {
	v := []T{}
	for _, r := range as[[]json.RawMessage](t, raw) {
		v = append(v, convert(t, r))
	}
	return v
}

func asFloat32(t *testing.T, raw json.RawMessage) float32 {
	return math.Float32frombits(uint32(asUint(t, raw)))
}

func asFloat64(t *testing.T, raw json.RawMessage) float64 {
	return math.Float64frombits(asUint(t, raw))
}

func asBytes(t *testing.T, raw json.RawMessage) []byte { return as[hexBytes](t, raw) }

func asInt8s(t *testing.T, raw json.RawMessage) []int8 {
	v := []int8{}
	for _, b := range asBytes(t, raw) {
		v = append(v, int8(b))
	}
	return v
}

// scripted is a type whose values are a list of ops.
type scripted struct {
	t   *testing.T
	ops []valueOp
}

func (s scripted) MarshalRiptide(m *Message) {
	for _, op := range s.ops {
		op.add(s.t, m)
	}
}

func (s *scripted) UnmarshalRiptide(m *Message) {
	for _, op := range s.ops {
		op.check(s.t, m)
	}
}

// add adds the value to m.
func (op *valueOp) add(t *testing.T, m *Message) {
	switch op.Op {
	case "reserve_bits":
		reserveBits(m, op.Count)
	case "set_bits":
		m.SetBits(op.StartBit, asUint(t, op.Value), op.Count)
	case "bits":
		m.AddBits(asUint(t, op.Value), op.Count)
	case "serializable":
		m.AddValue(scripted{t, op.Ops})
	case "serializables":
		if items := op.scripts(t); op.IncludeLength {
			AddValues(m, items)
		} else {
			for _, item := range items {
				m.AddValue(item)
			}
		}
	case "message":
		inner := NewData()
		for _, o := range op.Ops {
			o.add(t, inner)
		}
		m.AddRest(inner)
	default:
		op.value(t).add(m)
	}
}

func (op *valueOp) scripts(t *testing.T) []scripted {
	items := make([]scripted, len(op.Items))
	for i, ops := range op.Items {
		items[i] = scripted{t, ops}
	}
	return items
}

// check reads the value from m and compares.
func (op *valueOp) check(t *testing.T, m *Message) {
	t.Helper()
	switch op.Op {
	case "reserve_bits":
		m.SkipBits(op.Count)
	case "set_bits":
		if got, want := m.PeekBits(op.StartBit, op.Count), asUint(t, op.Value)&(1<<op.Count-1); got != want {
			t.Errorf("bits %d to %d are %#x, want %#x", op.StartBit, op.StartBit+op.Count, got, want)
		}
	case "bits":
		if got, want := m.ReadBits(op.Count), asUint(t, op.Value)&(1<<op.Count-1); got != want {
			t.Errorf("Bits(%d) = %#x, want %#x", op.Count, got, want)
		}
	case "serializable", "message":
		m.ReadValue(&scripted{t, op.Ops})
	case "serializables":
		items := op.scripts(t)
		if op.IncludeLength {
			if n := m.ReadUvarint(); n != uint64(len(items)) {
				t.Errorf("length of serializables = %d, want %d", n, len(items))
			}
		}
		for i := range items {
			m.ReadValue(&items[i])
		}
	default:
		v := op.value(t)
		if got := v.read(m); m.Err() == nil && !v.equal(got) {
			t.Errorf("read %s: %v, want %v", op.Op, got, v)
		}
	}
}

// A testValue is one value, how to add it and how to read one like it.
type testValue struct {
	v    any
	add  func(*Message)
	read func(*Message) any
}

// equal compares floats bit by bit.
func (v testValue) equal(got any) bool {
	return fmt.Sprintf("%#v", bitsOf(v.v)) == fmt.Sprintf("%#v", bitsOf(got))
}

func (v testValue) String() string { return fmt.Sprint(v.v) }

func bitsOf(v any) any {
	switch v := v.(type) {
	case float32:
		return math.Float32bits(v)
	case float64:
		return math.Float64bits(v)
	case []float32:
		var b []uint32
		for _, x := range v {
			b = append(b, math.Float32bits(x))
		}
		return b
	case []float64:
		var b []uint64
		for _, x := range v {
			b = append(b, math.Float64bits(x))
		}
		return b
	}
	return v
}

func scalar[T any](v T, add func(*Message, T), read func(*Message) T) testValue {
	return testValue{v, func(m *Message) { add(m, v) }, func(m *Message) any { return read(m) }}
}

func slice[T Number | bool | string](v []T, length bool) testValue {
	if length {
		return testValue{v, func(m *Message) { AddSlice(m, v) }, func(m *Message) any { return ReadSlice[T](m) }}
	}
	return testValue{v, func(m *Message) { AddArray(m, v) }, func(m *Message) any {
		got := make([]T, len(v))
		ReadArray(m, got)
		return got
	}}
}

func (op *valueOp) value(t *testing.T) testValue {
	raw := op.Value
	switch op.Op {
	case "byte":
		return scalar(as[uint8](t, raw), Add[uint8], Read[uint8])
	case "sbyte":
		return scalar(as[int8](t, raw), Add[int8], Read[int8])
	case "short":
		return scalar(as[int16](t, raw), Add[int16], Read[int16])
	case "ushort":
		return scalar(as[uint16](t, raw), Add[uint16], Read[uint16])
	case "int":
		return scalar(as[int32](t, raw), Add[int32], Read[int32])
	case "uint":
		return scalar(as[uint32](t, raw), Add[uint32], Read[uint32])
	case "long":
		return scalar(asInt(t, raw), Add[int64], Read[int64])
	case "ulong":
		return scalar(asUint(t, raw), Add[uint64], Read[uint64])
	case "varlong":
		return scalar(asInt(t, raw), (*Message).AddVarint, (*Message).ReadVarint)
	case "varulong":
		return scalar(asUint(t, raw), (*Message).AddUvarint, (*Message).ReadUvarint)
	case "float":
		return scalar(asFloat32(t, raw), Add[float32], Read[float32])
	case "double":
		return scalar(asFloat64(t, raw), Add[float64], Read[float64])
	case "bool":
		return scalar(as[bool](t, raw), (*Message).AddBool, (*Message).ReadBool)
	case "string":
		return scalar(as[string](t, raw), (*Message).AddString, (*Message).ReadString)
	}
	return op.slice(t)
}

func (op *valueOp) slice(t *testing.T) testValue {
	raw, length := op.Value, op.IncludeLength
	switch op.Op {
	case "bytes":
		return slice(asBytes(t, raw), length)
	case "sbytes":
		return slice(asInt8s(t, raw), length)
	case "bools":
		return slice(list(t, raw, as[bool]), length)
	case "shorts":
		return slice(list(t, raw, as[int16]), length)
	case "ushorts":
		return slice(list(t, raw, as[uint16]), length)
	case "ints":
		return slice(list(t, raw, as[int32]), length)
	case "uints":
		return slice(list(t, raw, as[uint32]), length)
	case "longs":
		return slice(list(t, raw, asInt), length)
	case "ulongs":
		return slice(list(t, raw, asUint), length)
	case "floats":
		return slice(list(t, raw, asFloat32), length)
	case "doubles":
		return slice(list(t, raw, asFloat64), length)
	case "strings":
		return slice(list(t, raw, as[string]), length)
	}
	t.Fatalf("unknown op %q", op.Op)
	return testValue{}
}
