package riptide

import (
	"log/slog"
	"slices"
	"sync"

	"volley/internal/datagram"
)

// SendAll copies and sends a message to all connected clients, except those named,
// in one pass over each UDP socket. A client for which too much waits is
// disconnected. The only error is that of the message.
//
// A handler that relays messages to all other clients is
//
//	func(p *riptide.Peer, m *riptide.Message) error { return s.SendAll(m, p) }
func (s *Server) SendAll(m *Message, except ...*Peer) error {
	if err := s.init(); err != nil {
		return err
	}
	if err := s.set.sendable(m); err != nil {
		return err
	}
	g := gatherings.Get().(*datagram.Gathering)
	for _, p := range *s.list.Load() {
		if slices.Contains(except, p) {
			continue
		}
		if err := p.s.gather(g, m); err == ErrSendBuffer {
			p.overflow()
		}
	}
	g.Flush() // what a socket says is the network's affair
	gatherings.Put(g)
	return nil
}

// gatherings are the memory of SendAll.
var gatherings = sync.Pool{New: func() any { return new(datagram.Gathering) }}

// handle hands a user message to its handler.
func (s *Server) handle(p *Peer, kind packetType, body []byte, m *Message) {
	if m.loadUser(s.set.layout, modeOf(kind), body); m.err != nil {
		return // too short for an id
	}
	if err := s.handlers.call(p, m, s.Notify, s.Unhandled); err != nil {
		s.log(slog.LevelWarn, "handler failed", "client", p.id, "message", m.id, "error", err)
		if s.KickOnError {
			p.kick(endKicked, endKicked, nil)
		}
	}
}
