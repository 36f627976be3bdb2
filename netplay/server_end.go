package netplay

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"
)

// Unsent are accepted messages for one peer that were not passed to the operating
// system completely.
type Unsent struct {
	Addr   net.Addr // of the peer; nil for a Client
	Frames []Frame  // in order; see Codec.Decode
}

// An UnsentError lists the accepted messages that were not passed to the operating
// system completely before their connections ended. The other messages may be lost, too:
// only an answer of the peer shows that they have arrived.
type UnsentError struct{ Unsent []Unsent }

func (e *UnsentError) Error() string {
	n := 0
	for _, u := range e.Unsent {
		n += len(u.Frames)
	}
	return fmt.Sprintf("netplay: not handed to the system: %d accepted messages for %d peers", n, len(e.Unsent))
}

// Shutdown ends the server in order. It closes the listeners, reads nothing more, waits
// for running handlers, writes the queued messages, and gives the clients a second to
// read them and close. If ctx ends first, it closes the remaining connections at once.
//
// It returns nil if the system has taken all messages and all connections have ended.
// Otherwise it returns the cause of ctx's end, an *[UnsentError], or both joined. A
// handler must not call Shutdown, which would wait for it, but may call Close.
func (s *Server) Shutdown(ctx context.Context) error {
	if err := s.init(); err != nil {
		return nil // nothing was ever begun
	}
	s.stop()
	s.mu.RLock()
	for c, sv := range s.conns {
		sv.ending.begin(ctx, c, errServerClosed)
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

// reportUnsent closes the rest, and returns all unsent messages since the stop.
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
		c.end(errServerClosed)
		if frames := c.Unsent(); len(frames) > 0 {
			unsent = append(unsent, Unsent{Addr: c.RemoteAddr(), Frames: frames})
		}
	}
	return unsent
}

// Close closes listeners and connections at once. It does not wait for handlers. Queued
// messages are lost; OnDisconnect can get them by Conn.Unsent.
func (s *Server) Close() error {
	if err := s.init(); err != nil {
		return nil
	}
	s.stop()
	s.mu.RLock()
	defer s.mu.RUnlock()
	for c := range s.conns {
		c.end(errServerClosed)
	}
	return nil
}

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
