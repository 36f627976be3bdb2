package netplay_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"unicode/utf8"

	"volley/netplay"
)

// The messages of the public page, and one of about 2 KB with nested structs.
type (
	benchPlayer struct {
		ID     int32   `netplay:"0"`
		Name   string  `netplay:"1"`
		Health float32 `netplay:"2"`
	}
	benchFriends struct {
		Names []string `netplay:"0"`
	}
	benchState struct {
		Tick    int64          `netplay:"0"`
		Players []*benchEntity `netplay:"1"`
		Scores  []int32        `netplay:"2"`
		Map     string         `netplay:"3"`
		Paused  bool           `netplay:"4"`
	}
	benchEntity struct {
		ID       int32        `netplay:"0"`
		Name     string       `netplay:"1"`
		Position *benchVector `netplay:"2"`
		Velocity *benchVector `netplay:"3"`
		Health   float32      `netplay:"4"`
		Team     int8         `netplay:"5"`
		Alive    bool         `netplay:"6"`
	}
	benchVector struct {
		X float32 `netplay:"0"`
		Y float32 `netplay:"1"`
		Z float32 `netplay:"2"`
	}
)

func newState() *benchState {
	s := &benchState{Tick: 123456789, Map: strings.Repeat("forest ", 10)}
	for i := range int32(30) {
		s.Players = append(s.Players, &benchEntity{
			ID:       i,
			Name:     fmt.Sprint("player ", i),
			Position: &benchVector{1.5, float32(i), -3},
			Velocity: &benchVector{0.5, 0, float32(-i)},
			Health:   87.5,
			Team:     int8(i % 2),
			Alive:    true,
		})
		s.Scores = append(s.Scores, 100*i)
	}
	return s
}

// The same by hand, with the checks that the format needs.

var errHand = errors.New("does not fit")

func handString(dst []byte, s string) ([]byte, error) {
	if len(s) > math.MaxUint16 || !utf8.ValidString(s) {
		return dst, errHand
	}
	return append(binary.BigEndian.AppendUint16(dst, uint16(len(s))), s...), nil
}

func handFloat(dst []byte, f float32) []byte {
	if f != f {
		return binary.BigEndian.AppendUint32(dst, 0x7fc00000)
	}
	return binary.BigEndian.AppendUint32(dst, math.Float32bits(f))
}

func handBool(dst []byte, b bool) []byte {
	if b {
		return append(dst, 1)
	}
	return append(dst, 0)
}

func (m *chat) appendByHand(dst []byte) ([]byte, error) {
	dst, err := handString(dst, m.From)
	if err != nil {
		return dst, err
	}
	return handString(dst, m.Text)
}

func (m *benchPlayer) appendByHand(dst []byte) ([]byte, error) {
	dst, err := handString(binary.BigEndian.AppendUint32(dst, uint32(m.ID)), m.Name)
	if err != nil {
		return dst, err
	}
	return handFloat(dst, m.Health), nil
}

func (m *benchFriends) appendByHand(dst []byte) (_ []byte, err error) {
	if len(m.Names) > math.MaxUint16 {
		return dst, errHand
	}
	dst = binary.BigEndian.AppendUint16(dst, uint16(len(m.Names)))
	for _, s := range m.Names {
		if dst, err = handString(dst, s); err != nil {
			return dst, err
		}
	}
	return dst, nil
}

func (m *benchState) appendByHand(dst []byte) (_ []byte, err error) {
	dst = binary.BigEndian.AppendUint64(dst, uint64(m.Tick))
	if len(m.Players) > math.MaxUint16 || len(m.Scores) > math.MaxUint16 {
		return dst, errHand
	}
	dst = binary.BigEndian.AppendUint16(dst, uint16(len(m.Players)))
	for _, p := range m.Players {
		if p == nil {
			dst = append(dst, 0)
			continue
		}
		start := len(dst)
		if dst, err = p.appendByHand(append(dst, 1, 0, 0)); err != nil {
			return dst, err
		}
		if err := handLength(dst, start); err != nil {
			return dst, err
		}
	}
	dst = binary.BigEndian.AppendUint16(dst, uint16(len(m.Scores)))
	for _, s := range m.Scores {
		dst = binary.BigEndian.AppendUint32(dst, uint32(s))
	}
	if dst, err = handString(dst, m.Map); err != nil {
		return dst, err
	}
	return handBool(dst, m.Paused), nil
}

func handLength(dst []byte, start int) error {
	n := len(dst) - start - 3
	if n > math.MaxUint16 {
		return errHand
	}
	binary.BigEndian.PutUint16(dst[start+1:], uint16(n))
	return nil
}

func (m *benchEntity) appendByHand(dst []byte) ([]byte, error) {
	dst, err := handString(binary.BigEndian.AppendUint32(dst, uint32(m.ID)), m.Name)
	if err != nil {
		return dst, err
	}
	dst = m.Position.appendByHand(dst)
	dst = m.Velocity.appendByHand(dst)
	dst = handFloat(dst, m.Health)
	return handBool(append(dst, byte(m.Team)), m.Alive), nil
}

func (m *benchVector) appendByHand(dst []byte) []byte {
	if m == nil {
		return append(dst, 0)
	}
	dst = append(dst, 1, 0, 12)
	return handFloat(handFloat(handFloat(dst, m.X), m.Y), m.Z)
}

// A handReader reads by hand. After an error its calls return zeros.
type handReader struct {
	b   []byte
	err error
}

func (r *handReader) take(n int) []byte {
	if len(r.b) < n {
		r.err = errHand
		r.b = nil
		return make([]byte, n)
	}
	b := r.b[:n]
	r.b = r.b[n:]
	return b
}

func (r *handReader) u8() byte     { return r.take(1)[0] }
func (r *handReader) u16() int     { return int(binary.BigEndian.Uint16(r.take(2))) }
func (r *handReader) u32() uint32  { return binary.BigEndian.Uint32(r.take(4)) }
func (r *handReader) u64() uint64  { return binary.BigEndian.Uint64(r.take(8)) }
func (r *handReader) f32() float32 { return math.Float32frombits(r.u32()) }

func (r *handReader) string() string {
	n := r.u16()
	if n > len(r.b) {
		r.err = errHand
		return ""
	}
	s := string(r.take(n))
	if !utf8.ValidString(s) {
		s = strings.ToValidUTF8(s, "\ufffd")
	}
	return s
}

// count returns a count of elements that take at least size bytes each.
func (r *handReader) count(size int) int {
	n := r.u16()
	if n*size > len(r.b) {
		r.err = errHand
		return 0
	}
	return n
}

func (m *chat) readByHand(b []byte) error {
	r := handReader{b: b}
	m.From = r.string()
	m.Text = r.string()
	return r.err
}

func (m *benchPlayer) readByHand(b []byte) error {
	r := handReader{b: b}
	m.ID = int32(r.u32())
	m.Name = r.string()
	m.Health = r.f32()
	return r.err
}

func (m *benchFriends) readByHand(b []byte) error {
	r := handReader{b: b}
	m.Names = make([]string, r.count(2))
	for i := range m.Names {
		m.Names[i] = r.string()
	}
	return r.err
}

func (m *benchState) readByHand(b []byte) error {
	r := handReader{b: b}
	m.Tick = int64(r.u64())
	m.Players = make([]*benchEntity, r.count(1))
	for i := range m.Players {
		if r.u8() != 0 {
			p := new(benchEntity)
			m.Players[i] = p
			sub := handReader{b: r.take(r.u16())}
			if p.read(&sub); sub.err != nil {
				return sub.err
			}
		}
	}
	m.Scores = make([]int32, r.count(4))
	for i := range m.Scores {
		m.Scores[i] = int32(r.u32())
	}
	m.Map = r.string()
	m.Paused = r.u8() != 0
	return r.err
}

func (m *benchEntity) read(r *handReader) {
	m.ID = int32(r.u32())
	m.Name = r.string()
	m.Position = readVector(r)
	m.Velocity = readVector(r)
	m.Health = r.f32()
	m.Team = int8(r.u8())
	m.Alive = r.u8() != 0
}

func readVector(r *handReader) *benchVector {
	if r.u8() == 0 {
		return nil
	}
	sub := handReader{b: r.take(r.u16())}
	v := &benchVector{sub.f32(), sub.f32(), sub.f32()}
	if sub.err != nil {
		r.err = sub.err
	}
	return v
}

// A benchMessage is one of the messages above.
type benchMessage interface {
	appendByHand([]byte) ([]byte, error)
	readByHand([]byte) error
}

var benchMessages = []struct {
	name    string
	message benchMessage
	empty   func() benchMessage
}{
	{"chat", &chat{"John", "Hello, World"}, func() benchMessage { return new(chat) }},
	{"friends", &benchFriends{[]string{"Alice", "Bob", "Charlie"}}, func() benchMessage { return new(benchFriends) }},
	{"player", &benchPlayer{42, "John", 87.5}, func() benchMessage { return new(benchPlayer) }},
	{"nested", newState(), func() benchMessage { return new(benchState) }},
}

func BenchmarkAppend(b *testing.B) {
	for _, m := range benchMessages {
		var buf []byte
		b.Run(m.name+"/netplay", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				buf, _ = netplay.Append(buf[:0], m.message)
			}
			b.SetBytes(int64(len(buf)))
		})
		b.Run(m.name+"/hand", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				buf, _ = m.message.appendByHand(buf[:0])
			}
			b.SetBytes(int64(len(buf)))
		})
	}
}

func BenchmarkUnmarshal(b *testing.B) {
	for _, m := range benchMessages {
		body, err := netplay.Marshal(m.message)
		if err != nil {
			b.Fatal(err)
		}
		into := m.empty()
		b.Run(m.name+"/netplay", func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(body)))
			for b.Loop() {
				if err := netplay.Unmarshal(body, into); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(m.name+"/hand", func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(body)))
			for b.Loop() {
				if err := into.readByHand(body); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
