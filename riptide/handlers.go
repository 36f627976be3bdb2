package riptide

import (
	"maps"
	"sync"
	"sync/atomic"
)

// Handlers is what [Handle] registers handlers with: a *[Server], whose
// handlers are given a *[Peer], or a *[Client], whose handlers are given the
// client.
type Handlers[P any] interface {
	handlerTable() *handlerTable[P]
}

// Handle registers the handler of the user messages with an id, in place of an
// earlier one; nil removes it. Messages of all ids without a handler go to the
// field Unhandled. The message is valid until the handler returns; use
// [Message.Clone] to keep it.
//
// Handlers of one connection are called one after the other, in the order in
// which messages arrived; those of different connections at the same time. An
// error of a handler is logged, and if the field KickOnError is set it ends the
// connection.
func Handle[P any](h Handlers[P], id uint16, f func(P, *Message) error) {
	h.handlerTable().set(id, f)
}

// HandleValue registers, like [Handle], a handler that is given the values of
// the message. If they cannot be read, it is not called, and the message's error
// is treated as a handler's.
func HandleValue[P, T any, U interface {
	*T
	Unmarshaler
}](h Handlers[P], id uint16, f func(P, U) error) {
	Handle(h, id, func(p P, m *Message) error {
		v := U(new(T))
		if v.UnmarshalRiptide(m); m.err != nil {
			return m.err
		}
		return f(p, v)
	})
}

// A handlerTable holds handlers by message id. It is read without a lock.
type handlerTable[P any] struct {
	mu sync.Mutex
	m  atomic.Pointer[map[uint16]func(P, *Message) error]
}

func (t *handlerTable[P]) set(id uint16, f func(P, *Message) error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	m := make(map[uint16]func(P, *Message) error)
	if old := t.m.Load(); old != nil {
		maps.Copy(m, *old)
	}
	m[id] = f
	if f == nil {
		delete(m, id)
	}
	t.m.Store(&m)
}

// get returns the handler of an id, or else the given one.
func (t *handlerTable[P]) get(id uint16, unhandled func(P, *Message) error) func(P, *Message) error {
	if m := t.m.Load(); m != nil {
		if f := (*m)[id]; f != nil {
			return f
		}
	}
	return unhandled
}

// A relayFilter has a bit for each message id.
type relayFilter [1 << 16 / 64]uint64

func (r *relayFilter) has(id uint16) bool { return r != nil && r[id/64]>>(id%64)&1 == 1 }
