package main

import (
	"encoding/binary"
	"errors"
	"math"
	"strings"
	"unicode/utf8"
)

// byHand is a message with code of its own, as one would write it with
// encoding/binary, and with the checks that the format needs.
type byHand interface {
	appendByHand([]byte) ([]byte, error)
	readByHand([]byte) error
}

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
	dst, err := handString(dst, m.Sender)
	if err != nil {
		return dst, err
	}
	return handString(dst, m.Message)
}

func (m *player) appendByHand(dst []byte) ([]byte, error) {
	dst, err := handString(binary.BigEndian.AppendUint32(dst, uint32(m.ID)), m.Name)
	if err != nil {
		return dst, err
	}
	return handFloat(dst, m.Health), nil
}

func (m *friends) appendByHand(dst []byte) (_ []byte, err error) {
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

func (m *state) appendByHand(dst []byte) (_ []byte, err error) {
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

func (m *entity) appendByHand(dst []byte) ([]byte, error) {
	dst, err := handString(binary.BigEndian.AppendUint32(dst, uint32(m.ID)), m.Name)
	if err != nil {
		return dst, err
	}
	dst = m.Position.appendByHand(dst)
	dst = m.Velocity.appendByHand(dst)
	dst = handFloat(dst, m.Health)
	return handBool(append(dst, byte(m.Team)), m.Alive), nil
}

func (m *vector) appendByHand(dst []byte) []byte {
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
	m.Sender = r.string()
	m.Message = r.string()
	return r.err
}

func (m *player) readByHand(b []byte) error {
	r := handReader{b: b}
	m.ID = int32(r.u32())
	m.Name = r.string()
	m.Health = r.f32()
	return r.err
}

func (m *friends) readByHand(b []byte) error {
	r := handReader{b: b}
	m.Names = make([]string, r.count(2))
	for i := range m.Names {
		m.Names[i] = r.string()
	}
	return r.err
}

func (m *state) readByHand(b []byte) error {
	r := handReader{b: b}
	m.Tick = int64(r.u64())
	m.Players = make([]*entity, r.count(1))
	for i := range m.Players {
		if r.u8() != 0 {
			p := new(entity)
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

func (m *entity) read(r *handReader) {
	m.ID = int32(r.u32())
	m.Name = r.string()
	m.Position = readVector(r)
	m.Velocity = readVector(r)
	m.Health = r.f32()
	m.Team = int8(r.u8())
	m.Alive = r.u8() != 0
}

func readVector(r *handReader) *vector {
	if r.u8() == 0 {
		return nil
	}
	sub := handReader{b: r.take(r.u16())}
	v := &vector{sub.f32(), sub.f32(), sub.f32()}
	if sub.err != nil {
		r.err = sub.err
	}
	return v
}
