package riptide

import (
	"errors"
	"fmt"
	"math"
	"testing"

	"volley/internal/tape"
)

// A messageScene is a scene of messages.
type messageScene struct {
	*tape.Scene
	rng   tape.Rand
	faded int // messages that ended with an error
}

// value returns a number of any size.
func (s *messageScene) value() uint64 { return s.rng.Uint64() >> s.rng.Below(64) }

// float returns a number that is one.
func (s *messageScene) float() float64 { return float64(int64(s.value())) / 1024 }

func (s *messageScene) text() string {
	b := make([]byte, s.size())
	if s.rng.Chance(200) {
		s.rng.Bytes(b)
		return string(b)
	}
	for i := range b {
		b[i] = byte(s.rng.Between(' ', '~'))
	}
	return string(b)
}

// size returns a length, mostly small.
func (s *messageScene) size() int {
	if s.rng.Chance(30) {
		return s.rng.Between(120, 140)
	}
	return s.rng.Below(1 + s.rng.Below(70))
}

func someOf[T any](s *messageScene, element func() T) []T {
	v := make([]T, s.size()/4)
	for i := range v {
		v[i] = element()
	}
	return v
}

// add adds a value of some kind.
func (s *messageScene) add(m *Message, kind int) {
	v := s.value()
	switch kind {
	case 0:
		Add[uint8](m, uint8(v))
	case 1:
		Add[int8](m, int8(v))
	case 2:
		Add[uint16](m, uint16(v))
	case 3:
		Add[int16](m, int16(v))
	case 4:
		Add[uint32](m, uint32(v))
	case 5:
		Add[int32](m, int32(v))
	case 6:
		Add[uint64](m, v)
	case 7:
		Add[int64](m, int64(v))
	case 8:
		Add[float32](m, float32(s.float()))
	case 9:
		Add[float64](m, s.float())
	case 10:
		m.AddBool(v&1 == 1)
	case 11:
		m.AddUvarint(v)
	case 12:
		m.AddVarint(int64(v))
	case 13:
		m.AddString(s.text())
	case 14:
		AddSlice(m, []byte(s.text()))
	case 15:
		m.AddBits(v, s.rng.Between(0, 65))
	case 16:
		at := reserveBits(m, s.rng.Between(-1, 130))
		s.Note(int64(at))
	case 17:
		m.SetBits(s.rng.Between(-1, m.BitLen()), v, s.rng.Between(0, 65))
	case 18:
		inner := (&Config{NotesLayout: m.layout == notes}).NewData()
		AddSlice(inner, []byte(s.text()))
		inner.SkipBits(s.rng.Below(8))
		m.AddRest(inner)
	case 19:
		m.AddValue(Vector2{float32(s.float()), 1})
	case 20:
		m.AddValue(Vector3{float32(s.float()), 1, 2})
	case 21:
		m.AddValue(Quaternion{float32(s.float()), 1, 2, 3})
	case 22:
		AddValues(m, someOf(s, func() Vector2 { return Vector2{1, float32(s.float())} }))
	case 23:
		AddSlice(m, someOf(s, func() bool { return s.rng.Chance(500) }))
	case 24:
		AddSlice(m, someOf(s, func() int8 { return int8(s.value()) }))
	case 25:
		AddSlice(m, someOf(s, func() uint8 { return uint8(s.value()) }))
	case 26:
		AddSlice(m, someOf(s, func() int16 { return int16(s.value()) }))
	case 27:
		AddSlice(m, someOf(s, func() uint16 { return uint16(s.value()) }))
	case 28:
		AddSlice(m, someOf(s, func() int32 { return int32(s.value()) }))
	case 29:
		AddSlice(m, someOf(s, func() uint32 { return uint32(s.value()) }))
	case 30:
		AddSlice(m, someOf(s, func() int64 { return int64(s.value()) }))
	case 31:
		AddSlice(m, someOf(s, func() uint64 { return s.value() }))
	case 32:
		AddSlice(m, someOf(s, func() float32 { return float32(s.float()) }))
	case 33:
		AddSlice(m, someOf(s, func() float64 { return s.float() }))
	case 34:
		AddSlice(m, someOf(s, s.text))
	case 35:
		b := make([]bool, s.rng.Below(200))
		for i := range b {
			b[i] = s.rng.Chance(500)
		}
		AddArray(m, b)
	}
}

const kindsOfValues = 36

// read reads a value of some kind and notes it.
func (s *messageScene) read(m *Message, kind int) {
	switch kind {
	case 0:
		s.Note(int64(Read[uint8](m)))
	case 1:
		s.Note(int64(Read[int8](m)))
	case 2:
		s.Note(int64(Read[uint16](m)))
	case 3:
		s.Note(int64(Read[int16](m)))
	case 4:
		s.Note(int64(Read[uint32](m)))
	case 5:
		s.Note(int64(Read[int32](m)))
	case 6:
		s.Note(int64(Read[uint64](m)))
	case 7:
		s.Note(Read[int64](m))
	case 8:
		s.Note(int64(math.Float32bits(Read[float32](m))))
	case 9:
		s.Note(int64(math.Float64bits(Read[float64](m))))
	case 10:
		s.Note(tape.Truth(m.ReadBool()))
	case 11:
		s.Note(int64(m.ReadUvarint()))
	case 12:
		s.Note(m.ReadVarint())
	case 13:
		s.Data([]byte(m.ReadString()))
	case 14:
		if s.rng.Chance(500) {
			s.Data(m.ReadAppend([]byte("abc")))
		} else {
			b := ReadSlice[byte](m)
			s.Note(tape.Truth(b == nil))
			s.Data(b)
		}
	case 15:
		s.Note(int64(m.ReadBits(s.rng.Between(0, 65))))
	case 16:
		m.SkipBits(s.rng.Between(-1, 130))
	case 17:
		s.Note(int64(m.PeekBits(s.rng.Between(-1, m.BitLen()), s.rng.Between(0, 65))))
	case 19:
		s.show(readValue[Vector2](m))
	case 20:
		s.show(readValue[Vector3](m))
	case 21:
		s.show(readValue[Quaternion](m))
	case 22:
		s.show(ReadValues[Vector2](m))
	case 23:
		s.show(ReadSlice[bool](m))
	case 24:
		s.show(ReadSlice[int8](m))
	case 18, 25:
		s.show(ReadSlice[uint8](m))
	case 26:
		s.show(ReadSlice[int16](m))
	case 27:
		s.show(ReadSlice[uint16](m))
	case 28:
		s.show(ReadSlice[int32](m))
	case 29:
		s.show(ReadSlice[uint32](m))
	case 30:
		s.show(ReadSlice[int64](m))
	case 31:
		s.show(ReadSlice[uint64](m))
	case 32:
		s.show(ReadSlice[float32](m))
	case 33:
		s.show(ReadSlice[float64](m))
	case 34:
		s.show(ReadSlice[string](m))
	case 35:
		b := make([]bool, s.rng.Below(200))
		if ReadArray(m, b); m.err == nil {
			s.show(b)
		}
	}
}

func (s *messageScene) show(v any) { s.Data(fmt.Appendf(nil, "%v", v)) }

// note notes what can be seen of a message.
func (s *messageScene) note(m *Message) {
	n := int64(0)
	for i, err := range []error{ErrMessageFull, errMessageEnd, ErrRange} {
		if errors.Is(m.Err(), err) {
			n = int64(i + 1)
		}
	}
	s.Note(n, int64(m.ID()), max(0, int64(m.Mode())-1), int64(m.layout), int64(m.BitLen()), int64(m.Unread()))
}

// TestRecordedMessages adds values of all kinds to messages, and reads them, and
// values of all kinds from messages of chance.
func TestRecordedMessages(t *testing.T) {
	p := tape.Open(t, "messages", "What messages hold and read in the scenes of TestRecordedMessages.")
	for _, layout := range []layout{packed, notes} {
		for _, limit := range []int{16, 100, 1225, 40000} {
			s := &messageScene{Scene: p.Scene("%v of %d", layout, limit), rng: tape.Rand(limit)}
			for mode := range 4 {
				for range 60 {
					s.written(s.fresh(&Config{NotesLayout: layout == notes, MaxPayload: limit}, mode))
				}
				s.Phase(fmt.Sprint("written ", mode), "errors", s.faded)
				for range 120 {
					s.received(layout, mode)
				}
				s.Phase(fmt.Sprint("received ", mode), "errors", s.faded)
			}
		}
	}
}

// recordedMode returns the Mode with a number in the recordings, which begin at 0.
func recordedMode(i int) Mode { return Mode(i + 1) }

// withID resets a message, and adds an id to a notify message that has none.
func withID(m *Message, mode Mode, id uint16) *Message {
	if mode != Notify || m.layout == notes {
		m.Reset(mode, id)
		return m
	}
	m.Reset(mode, 0)
	m.AddUvarint(uint64(id))
	m.id, m.origin, m.pos = id, m.end, m.end
	return m
}

// reserveBits adds n zero bits and returns their position.
func reserveBits(m *Message, n int) (at int) {
	at = m.BitLen()
	switch {
	case n < 0:
		m.Fail(ErrRange)
	case n > m.limit-m.end:
		m.failFull()
	default:
		for n = m.wholeBits(n); n > 0; n -= 64 {
			m.put(0, min(n, 64))
		}
	}
	return at
}

// readValue reads a value that reads itself.
func readValue[T any, P interface {
	*T
	Unmarshaler
}](m *Message) (v T) {
	m.ReadValue(P(&v))
	return v
}

// fresh returns a new message.
func (s *messageScene) fresh(cfg *Config, mode int) *Message {
	switch {
	case mode == 3:
		return cfg.NewData()
	case recordedMode(mode) == Notify && s.rng.Chance(500):
		return cfg.NewMessage(Notify, 0)
	}
	return withID(cfg.NewData(), recordedMode(mode), uint16(s.value()))
}

// written adds values, and reads them.
func (s *messageScene) written(m *Message) {
	var kinds []int
	for range 1 + s.rng.Below(40) {
		kind := s.rng.Below(kindsOfValues)
		if s.add(m, kind); m.Err() == nil && (kind < 15 || kind > 17) {
			kinds = append(kinds, kind)
		}
		s.note(m)
		if m.Err() != nil && s.rng.Chance(700) {
			m.Rewind()
		}
	}
	s.Data(m.body())
	s.Data([]byte(fmt.Sprint(m)))
	c := m.Clone()
	c.Rewind()
	for _, kind := range kinds {
		s.read(c, kind)
		s.note(c)
	}
	if c.Err() != nil {
		s.faded++
	}
	withID(m, recordedMode(s.rng.Below(3)), uint16(s.value()))
	Add[uint8](m, 7)
	s.note(m)
	s.Data(m.body())
}

// received reads from a message of chance.
func (s *messageScene) received(layout layout, mode int) {
	body := make([]byte, s.rng.Below(1+s.rng.Below(300)))
	s.rng.Bytes(body)
	for i := range body { // lengths that may be
		if s.rng.Chance(400) {
			body[i] &= 0x1f
		}
	}
	m := new(Message)
	if mode == 3 {
		m.load(layout, 0, body)
	} else {
		m.loadUser(layout, recordedMode(mode), body)
	}
	s.Data(m.body()) // with zeros for the bits that are not its own
	s.note(m)
	for range 1 + s.rng.Below(12) {
		s.read(m, s.rng.Below(kindsOfValues))
		s.note(m)
	}
	if m.Err() != nil {
		s.faded++
	}
	m.Rewind()
	s.note(m)
	s.add(m, s.rng.Below(kindsOfValues))
	s.note(m)
}
