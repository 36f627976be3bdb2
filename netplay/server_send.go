package netplay

import (
	"cmp"
	"context"
	"errors"
	"slices"
)

// Broadcast sends v to all clients except some. It encodes v once and does not wait for
// clients; DropSlow decides about slow ones. The error is one of [Codec.Append].
func (s *Server) Broadcast(v any, except ...*Conn) error {
	f, err := s.encode(v)
	if err != nil {
		return err
	}
	defer f.release()
	s.mu.RLock()
	defer s.mu.RUnlock()
	for c, sv := range s.members {
		if !slices.Contains(except, c) {
			// An error ends this connection, or is counted there.
			_ = c.accept(context.Background(), sv.queue, f)
		}
	}
	return nil
}

// Multicast is Broadcast to some clients. It ignores connections that are not the
// Server's, or have ended.
func (s *Server) Multicast(v any, to ...*Conn) error {
	f, err := s.encode(v)
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

func (s *Server) encode(v any) (*outFrame, error) {
	if err := s.init(); err != nil {
		return nil, err
	}
	return s.set.codec.encode(v)
}

// Conns returns the connections that get broadcasts, in no order.
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

// Kick ends the connection of a client in order, with [ErrKicked] for OnDisconnect. The
// Server reads nothing more from it. It writes the queued messages, and at last v unless
// that is nil. Then the client has a second to read them and close. That happens after
// Kick has returned, within the WriteTimeout, and after a running handler of the
// connection.
//
// An error means that v was not accepted, because it cannot be encoded or finds no room.
// The connection ends all the same.
func (s *Server) Kick(c *Conn, v any) (err error) {
	s.mu.Lock()
	sv := s.conns[c]
	delete(s.members, c)
	s.mu.Unlock()
	if sv == nil {
		return nil
	}
	if v != nil {
		err = c.WriteMessage(context.Background(), v)
	}
	sv.queue.seal(c.opError("write", errEnding))
	timeout := cmp.Or(s.set.writeTimeout, defaultWriteTimeout)
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	context.AfterFunc(c.ctx, cancel)
	sv.ending.begin(ctx, c, ErrKicked)
	return err
}
