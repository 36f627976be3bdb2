package riptide

import (
	"maps"
	"sync"
	"sync/atomic"
)

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

// call calls the handler of a message.
func (t *handlerTable[P]) call(p P, m *Message, notify, unhandled func(P, *Message) error) error {
	f := unhandled
	if m.mode == Notify {
		f = notify
	} else if handlers := t.m.Load(); handlers != nil && (*handlers)[m.id] != nil {
		f = (*handlers)[m.id]
	}
	if f == nil {
		return nil
	}
	return f(p, m)
}
