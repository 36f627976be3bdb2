package listen

import (
	"context"
	"net"
	"reflect"
	"sync"

	"volley/internal/datagram"
)

// A Source is a listener for connections of type C as package serve sees it, or a
// protocol on top of it.
type Source[C any] interface {
	Addr() net.Addr
	AcceptConn(ctx context.Context) (C, error)
	// Divert ends Accept with err. From then on take is called for each connection: first
	// for those that wait for Accept, then for new ones, on the goroutine that makes them
	// and before their first datagram. It returns false if the listener was closed before.
	Divert(err error, take func(C)) bool
	// Done returns a channel that closes when Close begins.
	Done() <-chan struct{}
	// Muxes returns those of the sockets. They are polled when the Source is.
	Muxes() []*datagram.Mux
	// Over reports whether the listener is closed and has no connection any more.
	Over() bool
}

// A Side is the user's side of a listener: a Listener or an Over.
type Side[C any] interface {
	Source[C]
	Close() error
	Shutdown(ctx context.Context) error
	Conns() int
}

// sources maps the type of a protocol's listeners to a func(net.Listener) Source[net.Conn].
var sources sync.Map

// RegisterSource has listeners on top of those of type L use f(l): then no goroutine accepts
// for them, and what they serve is served on the goroutine that reads the socket.
func RegisterSource[L net.Listener, C net.Conn](f func(L) Source[C]) {
	sources.Store(reflect.TypeFor[L](), func(l net.Listener) Source[net.Conn] { return conns[C]{f(l.(L))} })
}

// SourceOf returns the Source of a listener of volley's own, nil for others, also those
// that embed one: their changes would be passed over.
func SourceOf(l net.Listener) Source[net.Conn] {
	if f, ok := sources.Load(reflect.TypeOf(l)); ok {
		return f.(func(net.Listener) Source[net.Conn])(l)
	}
	return nil
}

// conns is a Source for any net.Conn.
type conns[C net.Conn] struct{ Source[C] }

func (s conns[C]) AcceptConn(ctx context.Context) (net.Conn, error) {
	c, err := s.Source.AcceptConn(ctx)
	if err != nil {
		return nil, err
	}
	return c, nil
}

func (s conns[C]) Divert(err error, take func(net.Conn)) bool {
	return s.Source.Divert(err, func(c C) { take(c) })
}
