package riptide

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// A Message is a list of values to be sent, or one that was received. Values
// must be read in the order and with the types with which they were added:
// nothing in the message says what it holds.
//
// Methods named Add... append a value, methods named after a type read the next
// one. The first error sticks: from then on nothing is added, and reads return
// zeros, so that a handler can read all fields and check [Message.Err] once.
// Sending a message that has an error fails with that error.
//
// Sending copies a message, so it can be sent again, to others, too. A Message
// must not be used by several goroutines at once. The zero value is not usable,
// and adding to it or sending it is an error; [NewMessage], [NewNotify],
// [NewData] and the methods of the same names of [Config] make messages.
type Message struct {
	// buf holds the content. A word is loaded and stored at a time, so it is
	// always at least slack bytes longer than what is used of it.
	buf    []byte
	origin int // bit at which the payload starts
	pos    int // bit to be read next
	end    int // number of bits there are
	limit  int // end cannot be more
	// maxPayload is what limit was made from
	maxPayload int
	id         uint16
	kind       messageKind
	layout     Layout
	mode       Mode
	lent       bool // to a handler, which cannot release it
	released   bool
	err        error
}

// messageKind tells apart what the zeros of mode and id do not.
type messageKind uint8

const (
	userMessage messageKind = iota
	dataMessage             // no header at all
)

// slack is what buf has beyond the last byte in use.
const slack = 9

var (
	// ErrMessageFull is the error of a Message to which more was added than
	// the largest payload.
	ErrMessageFull = errors.New("riptide: message is full")
	// ErrMessageEnd is the error of a Message of which more was read than it
	// holds, or which claims a length larger than what is left. It matches
	// io.ErrUnexpectedEOF.
	ErrMessageEnd error = messageEndError{}
	// ErrRange is the error of a Message to which a value was added that its
	// layout cannot express, or of which a number of bits or elements was
	// asked for that cannot be. It is matched by that of a [Mode] that there
	// is not.
	ErrRange = errors.New("riptide: value out of range")

	errUnmade     = errors.New("riptide: the Message is the zero value, or was released: NewMessage makes one")
	errNilMessage = errors.New("riptide: the Message is nil")
)

// A modeError is the error of a Message with a Mode that there is not. It matches
// ErrRange.
type modeError struct{ mode Mode }

func (e *modeError) Error() string        { return "riptide: there is no " + e.mode.String() }
func (e *modeError) Is(target error) bool { return target == ErrRange }

type messageEndError struct{}

func (messageEndError) Error() string        { return "riptide: read past the end of the message" }
func (messageEndError) Is(target error) bool { return target == io.ErrUnexpectedEOF }

// init makes m an empty message for values.
func (m *Message) init(layout Layout, mode Mode, maxPayload int) {
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
	if layout == Notes { // whose limit does not count headers
		m.limit = 8 * (maxPayload + 2)
	}
	if len(m.buf) < slack {
		m.buf = make([]byte, 64)
	}
	m.buf[0] = 0
}

// initUser makes m a message with an id.
func (m *Message) initUser(layout Layout, mode Mode, id uint16, maxPayload int) {
	m.init(layout, mode, maxPayload)
	m.id = id
	if layout == Notes {
		m.put(uint64(id), 16)
	} else {
		m.AddUvarint(uint64(id))
	}
	m.origin, m.pos = m.end, m.end
	if !mode.valid() {
		m.Fail(&modeError{mode})
	}
}

// initNotify makes m a notify message without an id.
func (m *Message) initNotify(layout Layout, maxPayload int) {
	if layout == Notes { // which has one always
		m.initUser(layout, Notify, 0, maxPayload)
		return
	}
	m.init(layout, Notify, maxPayload)
}

// initData makes m a message without a header.
func (m *Message) initData(layout Layout, maxPayload int) {
	m.init(layout, Unreliable, maxPayload)
	m.kind = dataMessage
	m.origin, m.pos, m.end = 0, 0, 0
	m.limit = 8 * maxPayload
	if layout == Packed {
		m.limit += 8 * maxHeaderSize
	}
}

// load makes m a received message: a copy of a body.
func (m *Message) load(layout Layout, mode Mode, body []byte) {
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
		lent:   m.lent,
		origin: start,
		pos:    start,
		end:    max(start, 8*n),
		limit:  max(start, 8*n),

		maxPayload: max(DefaultMaxPayload, n),
	}
}

// loadUser is load for a user message, whose id is read first.
func (m *Message) loadUser(layout Layout, mode Mode, body []byte) {
	m.load(layout, mode, body)
	switch {
	case layout == Notes:
		m.id = m.Uint16()
	case mode != Notify:
		m.id = uint16(m.Uvarint())
	}
	m.origin = m.pos
}

// body returns what follows the header, from the start bit of the first byte
// on. It belongs to m.
func (m *Message) body() []byte { return m.buf[:(m.end+7)/8] }

// ID returns the message id. It is 0 for messages without one: those of
// [NewData], and notify messages of the packed layout that were received.
func (m *Message) ID() uint16 { return m.id }

// Mode returns how the message is to be sent, or was.
func (m *Message) Mode() Mode { return m.mode }

// Layout returns the message's encoding.
func (m *Message) Layout() Layout { return m.layout }

// Err returns the first error met in adding to the message or reading from it:
// [ErrMessageFull], [ErrMessageEnd], [ErrRange], or what was given to
// [Message.Fail].
func (m *Message) Err() error { return m.err }

// Fail sets the message's error, unless it has one or err is nil, for
// implementations of [Marshaler] and [Unmarshaler] that meet a value that is
// out of their range.
func (m *Message) Fail(err error) {
	if m.err == nil {
		m.err = err
	}
}

// Unread returns the number of bits that have not been read. Of a message that
// was received in the packed layout, up to 7 of them are padding.
func (m *Message) Unread() int { return m.end - m.pos }

// BitLen returns the number of bits of the payload, which is where the next
// value is added. Of a message that was received in the packed layout, up to 7
// of them are padding.
func (m *Message) BitLen() int { return m.end - m.origin }

// Rewind makes the next read start at the beginning of the payload, and
// forgets an error.
func (m *Message) Rewind() { m.pos, m.err = m.origin, nil }

// Format implements fmt.Formatter, so that printing a message describes it and
// does not read a string from it.
func (m *Message) Format(f fmt.State, _ rune) {
	if m.kind == dataMessage {
		fmt.Fprintf(f, "data of %d bits", m.BitLen())
		return
	}
	fmt.Fprintf(f, "%v message %d of %d bits", m.mode, m.id, m.BitLen())
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

// failFull notes that there is no room.
func (m *Message) failFull() {
	if m.made() {
		m.Fail(ErrMessageFull)
	} else {
		m.Fail(errUnmade)
	}
}

// made reports whether m is neither a zero Message nor one that was released.
func (m *Message) made() bool { return m.maxPayload != 0 }

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
		m.err = ErrMessageEnd
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
