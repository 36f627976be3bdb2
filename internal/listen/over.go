package listen

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"maps"
	"net"
	"slices"
	"sync"
	"time"

	"volley/internal/datagram"
)

// An Over is the user's side of a listener that puts a protocol on the connections of
// another one, for connections of type C. It is safe for concurrent use.
type Over[C comparable] struct {
	inner   net.Listener
	wrap    func(net.Conn) (C, error)
	end     func(C) error
	source  Source[net.Conn] // inner, if it is one
	results chan accepted
	ended   chan struct{} // closed when Accept has ended
	done    chan struct{} // closed by Close

	mu      sync.Mutex
	closed  bool
	err     error          // of Close
	take    func(net.Conn) // nil: Accept returns what is accepted
	why     error          // of that
	waiting int            // calls of Accept
	running int            // calls of inner.Accept of which nobody has taken the result
	conns   map[C]struct{}
	change  chan struct{} // closed when one of them has gone; nil if nobody waits
}

type accepted struct {
	conn net.Conn
	err  error
}

// NewOver returns an Over on inner, which it takes over. Wrap makes a connection on one of
// inner, which it closes if it cannot, and end closes one.
func NewOver[C comparable](inner net.Listener, wrap func(net.Conn) (C, error), end func(C) error) *Over[C] {
	return &Over[C]{
		inner: inner, wrap: wrap, end: end, source: SourceOf(inner), results: make(chan accepted),
		ended: make(chan struct{}), done: make(chan struct{}), conns: make(map[C]struct{}),
	}
}

// Addr returns the address of the other listener.
func (o *Over[C]) Addr() net.Addr { return o.inner.Addr() }

// AcceptConn waits for a connection, or until ctx ends. A later one is for the next call.
func (o *Over[C]) AcceptConn(ctx context.Context) (c C, err error) {
	inner, err := o.accept(ctx)
	if err != nil {
		return c, err
	}
	return o.wrap(inner)
}

func (o *Over[C]) accept(ctx context.Context) (net.Conn, error) {
	if o.source != nil {
		return o.source.AcceptConn(ctx)
	}
	o.mu.Lock()
	if o.waiting++; o.running < o.waiting && o.take == nil {
		o.running++
		go o.run()
	}
	o.mu.Unlock()
	err := o.over(ctx)
	if err == nil {
		select {
		case a := <-o.results:
			o.mu.Lock()
			defer o.mu.Unlock()
			o.waiting--
			o.running--
			return a.conn, a.err
		case <-ctx.Done():
		case <-o.ended:
		}
		err = o.over(ctx)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.waiting--
	return nil, o.opError("accept", err)
}

// over returns why Accept is not to wait.
func (o *Over[C]) over(ctx context.Context) error {
	select {
	case <-o.ended:
		o.mu.Lock()
		defer o.mu.Unlock()
		return cmp.Or(o.why, net.ErrClosed)
	default:
		return context.Cause(ctx)
	}
}

// run calls inner.Accept for the next call of Accept, or until the end for Divert.
func (o *Over[C]) run() {
	var a accepted
	a.conn, a.err = o.inner.Accept()
	select {
	case o.results <- a:
		return
	case <-o.ended:
	}
	for pause := leastPause; ; a.conn, a.err = o.inner.Accept() {
		o.mu.Lock()
		take, closed := o.take, o.closed
		o.mu.Unlock()
		switch {
		case a.err == nil && take != nil && !closed:
			take(a.conn)
			pause = leastPause
		case a.err == nil:
			a.conn.Close()
			return
		case closed || errors.Is(a.err, net.ErrClosed):
			return
		default:
			select {
			case <-time.After(pause):
			case <-o.done:
			}
			pause = min(2*pause, mostPause)
		}
	}
}

// Divert pauses for so long after an error, as net/http does.
const (
	leastPause = 5 * time.Millisecond
	mostPause  = time.Second
)

// Divert is that of a Source. If inner is none, a goroutine accepts.
func (o *Over[C]) Divert(err error, takeConn func(C)) bool {
	take := func(inner net.Conn) {
		if c, err := o.wrap(inner); err == nil {
			takeConn(c)
		}
	}
	if o.source != nil {
		return o.source.Divert(err, take)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed || o.take != nil {
		return false
	}
	o.take, o.why = take, err
	close(o.ended)
	if o.running == 0 {
		o.running++
		go o.run()
	}
	return true
}

// Done is that of a Source.
func (o *Over[C]) Done() <-chan struct{} {
	if o.source != nil {
		return o.source.Done()
	}
	return o.done
}

// Muxes is that of a Source.
func (o *Over[C]) Muxes() []*datagram.Mux {
	if o.source != nil {
		return o.source.Muxes()
	}
	return nil
}

// Over is that of a Source.
func (o *Over[C]) Over() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.conns) == 0 && (o.source != nil && o.source.Over() || o.source == nil && o.closed)
}

// Add notes a connection, for which Gone is called later. It returns false after Close.
func (o *Over[C]) Add(c C) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.closed {
		o.conns[c] = struct{}{}
	}
	return !o.closed
}

// Gone learns that a connection has ended.
func (o *Over[C]) Gone(c C) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.conns, c)
	if o.change != nil {
		close(o.change)
		o.change = nil
	}
}

// Conns returns how many connections there are.
func (o *Over[C]) Conns() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.conns)
}

// Each returns an iterator over the connections that live when it comes to them.
func (o *Over[C]) Each() iter.Seq[C] {
	return func(yield func(C) bool) {
		for _, c := range o.list() {
			o.mu.Lock()
			_, lives := o.conns[c]
			o.mu.Unlock()
			if lives && !yield(c) {
				return
			}
		}
	}
}

func (o *Over[C]) list() []C {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Collect(maps.Keys(o.conns))
}

// Close ends Accept, and closes the other listener. The connections live on. Calls return
// the first one's result.
func (o *Over[C]) Close() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return o.err
	}
	o.closed = true
	close(o.done)
	if o.take == nil {
		close(o.ended)
	}
	o.err = o.inner.Close()
	return o.err
}

// Shutdown is Close, then waits for the connections, or ends them when ctx ends.
func (o *Over[C]) Shutdown(ctx context.Context) error {
	err := o.Close()
	for {
		o.mu.Lock()
		left := len(o.conns)
		if o.change == nil {
			o.change = make(chan struct{})
		}
		change := o.change
		o.mu.Unlock()
		if left == 0 {
			return err
		}
		select {
		case <-change:
		case <-ctx.Done():
			for _, c := range o.list() {
				o.end(c)
			}
			return o.opError("shutdown", ctx.Err())
		}
	}
}

// opError wraps an error as those of package net are.
func (o *Over[C]) opError(op string, err error) error {
	addr := o.Addr()
	return &net.OpError{Op: op, Net: addr.Network(), Addr: addr, Err: err}
}
