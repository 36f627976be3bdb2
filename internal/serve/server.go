package serve

import (
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"volley/internal/datagram"
	"volley/internal/listen"
	"volley/internal/outbox"
)

// A Handler is what a server does with its connections of type C.
type Handler[C any] struct {
	Message func(c C, msg []byte)
	Open    func(c C)
	Closed  func(c C, err error)
}

// A Conn is a served connection as its Loop sees it.
type Conn[C any] interface {
	// Conn returns what the Handler is given.
	Conn() C
	// Seat returns the connection's place, always the same.
	Seat() *Seat[C]
	// Adopted is called once, with how late the handler was before.
	Adopted(Late)
	// Below returns the connection below.
	Below() datagram.Conn
	// Waiting returns how many bytes wait for Next, at least two more for each message than it has.
	Waiting() int
	// Next appends the next message to dst. It reports whether there was one. An
	// error is the end.
	Next(dst []byte) (msg []byte, ok bool, err error)
}

// A Seat is the place of a connection in its Loop. The zero value is that of a
// connection that is not served.
type Seat[C any] struct {
	loop  atomic.Pointer[Loop[C]]
	flags atomic.Uint32
	phase phase // belongs to who runs the Loop
}

// A phase is how far a served connection has come.
type phase uint8

const (
	waiting phase = iota // Open is to be called
	opened
	over // Closed has been called
)

// The flags of a Seat.
const (
	queued = 1 << iota // it is in the Loop's queue
	astray             // another reader than the Loop's reads the connection
)

// Taken reports whether the connection is served.
func (s *Seat[C]) Taken() bool { return s.loop.Load() != nil }

// Late returns how late the handler of the socket was, so far. No lock of the connection is
// held.
func (s *Seat[C]) Late() (late Late) {
	if l := s.loop.Load(); l != nil {
		late = l.lateness()
	}
	return late
}

// Received tells the Loop, within HandleBatch, that messages wait. It reports whether there is
// one, so that the handler will be given them.
func (s *Seat[C]) Received(c Conn[C]) bool {
	switch l := s.loop.Load(); {
	case l == nil:
		return false
	case s.flags.Load()&astray != 0:
		l.put(c)
		l.wake()
	default:
		l.received(c)
	}
	return true
}

// Moved tells the Seat which reader reads the connection from now on, before that hands
// messages over. It keeps its Loop.
func (s *Seat[C]) Moved(after datagram.AfterReader) {
	if l := s.loop.Load(); l != nil && l.after != after {
		s.flags.Or(astray) // for good, because the other reader may be at work yet if it comes back
	}
}

// Ended tells the Loop of the end of the connection.
func (s *Seat[C]) Ended(c Conn[C]) {
	if l := s.loop.Load(); l != nil {
		l.put(c)
		l.wake()
	}
}

// Flush sends what the handler has written so far, for a call that waits until
// that has left.
func (s *Seat[C]) Flush() {
	if l := s.loop.Load(); l != nil {
		l.flush()
	}
}

// Write gathers a message into the pass of the handler that runs. It reports false if none
// runs, or there is no room: then the caller writes as ever.
func (s *Seat[C]) Write(gather func(g *datagram.Gathering, now time.Time) outbox.Gathered) bool {
	l := s.loop.Load()
	return l != nil && l.write(gather)
}

// Errors of Serve and Poll.
var (
	ErrServed    = errors.New("the Listener serves its connections by a Handler")
	ErrNoMessage = errors.New("Handler.Message is nil")
)

// A Server is the part of a Listener that serves. It is made by Init.
type Server[C any] struct {
	source listen.Source[C]
	conn   func(C) Conn[C]
	lag    time.Duration

	mu      sync.Mutex
	handler *Handler[C] // nil: Accept takes the connections
	polled  bool
	loops   map[datagram.AfterReader]*Loop[C] // of the sockets
	all     []*Loop[C]                        // the same; replaced, not changed
}

// TickLag is how late what Serve owes by time may be, if no packet comes. Else its reader
// does that between packets, and the runtime starts no goroutine for each.
const TickLag = 5 * time.Millisecond

// Init prepares to serve the connections of a listener. Lag is at most TickLag, and 0 if all
// that is due has to be on time.
func (s *Server[C]) Init(source listen.Source[C], conn func(C) Conn[C], lag time.Duration) {
	s.source, s.conn, s.lag = source, conn, lag
}

// Serve serves connections until the listener is closed, and always returns an error.
func (s *Server[C]) Serve(h Handler[C]) error {
	if err := s.start(h, false); err != nil {
		return s.opError("serve", err)
	}
	for _, m := range s.source.Muxes() {
		m.SetTickLag(s.lag)
	}
	<-s.source.Done()
	return s.opError("serve", net.ErrClosed)
}

// Poll serves what has come since the last call. The error matches net.ErrClosed when the
// listener is closed and the last connection has ended.
func (s *Server[C]) Poll(h Handler[C]) error {
	if err := s.start(h, true); err != nil {
		return s.opError("poll", err)
	}
	for _, m := range s.source.Muxes() {
		m.Poll()
	}
	s.mu.Lock()
	all := s.all
	s.mu.Unlock()
	over := s.source.Over() // before, because what ends meanwhile is told by the next call
	for _, l := range all {
		l.Run()
	}
	if over {
		return s.opError("poll", net.ErrClosed)
	}
	return nil
}

func (s *Server[C]) opError(op string, err error) error {
	addr := s.source.Addr()
	return &net.OpError{Op: op, Net: addr.Network(), Addr: addr, Err: err}
}

// start begins to serve, or goes on to poll, perhaps with another Handler.
func (s *Server[C]) start(h Handler[C], polled bool) error {
	if h.Message == nil {
		return ErrNoMessage
	}
	s.mu.Lock()
	if s.handler != nil {
		defer s.mu.Unlock()
		if !polled || !s.polled {
			return ErrServed
		}
		*s.handler = h
		return nil
	}
	s.handler, s.polled = new(h), polled // here, so that Poll allocates nothing
	s.loops = make(map[datagram.AfterReader]*Loop[C])
	s.mu.Unlock()
	if s.source.Divert(ErrServed, s.adopt) {
		return nil
	}
	s.mu.Lock()
	s.handler = nil
	s.mu.Unlock()
	return net.ErrClosed
}

// adopt serves a new connection.
func (s *Server[C]) adopt(conn C) {
	c := s.conn(conn)
	after := c.Below().Features().After
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.loops[after]
	if l == nil {
		l = &Loop[C]{handler: s.handler, after: after, polled: s.polled}
		s.loops[after] = l
		s.all = append(s.all[:len(s.all):len(s.all)], l)
	}
	c.Adopted(l.lateness())
	c.Seat().loop.Store(l)
	l.put(c)
	l.wake()
}
