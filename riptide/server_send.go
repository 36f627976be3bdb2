package riptide

import "log/slog"

// Send sends a message to one client; see [Peer.Send].
func (s *Server) Send(p *Peer, m *Message) error { return p.Send(m) }

// SendAll sends a message, which is copied, to all connected clients. One for
// which too much waits is disconnected, and one that has just gone is no error;
// the errors are those of the message, [ErrLayout] and [ErrNoMode].
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

// broadcast sends a message to clients, but not to one of them.
func broadcast(to []*Peer, except *Peer, m *Message) {
	for _, p := range to {
		if p == except {
			continue
		}
		if _, err := p.s.send(m); err == ErrSendBuffer {
			p.overflow()
		}
	}
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
