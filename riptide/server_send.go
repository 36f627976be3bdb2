package riptide

import (
	"log/slog"
	"sync"

	"volley/internal/datagram"
)

// Send sends a message to one client; see [Peer.Send].
func (s *Server) Send(p *Peer, m *Message) error { return p.Send(m) }

// SendAll sends a message, which is copied, to all connected clients, in one pass
// over each UDP socket. A client for which too much waits is disconnected, and
// one that has just gone is no error; the errors are those of the message,
// [ErrLayout] and [ErrNoMode].
func (s *Server) SendAll(m *Message) error { return s.SendAllBut(nil, m) }

// SendAllBut is SendAll to all clients but one, such as the one from whom the
// message came.
func (s *Server) SendAllBut(except *Peer, m *Message) error {
	if err := s.init(); err != nil {
		return err
	}
	if err := s.set.sendable(m); err != nil {
		return err
	}
	broadcast(*s.list.Load(), except, m)
	return nil
}

// gatherings are the memory of broadcasts.
var gatherings = sync.Pool{New: func() any { return new(datagram.Gathering) }}

// broadcast sends a message to clients, but not to one of them, in one pass over
// the sockets that they share.
func broadcast(to []*Peer, except *Peer, m *Message) {
	g := gatherings.Get().(*datagram.Gathering)
	for _, p := range to {
		if p == except {
			continue
		}
		if err := p.s.gather(g, m); err == ErrSendBuffer {
			p.overflow()
		}
	}
	g.Flush() // what a socket says is the network's affair
	gatherings.Put(g)
}

// handle hands a user message to its handler, or relays it.
func (s *Server) handle(p *Peer, kind packetType, body []byte, m *Message) {
	mode := modeOf(kind)
	if m.loadUser(s.set.layout, mode, body); m.err != nil {
		return // too short for an id
	}
	f := s.Notify
	if mode != Notify {
		if s.relay.Load().has(m.id) {
			broadcast(*s.list.Load(), p, m)
			return
		}
		f = s.handlers.get(m.id, s.Unhandled)
	}
	if f == nil {
		return
	}
	if err := f(p, m); err != nil {
		s.log(slog.LevelWarn, "handler failed", "client", p.id, "message", m.id, "error", err)
		if s.KickOnError {
			p.kick(Kicked, Kicked, nil)
		}
	}
}
