package listen

import (
	"context"
	"iter"
	"maps"
	"net"
	"slices"
	"sync"
)

// An Over is the user's side of a listener that puts a protocol on the connections of
// another one, for connections of type C. It is safe for concurrent use.
type Over[C Conn] struct {
	inner   net.Listener
	results chan accepted
	done    chan struct{} // closed by Close

	mu      sync.Mutex
	closed  bool
	waiting int // calls of Accept
	running int // calls of inner.Accept of which nobody has taken the result
	conns   map[C]struct{}
	change  chan struct{} // closed when one of them has gone; nil if nobody waits
}

type accepted struct {
	conn net.Conn
	err  error
}

// NewOver returns an Over on inner, which it takes over.
func NewOver[C Conn](inner net.Listener) *Over[C] {
	return &Over[C]{inner: inner, results: make(chan accepted), done: make(chan struct{}), conns: make(map[C]struct{})}
}

// Addr returns the address of the other listener.
func (o *Over[C]) Addr() net.Addr { return o.inner.Addr() }

// Accept waits for a connection of the other listener, or until ctx ends. A connection
// that comes later is for the next call.
func (o *Over[C]) Accept(ctx context.Context) (net.Conn, error) {
	o.mu.Lock()
	if o.waiting++; o.running < o.waiting {
		o.running++
		go o.run()
	}
	o.mu.Unlock()
	err := o.ended(ctx)
	if err == nil {
		select {
		case a := <-o.results:
			o.mu.Lock()
			defer o.mu.Unlock()
			o.waiting--
			o.running--
			return a.conn, a.err
		case <-ctx.Done():
		case <-o.done:
		}
		err = o.ended(ctx)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.waiting--
	return nil, o.opError("accept", err)
}

// ended returns why Accept is not to wait.
func (o *Over[C]) ended(ctx context.Context) error {
	select {
	case <-o.done:
		return net.ErrClosed
	default:
		return context.Cause(ctx)
	}
}

// run calls inner.Accept for the next call of Accept.
func (o *Over[C]) run() {
	var a accepted
	a.conn, a.err = o.inner.Accept()
	select {
	case o.results <- a:
	case <-o.done:
		if a.err == nil {
			a.conn.Close()
		}
	}
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

// Close ends Accept, and closes the other listener. The connections live on.
func (o *Over[C]) Close() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return nil
	}
	o.closed = true
	close(o.done)
	return o.inner.Close()
}

// Shutdown is Close, and then waits until all connections have ended. If ctx ends
// first, it calls end with those that are left.
func (o *Over[C]) Shutdown(ctx context.Context, end func(C)) error {
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
				end(c)
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
