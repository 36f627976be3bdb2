package netplay

import (
	"cmp"
	"context"
	"errors"
	"slices"
)

// Broadcast sends v to all clients. It encodes v once, does not wait for
// anybody, and does to slow clients what SlowPolicy says. The error is that of
// encoding: one of [Codec.Append]. Without Serve there are no clients.
func (s *Server) Broadcast(v any) error { return s.BroadcastExcept(v) }

// BroadcastExcept is Broadcast to all but some clients.
func (s *Server) BroadcastExcept(v any, except ...*Conn) error {
	if err := s.init(); err != nil {
		return err
	}
	f, err := s.set.codec.encode(v)
	if err != nil {
		return err
	}
	defer f.release()
	s.mu.RLock()
	defer s.mu.RUnlock()
	for c, sv := range s.members {
		if !slices.Contains(except, c) {
			// An error is the end of this connection, or counted there.
			_ = c.accept(context.Background(), sv.queue, f)
		}
	}
	return nil
}

// Multicast is Broadcast to some clients. Those that are not the Server's, or
// not any more, are left out.
func (s *Server) Multicast(v any, to ...*Conn) error {
	if err := s.init(); err != nil {
		return err
	}
	f, err := s.set.codec.encode(v)
	if err != nil {
		return err
	}
	defer f.release()
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, c := range to {
		if sv := s.conns[c]; sv != nil {
			_ = c.accept(context.Background(), sv.queue, f)
		}
	}
	return nil
}

// Conns returns the connections that take part in broadcasts, in no order.
func (s *Server) Conns() []*Conn {
	s.mu.RLock()
	defer s.mu.RUnlock()
	conns := make([]*Conn, 0, len(s.members))
	for c := range s.members {
		conns = append(conns, c)
	}
	return conns
}

// ErrKicked is the cause with which Kick ends a connection.
var ErrKicked = errors.New("netplay: kicked")

// Kick ends the connection of a client in order: nothing more is read from it
// and nothing more accepted for it; what was accepted is handed to the system,
// v last of all unless it is nil; and the client is given a second to read it
// and close. That happens after Kick has returned, within the WriteTimeout, and
// after the handler of the connection, should one run. OnDisconnect is told
// [ErrKicked].
//
// An error means that v was not accepted, because it cannot be encoded or for
// lack of room. The connection ends all the same.
func (s *Server) Kick(c *Conn, v any) (err error) {
	s.mu.Lock()
	sv := s.conns[c]
	delete(s.members, c)
	s.mu.Unlock()
	if sv == nil {
		return nil
	}
	if v != nil {
		err = c.WriteMessage(v)
	}
	sv.queue.seal(c.opError("write", errEnding))
	timeout := cmp.Or(s.set.writeTimeout, defaultWriteTimeout)
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	context.AfterFunc(c.ctx, cancel)
	sv.ending.begin(ctx, c, ErrKicked)
	return err
}
