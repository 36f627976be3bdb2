package riptide

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"volley/internal/testenv"
)

var bothLayouts = []*Config{{}, {NotesLayout: true}}

// everything adds one of each kind of value and returns how to read it back.
var everything = []struct {
	name string
	add  func(*Message)
	read func(*Message) any
	want any
}{
	{"uint8", func(m *Message) { Add[uint8](m, 200) }, func(m *Message) any { return Read[uint8](m) }, uint8(200)},
	{"int8", func(m *Message) { Add[int8](m, -100) }, func(m *Message) any { return Read[int8](m) }, int8(-100)},
	{"uint16", func(m *Message) { Add[uint16](m, 60000) }, func(m *Message) any { return Read[uint16](m) }, uint16(60000)},
	{"int16", func(m *Message) { Add[int16](m, -30000) }, func(m *Message) any { return Read[int16](m) }, int16(-30000)},
	{"uint32", func(m *Message) { Add[uint32](m, 4e9) }, func(m *Message) any { return Read[uint32](m) }, uint32(4e9)},
	{"int32", func(m *Message) { Add[int32](m, -2e9) }, func(m *Message) any { return Read[int32](m) }, int32(-2e9)},
	{"uint64", func(m *Message) { Add[uint64](m, 1<<63) }, func(m *Message) any { return Read[uint64](m) }, uint64(1 << 63)},
	{"int64", func(m *Message) { Add[int64](m, math.MinInt64) }, func(m *Message) any { return Read[int64](m) }, int64(math.MinInt64)},
	{"float32", func(m *Message) { Add[float32](m, 1.5) }, func(m *Message) any { return Read[float32](m) }, float32(1.5)},
	{"float64", func(m *Message) { Add[float64](m, -1e300) }, func(m *Message) any { return Read[float64](m) }, -1e300},
	{"true", func(m *Message) { m.AddBool(true) }, func(m *Message) any { return m.ReadBool() }, true},
	{"false", func(m *Message) { m.AddBool(false) }, func(m *Message) any { return m.ReadBool() }, false},
	{"uvarint", func(m *Message) { m.AddUvarint(math.MaxUint64) }, func(m *Message) any { return m.ReadUvarint() }, uint64(math.MaxUint64)},
	{"varint", func(m *Message) { m.AddVarint(math.MinInt64) }, func(m *Message) any { return m.ReadVarint() }, int64(math.MinInt64)},
	{"string", func(m *Message) { m.AddString("日本語, äöü") }, func(m *Message) any { return m.ReadString() }, "日本語, äöü"},
	{"long string", func(m *Message) { m.AddString(strings.Repeat("x", 200)) }, func(m *Message) any { return m.ReadString() }, strings.Repeat("x", 200)},
	{"invalid string", func(m *Message) { m.AddString("a\xff\xfeb") }, func(m *Message) any { return m.ReadString() }, "a\ufffd\ufffdb"},
	{"bytes", func(m *Message) { AddSlice(m, []byte{1, 2, 3}) }, func(m *Message) any { return ReadSlice[byte](m) }, []byte{1, 2, 3}},
	{"no bytes", func(m *Message) { AddSlice[byte](m, nil) }, func(m *Message) any { return ReadSlice[byte](m) }, []byte{}},
	{"appended bytes", func(m *Message) { AddSlice(m, []byte("0123456789")) }, func(m *Message) any { return m.ReadAppend([]byte("x")) }, []byte("x0123456789")},
	{"bits", func(m *Message) { m.AddBits(math.MaxUint64, 11) }, func(m *Message) any { return m.ReadBits(11) }, uint64(1<<11 - 1)},
	{"64 bits", func(m *Message) { m.AddBits(1<<63|5, 64) }, func(m *Message) any { return m.ReadBits(64) }, uint64(1<<63 | 5)},
	{"vector2", func(m *Message) { m.AddValue(Vector2{1, -2}) }, func(m *Message) any { return readValue[Vector2](m) }, Vector2{1, -2}},
	{"vector3", func(m *Message) { m.AddValue(Vector3{1, -2, 3}) }, func(m *Message) any { return readValue[Vector3](m) }, Vector3{1, -2, 3}},
	{"quaternion", func(m *Message) { m.AddValue(Quaternion{1, -2, 3, 4}) }, func(m *Message) any { return readValue[Quaternion](m) }, Quaternion{1, -2, 3, 4}},
	{"value", func(m *Message) { m.AddValue(Vector2{5, 6}) }, func(m *Message) any { var v Vector2; m.ReadValue(&v); return v }, Vector2{5, 6}},
	{"values", func(m *Message) { AddValues(m, []Vector2{{1, 2}, {3, 4}}) }, func(m *Message) any { return ReadValues[Vector2](m) }, []Vector2{{1, 2}, {3, 4}}},
	testSlice([]bool{true, false, true, false, false, false, false, false, true, true}), testArray(manyBools()),
	testSlice([]int8{1, -2}), testArray([]int8{1, -2}), testSlice([]uint8{1, 255}), testArray([]uint8("123456789")),
	testSlice([]int16{1, -2}), testArray([]int16{1, -2}), testSlice([]uint16{1, 65535}), testArray([]uint16{1, 65535}),
	testSlice([]int32{1, -2}), testArray([]int32{1, -2}), testSlice([]uint32{1, 1 << 31}), testArray([]uint32{1, 1 << 31}),
	testSlice([]int64{1, -2}), testArray([]int64{1, -2}), testSlice([]uint64{1, 1 << 63}), testArray([]uint64{1, 1 << 63}),
	testSlice([]float32{1, -2.5}), testArray([]float32{1, -2.5}), testSlice([]float64{1, -2.5}), testArray([]float64{1, -2.5}),
	testSlice([]string{"", "a", "äö"}), testArray([]string{"", "a", "äö"}), testSlice([]string{}),
	testSlice(make([]uint8, 127)), testSlice(make([]uint8, 128)), testSlice(make([]uint8, 300)),
}

func manyBools() []bool {
	v := make([]bool, 203)
	for i := range v {
		v[i] = i%3 == 0
	}
	return v
}

type everyValue = struct {
	name string
	add  func(*Message)
	read func(*Message) any
	want any
}

func testSlice[T Number | bool | string](v []T) everyValue {
	return everyValue{fmt.Sprintf("%T of %d", v, len(v)), func(m *Message) { AddSlice(m, v) }, func(m *Message) any { return ReadSlice[T](m) }, v}
}

func testArray[T Number | bool | string](v []T) everyValue {
	return everyValue{fmt.Sprintf("%T, array of %d", v, len(v)), func(m *Message) { AddArray(m, v) }, func(m *Message) any {
		got := make([]T, len(v))
		ReadArray(m, got)
		return got
	}, v}
}

// TestRoundTrips adds every kind of value to every kind of message of both
// layouts, behind others, so that they stand at every bit of a byte.
func TestRoundTrips(t *testing.T) {
	for _, cfg := range bothLayouts {
		for _, m := range []*Message{cfg.NewMessage(Unreliable, 3), cfg.NewMessage(Reliable, 40000), cfg.NewMessage(Notify, 0), cfg.NewData()} {
			fresh := *m
			for shift := range 8 {
				for _, v := range everything {
					*m = fresh
					m.buf = bytes.Repeat([]byte{0xff}, 20) // what was there does not matter
					copy(m.buf, fresh.body())
					for range shift {
						m.AddBool(true)
					}
					v.add(m)
					m.AddBool(true)
					if m.Err() != nil {
						t.Fatalf("%v: %v, %s: %v", cfg.layout(), m, v.name, m.Err())
					}
					r := m
					if m.mode != 0 {
						r = new(Message)
						r.loadUser(cfg.layout(), m.mode, m.body())
					}
					for range shift {
						r.ReadBool()
					}
					if got := v.read(r); !reflect.DeepEqual(got, v.want) {
						t.Fatalf("%v: %v, %s at bit %d: read %v, want %v", cfg.layout(), m, v.name, shift, got, v.want)
					}
					if !r.ReadBool() || r.Err() != nil || r.Unread() > 7 {
						t.Fatalf("%v: %v, %s: behind it %d bits, error %v", cfg.layout(), m, v.name, r.Unread(), r.Err())
					}
				}
			}
		}
	}
}

// TestShort reads every kind of value from every shorter message.
func TestShort(t *testing.T) {
	for _, cfg := range bothLayouts {
		for _, v := range everything {
			m := cfg.NewData()
			v.add(m)
			full := m.end
			for m.end = range full {
				m.Rewind()
				v.read(m)
				if got := m.Err(); got != errMessageEnd {
					t.Fatalf("%v: %s with %d of %d bits: error %v", cfg.layout(), v.name, m.end, full, got)
				}
				if !errors.Is(m.Err(), io.ErrUnexpectedEOF) {
					t.Fatal("errMessageEnd is no io.ErrUnexpectedEOF")
				}
			}
		}
	}
}

// TestClaimedLengths reads slices that claim to be far longer than the message:
// nothing may be allocated for them.
func TestClaimedLengths(t *testing.T) {
	for name, read := range map[string]func(*Message){
		"String": func(m *Message) { _ = m.ReadString() }, "Bytes": func(m *Message) { ReadSlice[byte](m) },
		"AppendBytes": func(m *Message) { m.ReadAppend(nil) }, "bools": func(m *Message) { ReadSlice[bool](m) },
		"int64s": func(m *Message) { ReadSlice[int64](m) }, "strings": func(m *Message) { ReadSlice[string](m) },
		"values": func(m *Message) { ReadValues[Vector3](m) },
	} {
		for _, n := range []uint64{25, 1 << 31, 1<<31 - 1, 1 << 32, math.MaxUint64} {
			m := NewData()
			m.AddUvarint(n)
			Add[uint16](m, 0)
			allocs := testing.AllocsPerRun(100, func() {
				m.Rewind()
				read(m)
			})
			if m.Err() != errMessageEnd || allocs > 0 {
				t.Errorf("%s of %d: error %v, %v allocations", name, n, m.Err(), allocs)
			}
		}
	}
}

func TestStickyErrors(t *testing.T) {
	m := NewData()
	Add[uint8](m, 7)
	if Read[uint16](m) != 0 || Read[uint8](m) != 0 || m.Err() != errMessageEnd || m.Unread() != 8 {
		t.Errorf("after an error reads go on: %d bits, %v", m.Unread(), m.Err())
	}
	m.Rewind()
	if Read[uint8](m) != 7 || m.Err() != nil {
		t.Error("Rewind does not begin again")
	}
	m.Fail(errors.New("mine"))
	m.Fail(errors.New("other"))
	Add[uint64](m, 1)
	if m.BitLen() != 8 || m.Err().Error() != "mine" {
		t.Errorf("after Fail: %d bits, %v", m.BitLen(), m.Err())
	}
	for name, misuse := range map[string]func(*Message){
		"AddBits(0)": func(m *Message) { m.AddBits(0, 0) }, "AddBits(65)": func(m *Message) { m.AddBits(0, 65) },
		"Bits(0)": func(m *Message) { m.ReadBits(0) }, "Bits(65)": func(m *Message) { m.ReadBits(65) },
		"ReserveBits(-1)": func(m *Message) { reserveBits(m, -1) }, "SkipBits(-1)": func(m *Message) { m.SkipBits(-1) },
		"SetBits(-1)": func(m *Message) { m.SetBits(-1, 0, 1) }, "SetBits behind": func(m *Message) { m.SetBits(60, 0, 5) },
		"PeekBits(-1)": func(m *Message) { m.PeekBits(-1, 1) }, "PeekBits behind": func(m *Message) { m.PeekBits(64, 1) },
		"PeekBits far": func(m *Message) { m.PeekBits(math.MaxInt, 64) },
	} {
		m := NewData()
		Add[uint64](m, 0)
		misuse(m)
		if m.Err() != ErrRange {
			t.Errorf("%s: error %v, want %v", name, m.Err(), ErrRange)
		}
	}
	m = NewData()
	m.SkipBits(math.MaxInt)
	if m.Err() != errMessageEnd {
		t.Errorf("SkipBits(MaxInt): error %v", m.Err())
	}
	m = NewData()
	reserveBits(m, math.MaxInt)
	if m.Err() != ErrMessageFull {
		t.Errorf("ReserveBits(MaxInt): error %v", m.Err())
	}
}

// TestLimits fills messages to their last bit.
func TestLimits(t *testing.T) {
	for _, test := range []struct {
		m    *Message
		bits int // of payload
	}{
		{NewMessage(Unreliable, 1), 9848 - 4 - 8},
		{NewMessage(Unreliable, 300), 9848 - 4 - 16},
		{NewMessage(Reliable, 1), 9848 - 20 - 8},
		{NewMessage(Notify, 0), 9848 - 44},
		{NewData(), 9848},
		{(&Config{MaxPayload: 100}).NewMessage(Notify, 0), 8*106 - 44},
		{(&Config{NotesLayout: true}).NewMessage(Reliable, 1), 8 * 1225},
		{(&Config{NotesLayout: true}).NewMessage(Notify, 0), 8 * 1225},
		{(&Config{NotesLayout: true}).NewData(), 8 * 1225},
	} {
		m := test.m
		for m.BitLen() <= test.bits-8 {
			Add[uint8](m, 0xaa)
		}
		if rest := test.bits - m.BitLen(); rest > 0 {
			m.AddBits(1, rest)
		}
		if m.Err() != nil || m.BitLen() != test.bits {
			t.Errorf("%v: %d bits, error %v, want %d", m, m.BitLen(), m.Err(), test.bits)
		}
		for name, add := range map[string]func(){
			"bool": func() { m.AddBool(false) }, "bytes": func() { AddArray(m, []byte{1}) },
			"string": func() { m.AddString("") }, "slice": func() { AddSlice(m, []int32{1}) },
			"reserve": func() { reserveBits(m, 1) }, "message": func() { m.AddRest(m.Clone()) },
		} {
			m.err = nil
			if add(); m.Err() != ErrMessageFull || m.BitLen() != test.bits {
				t.Errorf("%v: %s past the end: %d bits, error %v", m, name, m.BitLen(), m.Err())
			}
		}
	}
}

func TestNotesLengthRange(t *testing.T) {
	cfg := &Config{NotesLayout: true, MaxPayload: 40000}
	for n, want := range map[int]error{32767: nil, 32768: ErrRange} {
		m := cfg.NewData()
		AddSlice(m, make([]byte, n))
		if m.Err() != want {
			t.Errorf("AddBytes of %d: %v, want %v", n, m.Err(), want)
		}
		if b := ReadSlice[byte](m); want == nil && len(b) != n {
			t.Errorf("read %d bytes, want %d", len(b), n)
		}
	}
	m := cfg.NewData()
	Add[uint16](m, 0x0580) // a length of 5 in two bytes
	AddArray(m, []byte("abcde"))
	if s := m.ReadString(); s != "abcde" {
		t.Errorf("a long form of a short length reads %q, %v", s, m.Err())
	}
}

// TestNotesBool: only a byte of 1 is true.
func TestNotesBool(t *testing.T) {
	for v := range 256 {
		m := (&Config{NotesLayout: true}).NewData()
		Add[uint8](m, uint8(v))
		if got := m.ReadBool(); got != (v == 1) {
			t.Errorf("byte %d reads %v", v, got)
		}
	}
}

// TestSetBits overwrites fields of every size at every place.
func TestSetBits(t *testing.T) {
	for n := 1; n <= 64; n++ {
		for at := range 70 {
			m := NewMessage(Notify, 0) // which starts in the middle of a byte
			for range 4 {
				Add[uint64](m, math.MaxUint64)
			}
			v := rand.Uint64()
			m.SetBits(at, v, n)
			if got := m.PeekBits(at, n); got != v&(1<<n-1) {
				t.Fatalf("PeekBits(%d, %d) = %#x, want %#x", at, n, got, v&(1<<n-1))
			}
			m.SetBits(at, math.MaxUint64, n)
			for range 4 {
				if w := Read[uint64](m); w != math.MaxUint64 {
					t.Fatalf("SetBits(%d, _, %d) wrote beside: %#x", at, n, w)
				}
			}
		}
	}
}

func TestAddMessage(t *testing.T) {
	inner := NewMessage(Reliable, 9)
	inner.AddBool(true)
	inner.AddString("inner")
	inner.ReadBool() // what has been read stays behind
	m := NewMessage(Reliable, 1)
	m.AddBits(5, 3)
	m.AddRest(inner)
	Add[uint8](m, 7)
	if m.ReadBits(3) != 5 || m.ReadString() != "inner" || Read[uint8](m) != 7 || m.Err() != nil {
		t.Errorf("reads something else: %v", m.Err())
	}
	m.AddRest((&Config{NotesLayout: true}).NewData())
	if m.Err() != errLayout {
		t.Errorf("a message of the other layout: %v", m.Err())
	}
	m, inner = NewData(), NewData()
	inner.Fail(io.EOF)
	m.AddRest(inner)
	if m.Err() != io.EOF {
		t.Errorf("a message with an error: %v", m.Err())
	}
}

func TestFormat(t *testing.T) {
	m := NewMessage(Reliable, 7)
	m.AddString("hi")
	if got, want := fmt.Sprintf("%v|%s|%+v", m, m, NewData()), "reliable message 7 of 24 bits|reliable message 7 of 24 bits|data of 0 bits"; got != want {
		t.Errorf("printed %q, want %q", got, want)
	}
	if m.ReadString() != "hi" {
		t.Error("printing has read from the message")
	}
}

func TestClone(t *testing.T) {
	m := NewMessage(Reliable, 7)
	Add[uint32](m, 1)
	Add[uint32](m, 2)
	Read[uint32](m)
	c := m.Clone()
	m.Reset(Reliable, 9)
	other := NewMessage(Reliable, 8)
	Add[uint64](other, 0)
	if c.ID() != 7 || c.Mode() != Reliable || Read[uint32](c) != 2 || c.Err() != nil {
		t.Errorf("the copy is %v, error %v", c, c.Err())
	}
	c.AddString("more")
	if c.ReadString() != "more" {
		t.Error("nothing can be added to a copy")
	}
}

// A bitModel is a message as a list of bits.
type bitModel struct {
	bits []bool
	pos  int
}

func (b *bitModel) add(v uint64, n int) {
	for i := range n {
		b.bits = append(b.bits, v>>i&1 == 1)
	}
}

func (b *bitModel) take(n int) (v uint64) {
	for i := range n {
		if b.bits[b.pos+i] {
			v |= 1 << i
		}
	}
	b.pos += n
	return v
}

// TestBitModel does random operations to messages and to lists of bits.
func TestBitModel(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		m, model := NewMessage(Notify, 0), new(bitModel)
		for range 200 {
			n, v := 1+rng.IntN(64), rng.Uint64()
			switch op := rng.IntN(6); {
			case op == 0 && len(model.bits)-model.pos >= n:
				if got, want := m.ReadBits(n), model.take(n); got != want {
					t.Fatalf("Bits(%d) = %#x, want %#x", n, got, want)
				}
			case op == 1 && len(model.bits) >= n:
				at := rng.IntN(len(model.bits) - n + 1)
				m.SetBits(at, v, n)
				for i := range n {
					model.bits[at+i] = v>>i&1 == 1
				}
			case op == 2:
				b := make([]byte, rng.IntN(20))
				for i := range b {
					b[i] = byte(rng.Uint32())
					model.add(uint64(b[i]), 8)
				}
				AddArray(m, b)
			case op == 3:
				if at := reserveBits(m, n); at != len(model.bits) {
					t.Fatalf("ReserveBits = %d, want %d", at, len(model.bits))
				}
				model.add(0, n)
			default:
				m.AddBits(v, n)
				model.add(v, n)
			}
			if m.Err() != nil {
				break
			}
		}
		for ; m.Unread() > 0 && m.Err() == nil; model.pos++ {
			if m.ReadBool() != model.bits[model.pos] {
				t.Fatalf("bit %d differs", model.pos)
			}
		}
	}
}

func TestMessageAllocs(t *testing.T) {
	if testenv.Race {
		t.Skip("the race detector allocates")
	}
	bools, ints, buf := make([]bool, 9), make([]int32, 4), make([]byte, 0, 64)
	body, m, r := []byte{}, NewMessage(Reliable, 300), new(Message)
	if n := testing.AllocsPerRun(200, func() {
		m.Reset(Reliable, 300)
		m.AddString("name")
		m.AddValue(Vector3{1, 2, 3})
		AddArray(m, bools)
		AddSlice(m, ints)
		AddSlice(m, buf[:20])
		m.AddVarint(-5)
		body = append(body[:0], m.body()...)
		r.loadUser(packed, Reliable, body)
		buf = r.ReadAppend(buf[:0])
		var at Vector3
		r.ReadValue(&at)
		ReadArray(r, bools)
		r.ReadUvarint()
		ReadArray(r, ints)
		buf = r.ReadAppend(buf[:0])
		if r.ReadVarint() != -5 || r.Err() != nil {
			t.Error("read something else")
		}
	}); n > 0 {
		t.Errorf("%v allocations a message", n)
	}
}
