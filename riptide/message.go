package riptide

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// A Message is a list of values to send, or one that was received. Read the
// values in the order and with the types with which they were added: the
// message does not say what it holds.
//
// Functions and methods named Add append a value; those named Read with the
// same suffix read the next one. The first error sticks: afterwards nothing is
// added, and reads return zeros. So a handler can read all fields and then check
// [Message.Err] once. Sending a message that has an error fails with that error.
//
// Sending copies a message, so it can be sent again. A Message must not be used
// by several goroutines at once. [NewMessage], [NewData] and the methods of
// [Config] with these names make messages; the zero value is not usable.
type Message struct {
	// buf holds the content. A word is loaded and stored at a time, so buf is
	// always at least slack bytes longer than its content.
	buf    []byte
	origin int // bit at which the payload starts
	pos    int // bit to be read next
	end    int // number of bits there are
	limit  int // end cannot be more
	// maxPayload is what limit was made from; 0: m is the zero value
	maxPayload int
	id         uint16
	layout     layout
	mode       Mode
	err        error
}

// slack is what buf has beyond the last byte in use.
const slack = 9

var (
	// ErrMessageFull is the error of a Message to which more was added than
	// the largest payload.
	ErrMessageFull = errors.New("riptide: message is full")
	// ErrRange is the error of a Message that cannot express a value. Examples
	// are a wrong number of bits and an unknown [Mode].
	ErrRange = errors.New("riptide: value out of range")

	errLayout     = errors.New("riptide: the message has another layout than the connection")
	errUnmade     = errors.New("riptide: the Message is the zero value: NewMessage makes one")
	errNilMessage = errors.New("riptide: the Message is nil")
)

// A modeError: a Message cannot be sent because of its Mode. It matches ErrRange.
type modeError struct{ mode Mode }

func (e *modeError) Error() string {
	return "riptide: cannot send a message of mode " + e.mode.String()
}
func (e *modeError) Is(target error) bool { return target == ErrRange }

// errMessageEnd: a Message ends too early. It matches io.ErrUnexpectedEOF.
var errMessageEnd error = messageEndError{}

type messageEndError struct{}

func (messageEndError) Error() string        { return "riptide: read past the end of the message" }
func (messageEndError) Is(target error) bool { return target == io.ErrUnexpectedEOF }

// NewMessage returns an empty message of the packed layout with the default
// payload limit. See [Config.NewMessage] for others.
//
// A notify message of the packed layout needs no id: 0 is none. Another id goes
// into the payload, as in the C# library, and the receiver reads it with
// [Message.ReadUvarint]. With an unknown mode the message has an error that matches
// [ErrRange].
func NewMessage(mode Mode, id uint16) *Message { return (*Config)(nil).NewMessage(mode, id) }

// NewData returns an empty message of the packed layout without mode and id:
// data that accompanies a connect, a rejection or a kick, or is added to another
// message with [Message.AddRest].
func NewData() *Message { return (*Config)(nil).NewData() }

// Reset makes m an empty message with a mode and an id, of the same layout and
// payload limit as before, so that a program can use one message for many.
func (m *Message) Reset(mode Mode, id uint16) {
	m.init(m.layout, mode, m.maxPayload)
	switch {
	case !mode.valid():
		m.Fail(&modeError{mode})
	case m.layout == notes:
		m.put(uint64(id), 16)
	case mode != Notify || id != 0:
		m.AddUvarint(uint64(id))
	}
	m.id = id
	m.origin, m.pos = m.end, m.end
}

// Clone returns a copy of the message, which reads from where this one does.
// A handler that keeps a message keeps a clone.
func (m *Message) Clone() *Message {
	c := *m
	c.buf = make([]byte, len(m.body())+slack)
	copy(c.buf, m.body())
	return &c
}

func (m *Message) init(layout layout, mode Mode, maxPayload int) {
	start := layout.bodyStart()
	*m = Message{
		buf:    m.buf,
		layout: layout,
		mode:   mode,
		origin: start,
		pos:    start,
		end:    start,
		limit:  start + 8*(maxPayload+maxHeaderSize) - layout.headerBits(mode),

		maxPayload: maxPayload,
	}
	if layout == notes { // its limit does not count headers
		m.limit = 8 * (maxPayload + 2)
	}
	if len(m.buf) < slack {
		m.buf = make([]byte, 64)
	}
	m.buf[0] = 0
}

// initData makes m a message without a header.
func (m *Message) initData(layout layout, maxPayload int) {
	m.init(layout, 0, maxPayload)
	m.origin, m.pos, m.end = 0, 0, 0
	m.limit = 8 * maxPayload
	if layout == packed {
		m.limit += 8 * maxHeaderSize
	}
}

// load makes m a received message: a copy of a body.
func (m *Message) load(layout layout, mode Mode, body []byte) {
	n := len(body)
	if len(m.buf) < n+slack {
		m.buf = make([]byte, max(64, n+slack))
	}
	copy(m.buf, body)
	start := layout.bodyStart()
	if n > 0 {
		m.buf[0] &^= 1<<start - 1
	}
	*m = Message{
		buf:    m.buf,
		layout: layout,
		mode:   mode,
		origin: start,
		pos:    start,
		end:    max(start, 8*n),
		limit:  max(start, 8*n),

		maxPayload: max(defaultMaxPayload, n),
	}
}

// loadUser is load for a user message, whose id is read first.
func (m *Message) loadUser(layout layout, mode Mode, body []byte) {
	m.load(layout, mode, body)
	switch {
	case layout == notes:
		m.id = Read[uint16](m)
	case mode != Notify:
		m.id = uint16(m.ReadUvarint())
	}
	m.origin = m.pos
}

// body returns what follows the header, from the start bit on. It belongs to m.
func (m *Message) body() []byte { return m.buf[:(m.end+7)/8] }

// ID returns the message id. It is 0 for data and for notify messages of the
// packed layout, which have none.
func (m *Message) ID() uint16 { return m.id }

// Mode returns how the message is delivered.
func (m *Message) Mode() Mode { return m.mode }

// Err returns the first error: [ErrMessageFull], [ErrRange], the error given to
// [Message.Fail], or an error that matches io.ErrUnexpectedEOF if more was read
// than the message holds.
func (m *Message) Err() error { return m.err }

// Fail sets the message's error, unless it has one or err is nil. A [Marshaler]
// or [Unmarshaler] calls it for a value out of its range.
func (m *Message) Fail(err error) {
	if m.err == nil {
		m.err = err
	}
}

// Unread returns the number of bits that have not been read. Up to 7 bits of
// a received message of the packed layout are padding.
func (m *Message) Unread() int { return m.end - m.pos }

// BitLen returns the number of bits of the payload: the position of the next
// value to be added.
func (m *Message) BitLen() int { return m.end - m.origin }

// Rewind makes the next read start at the beginning of the payload, and
// forgets an error.
func (m *Message) Rewind() { m.pos, m.err = m.origin, nil }

// String describes the message. [Message.ReadString] reads a string from it.
func (m *Message) String() string {
	if m.mode == 0 {
		return fmt.Sprintf("data of %d bits", m.BitLen())
	}
	return fmt.Sprintf("%v message %d of %d bits", m.mode, m.id, m.BitLen())
}

// room reports whether n more bits may be added, and makes room for them.
func (m *Message) room(n int) bool {
	if m.err != nil {
		return false
	}
	if n > m.limit-m.end {
		m.failFull()
		return false
	}
	if need := (m.end+n)>>3 + slack; need > len(m.buf) {
		m.grow(need)
	}
	return true
}

func (m *Message) failFull() {
	if m.maxPayload == 0 {
		m.Fail(errUnmade)
	}
	m.Fail(ErrMessageFull)
}

func (m *Message) grow(need int) {
	buf := make([]byte, max(need, 2*len(m.buf)))
	copy(buf, m.buf)
	m.buf = buf
}

// put adds the low n bits of v, whose others must be 0; n is 1 to 64.
func (m *Message) put(v uint64, n int) {
	if m.room(n) {
		m.store(m.end, v)
		m.end += n
	}
}

// store writes v at a bit, and zeros behind it up to the 72nd bit.
func (m *Message) store(at int, v uint64) {
	s := at & 7
	b := m.buf[at>>3:][:9]
	binary.LittleEndian.PutUint64(b, uint64(b[0])&(1<<s-1)|v<<s)
	b[8] = byte(v >> (64 - s))
}

// has reports whether n bits are left to read.
func (m *Message) has(n int) bool {
	if m.err != nil {
		return false
	}
	if n > m.end-m.pos {
		m.err = errMessageEnd
		return false
	}
	return true
}

// take reads n bits, 1 to 64.
func (m *Message) take(n int) uint64 {
	if !m.has(n) {
		return 0
	}
	v := m.fetch(m.pos) & (1<<n - 1)
	m.pos += n
	return v
}

// fetch returns the 64 bits from a bit on.
func (m *Message) fetch(at int) uint64 {
	s := at & 7
	b := m.buf[at>>3:][:9]
	return binary.LittleEndian.Uint64(b)>>s | uint64(b[8])<<(64-s)
}
