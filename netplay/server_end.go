package netplay

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"
)

// Unsent are messages for one peer that were accepted and not handed to the
// system as a whole.
type Unsent struct {
	Addr   net.Addr // of the peer; nil for a Client
	Frames []Frame  // in order; Codec.Decode reads them
}

// An UnsentError says which messages were accepted and not handed to the system
// when their connections had to end. What became of those that were handed to
// the system, nobody can say without an answer of the peer.
type UnsentError struct{ Unsent []Unsent }

func (e *UnsentError) Error() string {
	n := 0
	for _, u := range e.Unsent {
		n += len(u.Frames)
	}
	return fmt.Sprintf("netplay: not handed to the system: %d accepted messages for %d peers", n, len(e.Unsent))
}

// Shutdown ends the server in order: it closes the listeners, reads nothing
// more, waits for handlers that run, hands what was accepted for the clients to
// the system, and gives them a second to read it and close.
//
// When ctx ends first, it closes the remaining connections at once. It returns
// nil if everything was handed to the system and all connections have ended;
// else the error of ctx, an [*UnsentError] or both joined. A handler that does
// not return keeps its goroutine beyond that. Shutdown must not be called by a
// handler, which it would wait for; Close may.
func (s *Server) Shutdown(ctx context.Context) error {
	if err := s.init(); err != nil {
		return nil // nothing was ever begun
	}
	s.stop()
	s.mu.RLock()
	for c, sv := range s.conns {
		sv.ending.begin(ctx, c, ErrServerClosed)
	}
	s.mu.RUnlock()
	idle := make(chan struct{})
	go func() {
		s.running.Wait()
		close(idle)
	}()
	var err error
	select {
	case <-idle:
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if unsent := s.reportUnsent(); len(unsent) > 0 {
		return errors.Join(err, &UnsentError{Unsent: unsent})
	}
	return err
}

// reportUnsent closes what is still open and returns what was not sent by any
// connection since the server was stopped.
func (s *Server) reportUnsent() []Unsent {
	s.mu.Lock()
	left := make([]*Conn, 0, len(s.conns))
	for c, sv := range s.conns {
		sv.reported = true
		left = append(left, c)
	}
	unsent := s.unsent
	s.unsent = nil
	s.mu.Unlock()
	for _, c := range left {
		c.end(ErrServerClosed)
		if frames := c.Unsent(); len(frames) > 0 {
			unsent = append(unsent, Unsent{Addr: c.RemoteAddr(), Frames: frames})
		}
	}
	return unsent
}

// Close ends the server at once: listeners and connections are closed, and what
// was accepted and not yet handed to the system is lost; OnDisconnect can ask
// for it with Conn.Unsent. It does not wait for handlers.
func (s *Server) Close() error {
	if err := s.init(); err != nil {
		return nil
	}
	s.stop()
	s.mu.RLock()
	defer s.mu.RUnlock()
	for c := range s.conns {
		c.end(ErrServerClosed)
	}
	return nil
}

// stop has no connection taken any more.
func (s *Server) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.closed = true
		close(s.done)
	}
	for ln := range s.listeners {
		ln.Close()
	}
}

func (s *Server) isClosed() bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.closed
}

func (s *Server) addListener(ln net.Listener) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.listeners[ln] = struct{}{}
	}
	return !s.closed
}

func (s *Server) removeListener(ln net.Listener) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.listeners, ln)
}

// pause waits and reports whether the server goes on.
func (s *Server) pause(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-s.done:
		return false
	}
}
