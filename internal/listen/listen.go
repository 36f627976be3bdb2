// Package listen is the user's side of a listener: the sockets of its port, the
// connections that wait for Accept, the memory that all of them share, and how
// it ends. A protocol's Listener has a Listener of this package as a field, not
// embedded, and says in public what it offers; its Acceptor makes the
// connections.
package listen

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"volley/internal/backlog"
	"volley/internal/datagram"
)

// Hooks are what a protocol does when its Listener ends.
type Hooks struct {
	// Stop, if not nil, is called once, when Close begins: no connection is to
	// be made any more. If a socket broke, that is on the goroutine that reads
	// it.
	Stop func()
	// End closes the connection whose Handler it is given, for Shutdown. It is
	// called by several goroutines at once, also for what has been closed.
	End func(datagram.Handler)
	// Farewell is how long, at most, connections that End has closed stay to tell
	// their peers. Shutdown waits for that.
	Farewell time.Duration
	// Broken, if not nil, is called with what broke a socket.
	Broken func(error)
	// Over, if not nil, is called once, when all is over: Close was called, or
	// the sockets broke, and no connection is left.
	Over func()
}

// A Listener is the user's side of one. The order of calls is Init, then Serve,
// then anything; it is safe for concurrent use. Its errors are wrapped, once, as
// those of package net.
type Listener[C comparable] struct {
	queue *backlog.Queue[C]
	taken func(C)
	hooks Hooks
	muxes []*datagram.Mux
	early uint64 // datagrams that came before all sockets were there

	closeOnce sync.Once
	closeErr  error
	done      chan struct{} // closed when Close begins

	conns    atomic.Int64
	left     atomic.Int64  // sockets and connections that are not over
	over     chan struct{} // closed when there are none left
	overOnce sync.Once
}

// Init sets how many connections may wait for Accept. It calls taken for
// those that are accepted or diverted, and drop for those that nobody wants.
func (l *Listener[C]) Init(backlogSize int, taken func(C), drop func(C) error) {
	l.queue, l.taken = backlog.New(backlogSize, drop), taken
	l.over, l.done = make(chan struct{}), make(chan struct{})
}

// Serve takes over and reads the sockets of a port. It sets cfg.OnClose and cfg.Group.
func (l *Listener[C]) Serve(p *Port, cfg datagram.MuxConfig, hooks Hooks) {
	l.hooks, l.early = hooks, p.early
	cfg.OnClose = l.socketOver
	l.muxes = p.Muxes(cfg)
	l.left.Add(int64(len(l.muxes)))
	for _, m := range l.muxes {
		m.Start()
	}
}

// Addr returns the address listened on, with the real port.
func (l *Listener[C]) Addr() net.Addr { return l.muxes[0].Addr() }

// Muxes returns those of the sockets.
func (l *Listener[C]) Muxes() []*datagram.Mux { return l.muxes }

// Stats returns what happened at each of the sockets; without Serve there are none.
func (l *Listener[C]) Stats() []datagram.Stats {
	all := make([]datagram.Stats, len(l.muxes))
	for i, m := range l.muxes {
		all[i] = m.Stats()
	}
	if len(all) > 0 {
		all[0].Unknown += l.early
	}
	return all
}

// Conns returns how many connections there are.
func (l *Listener[C]) Conns() int { return int(l.conns.Load()) }

// Full reports whether one more connection would find no place before Accept.
func (l *Listener[C]) Full() bool { return l.queue.Full() }

// Add counts a connection that is being made. Gone must follow.
func (l *Listener[C]) Add() {
	l.left.Add(1)
	l.conns.Add(1)
}

// Push queues a connection for Accept, or diverts it; false: the caller closes it.
func (l *Listener[C]) Push(c C) bool { return l.queue.Push(c) }

// Take takes a connection out of the queue of Accept, and reports whether it was there.
func (l *Listener[C]) Take(c C) bool { return l.queue.Remove(c) }

// Divert is that of a Source.
func (l *Listener[C]) Divert(err error, take func(C)) bool {
	return l.queue.Divert(err, func(c C) {
		l.taken(c)
		take(c)
	})
}

// Done is that of a Source.
func (l *Listener[C]) Done() <-chan struct{} { return l.done }

// Gone ends an Add. In the queue, a connection stays only to be read, until its place is needed.
func (l *Listener[C]) Gone(c C, readable bool) {
	if readable {
		l.queue.Ended(c)
	} else {
		l.queue.Remove(c)
	}
	l.conns.Add(-1)
	l.less()
}

// less notes that a socket or connection is over. After the last, dials end at once.
func (l *Listener[C]) less() {
	if l.left.Add(-1) == 0 {
		l.overOnce.Do(func() {
			close(l.over)
			if l.hooks.Over != nil {
				l.hooks.Over()
			}
		})
	}
}

// AcceptConn waits for a connection, or until ctx ends.
func (l *Listener[C]) AcceptConn(ctx context.Context) (c C, err error) {
	if c, err = l.queue.Accept(ctx); err == nil {
		l.taken(c)
	}
	return c, l.opError("accept", err)
}

// SetDeadline sets the deadline of Accept; the zero time is none.
func (l *Listener[C]) SetDeadline(t time.Time) error {
	return l.opError("set", l.queue.SetDeadline(t))
}

// socketOver learns that a socket has gone. If it broke, so does the Listener.
func (l *Listener[C]) socketOver(cause error) {
	if cause != nil {
		if l.hooks.Broken != nil {
			l.hooks.Broken(cause)
		}
		l.queue.Close(cause)
		l.Close()
	}
	l.less()
}

// opError wraps an error that is not nil.
func (l *Listener[C]) opError(op string, err error) error {
	if err == nil {
		return nil
	}
	addr := l.Addr()
	return &net.OpError{Op: op, Net: addr.Network(), Addr: addr, Err: err}
}
