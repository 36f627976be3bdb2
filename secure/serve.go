package secure

import (
	"context"
	"net"

	"volley/internal/listen"
	"volley/netcode"
)

// A Handler is what a server does with its sessions, see [Listener.Serve]. Its
// functions are called one at a time for each socket of the Listener.
type Handler struct {
	// Message is called for each message. The bytes are valid until it returns.
	Message func(c *Conn, msg []byte)
	// Open, if not nil, is called for each session, before its first message.
	Open func(c *Conn)
	// Closed, if not nil, is called once for each session, after its last message, with
	// the error that Read would return.
	Closed func(c *Conn, err error)
}

// Serve calls h for the messages of all sessions, on the goroutine that reads the socket,
// until the Listener is closed, as [netcode.Listener.Serve] does.
func (l *Listener) Serve(h Handler) error { return l.sessions.Serve(l.handler(h)) }

// Poll is [Listener.Serve] for a server that ticks, as [netcode.Listener.Poll] is. The
// token service runs on goroutines of its own.
func (l *Listener) Poll(h Handler) error { return l.sessions.Poll(l.handler(h)) }

// handler returns a Handler for the sessions below.
func (l *Listener) handler(h Handler) (below netcode.Handler) {
	if h.Message == nil {
		return below // which is refused
	}
	below.Message = func(s *netcode.Conn, msg []byte) {
		if c := connOf(s); c != nil {
			h.Message(c, msg)
		}
	}
	below.Open = func(s *netcode.Conn) {
		if c := l.adopt(s); c != nil && h.Open != nil {
			h.Open(c)
		}
	}
	below.Closed = func(s *netcode.Conn, err error) {
		if c := connOf(s); c != nil && h.Closed != nil {
			h.Closed(c, err)
		}
	}
	return below
}

// A source is a Listener as a protocol on top sees it.
type source struct {
	listen.Source[net.Conn] // of the sessions
	listener                *Listener
}

func init() {
	listen.RegisterSource(func(l *Listener) listen.Source[*Conn] { return source{listen.SourceOf(l.sessions), l} })
}

func (s source) AcceptConn(ctx context.Context) (*Conn, error) { return s.listener.AcceptConn(ctx) }

func (s source) Divert(err error, take func(*Conn)) bool {
	return s.Source.Divert(err, func(session net.Conn) {
		if c := s.listener.adopt(session.(*netcode.Conn)); c != nil {
			take(c)
		}
	})
}
