package serve

import (
	"net"
	"sync"
	"sync/atomic"
	"time"

	"volley/internal/datagram"
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
	// Next appends the next message to dst. It reports whether there was one. An
	// error is the end.
	Next(dst []byte) (msg []byte, ok bool, err error)
}

// A Seat is the place of a connection in its Loop. The zero value is that of a
// connection that is not served.
type Seat[C any] struct {
	loop   atomic.Pointer[Loop[C]]
	queued atomic.Bool
	phase  phase // belongs to who runs the Loop
}

// A phase is how far a served connection has come.
type phase uint8

const (
	waiting phase = iota // Open is to be called
	opened
	over // Closed has been called
)

// Loop returns the Loop that serves the connection, nil if none does.
func (s *Seat[C]) Loop() *Loop[C] { return s.loop.Load() }

// Received tells the Loop, within HandleBatch, that messages wait.
func (s *Seat[C]) Received(c Conn[C]) {
	if l := s.loop.Load(); l != nil {
		l.received(c)
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
		if pass, ok := l.Join(); ok {
			pass.Flush()
			l.Leave(time.Time{})
		}
	}
}

// A Server is the part of a Listener that serves. It is made by Init.
type Server[C any] struct {
	done chan struct{} // closed by Stop
	once sync.Once

	mu     sync.Mutex
	h      *Handler[C] // nil: Accept takes the connections
	polled bool
	loops  map[datagram.AfterReader]*Loop[C] // of the sockets
	all    []*Loop[C]                        // the same; replaced, not changed
}

// Init prepares a Server.
func (s *Server[C]) Init() { s.done = make(chan struct{}) }

// Stop ends Wait.
func (s *Server[C]) Stop() { s.once.Do(func() { close(s.done) }) }

// Wait waits for Stop.
func (s *Server[C]) Wait() { <-s.done }

// Start begins to serve, with the connections that begin returns. A polled Server
// may be started again, with another Handler. It returns busy if another Serve or
// Poll is there, and net.ErrClosed if begin reports false.
func (s *Server[C]) Start(h Handler[C], polled bool, busy error, begin func() ([]Conn[C], bool), after func(Conn[C]) datagram.AfterReader) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.h != nil {
		if !polled || !s.polled {
			return busy
		}
		*s.h = h
		return nil
	}
	conns, ok := begin()
	if !ok {
		return net.ErrClosed
	}
	s.h, s.polled = &h, polled
	s.loops = make(map[datagram.AfterReader]*Loop[C])
	for _, c := range conns {
		s.adoptLocked(c, after(c))
	}
	return nil
}

// On reports whether Start has begun to serve, which does not end.
func (s *Server[C]) On() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.h != nil
}

// Adopt serves a new connection, when On.
func (s *Server[C]) Adopt(c Conn[C], after datagram.AfterReader) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.adoptLocked(c, after)
}

func (s *Server[C]) adoptLocked(c Conn[C], after datagram.AfterReader) {
	l := s.loops[after]
	if l == nil {
		l = &Loop[C]{handler: s.h, after: after, polled: s.polled}
		s.loops[after] = l
		s.all = append(s.all[:len(s.all):len(s.all)], l)
	}
	c.Seat().loop.Store(l)
	l.put(c)
	l.wake()
}

// Poll calls the handler for everything that waits.
func (s *Server[C]) Poll() {
	s.mu.Lock()
	all := s.all
	s.mu.Unlock()
	for _, l := range all {
		l.run()
	}
}
