package riptide

import "sync"

// maxPooled is the largest buffer in bytes that is kept for reuse.
const maxPooled = 8 << 10

var messages = sync.Pool{New: func() any { return new(Message) }}

func newMessage() *Message {
	m := messages.Get().(*Message)
	m.released = false
	return m
}

// NewMessage returns an empty message of the packed layout with the default
// payload limit. See [Config.NewMessage] for others.
//
// The C# library writes the id of a notify message, if there is to be one, into
// the payload, and so does this; the receiver has to read it with
// [Message.Uvarint]. See [NewNotify] for notify messages without one.
//
// With a mode that there is not, the message has an error that says so and matches
// [ErrRange].
func NewMessage(mode Mode, id uint16) *Message {
	m := newMessage()
	m.initUser(Packed, mode, id, DefaultMaxPayload)
	return m
}

// NewNotify returns an empty notify message without an id, of the packed layout
// with the default payload limit.
func NewNotify() *Message {
	m := newMessage()
	m.initNotify(Packed, DefaultMaxPayload)
	return m
}

// NewData returns an empty message without header, mode and id, of the packed
// layout with the default payload limit: what accompanies a connect, a reject or
// a kick, or is added to another message with [Message.AddMessage].
func NewData() *Message {
	m := newMessage()
	m.initData(Packed, DefaultMaxPayload)
	return m
}

// Reset makes m an empty message with a mode and an id, of the same layout and
// payload limit as before, so that one message can be used for many. With a mode
// that there is not, the message has an error, as that of [NewMessage].
func (m *Message) Reset(mode Mode, id uint16) { m.initUser(m.layout, mode, id, m.maxPayload) }

// Release gives the message's memory back for use by another one. The message
// must not be used afterwards, and not be released again, for it may be another
// caller's by then: Release panics if it is not yet. It is never required; a
// program that releases what it has sent allocates nothing for messages. For the
// message that a handler was given it does nothing.
func (m *Message) Release() {
	switch {
	case m.released:
		panic("riptide: Message released twice")
	case m.lent:
		return
	}
	m.release()
}

// release gives the memory back, also of a message that is lent.
func (m *Message) release() {
	if cap(m.buf) > maxPooled {
		*m = Message{released: true}
		return
	}
	*m = Message{buf: m.buf, released: true}
	messages.Put(m)
}

// Clone returns a copy of the message, which reads from where this one does.
// Handlers use it to keep a message.
func (m *Message) Clone() *Message {
	c := newMessage()
	buf := c.buf
	*c = *m
	c.lent = false
	if len(buf) < len(m.body())+slack {
		buf = make([]byte, len(m.body())+slack)
	}
	copy(buf, m.body())
	c.buf = buf
	return c
}
