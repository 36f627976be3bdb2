package netplay

import (
	"fmt"
	"reflect"
	"sync"
)

// A Router dispatches messages to handlers: a [*Server] or a [*Client].
type Router interface {
	router() *router
}

// Handle makes r call f with each message of type T, one after another for each
// connection, on the goroutine that reads from it. T is a struct type in the Registry of
// r; otherwise Server.Serve or Client.Run returns an error. A second handler of a type
// replaces the first. Messages without a handler are counted and dropped.
//
// The message belongs to f. If f returns an error, the connection ends with it, unless
// OnError decides otherwise. If f panics, the panic is logged with the stack, as in
// package net/http, and only the connection ends, with a *[HandlerError]. The same holds
// for OnConnect, OnError and OnDisconnect.
func Handle[T any](r Router, f func(c *Conn, m *T) error) {
	r.router().add(reflect.TypeFor[T](), func(c *Conn, m any) error { return f(c, m.(*T)) })
}

// A router knows the handlers of types.
type router struct {
	mu       sync.RWMutex
	handlers map[reflect.Type]func(*Conn, any) error
}

func (r *router) add(t reflect.Type, h func(*Conn, any) error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.handlers == nil {
		r.handlers = make(map[reflect.Type]func(*Conn, any) error)
	}
	r.handlers[t] = h
}

// of returns the handler of a type, or nil.
func (r *router) of(t reflect.Type) func(*Conn, any) error {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.handlers[t]
}

// check returns an error if a handler can never be called.
func (r *router) check(reg *Registry) error {
	r.mu.RLock()
	defer r.mu.RUnlock()
	for t := range r.handlers {
		if reg.typeOf(t) == nil {
			return configError("Registry", "type %v has a handler but is not registered", t)
		}
	}
	return nil
}

// A HandlerError is the error or the panic of a handler.
type HandlerError struct {
	Type reflect.Type // of the message
	Err  error
}

func (e *HandlerError) Error() string {
	return fmt.Sprintf("netplay: handler of %v: %v", e.Type, e.Err)
}

func (e *HandlerError) Unwrap() error { return e.Err }

// decode returns the message in a frame and its handler, both nil if there is no handler.
func (r *router) decode(c *Codec, f Frame) (m any, h func(*Conn, any) error, err error) {
	mt := c.reg.load().byNumber[f.Type]
	if mt != nil {
		if h = r.of(mt.plan.typ); h == nil {
			return nil, nil, nil
		}
	}
	m, err = c.Decode(f)
	return m, h, err
}
