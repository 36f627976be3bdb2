package netcode

import (
	"time"

	"volley/internal/datagram"
	"volley/internal/listen"
	"volley/internal/outbox"
	"volley/internal/serve"
)

// A Handler is what a server does with its sessions, see [Listener.Serve]. Its
// functions are called one at a time for each socket of the Listener. A panic in one of
// them ends the program, as it does in any goroutine.
type Handler struct {
	// Message is called for each message. The bytes are valid until it returns.
	Message func(c *Conn, msg []byte)
	// Open, if not nil, is called for each session, before its first message.
	Open func(c *Conn)
	// Closed, if not nil, is called once for each session, after its last message, with
	// the error that Read would return.
	Closed func(c *Conn, err error)
}

// Serve calls h for the messages of all sessions, on the goroutine that reads the
// socket, until the Listener is closed. The error then matches net.ErrClosed. Sessions
// that live on are served until they end.
//
// Everything that h writes, to any session of the Listener, leaves together when h has
// handled the messages that are there. While h blocks, the Listener hears nobody. So give
// work that takes longer than a millisecond to another goroutine, which may write to the
// sessions.
//
// Serve takes the place of Accept, which returns an error from then on, and also serves the sessions that wait for it. Do not
// read a session that is served. To serve connections of another protocol on top, give
// the Listener to that protocol's NewListener, and call its Serve.
func (l *Listener) Serve(h Handler) error { return l.serving.Serve(serve.Handler[*Conn](h)) }

// Poll is [Listener.Serve] for a server that ticks: it calls h for the messages that
// have arrived since the last call, sends what is to be sent, and returns. It does not
// wait. Keep-alives and timeouts are done within Poll, so call it at least 20 times a
// second. On Linux, no goroutine runs for the sessions between two calls; elsewhere one
// reads the socket.
//
// Poll is for one goroutine. After Close, go on until its error matches net.ErrClosed:
// then the last session has ended.
func (l *Listener) Poll(h Handler) error { return l.serving.Poll(serve.Handler[*Conn](h)) }

// SetValue keeps a value with the session, for [Conn.Value].
func (c *Conn) SetValue(v any) {
	c.sendMu.Lock()
	c.value = v
	c.sendMu.Unlock()
}

// Value returns what SetValue was given last, nil before.
func (c *Conn) Value() any {
	c.sendMu.Lock()
	defer c.sendMu.Unlock()
	return c.value
}

func init() {
	listen.RegisterSource(func(l *Listener) listen.Source[*Conn] { return &l.side })
}

// A served is a Conn as its loop sees it.
type served Conn

func toServed(c *Conn) serve.Conn[*Conn] { return (*served)(c) }

func (s *served) Conn() *Conn              { return (*Conn)(s) }
func (s *served) Seat() *serve.Seat[*Conn] { return &s.seat }
func (s *served) Below() datagram.Conn     { return s.dc }
func (s *served) Adopted(serve.Late)       {}
func (s *served) Waiting() int             { return s.user.In.Len() }

// Next implements serve.Conn.
func (s *served) Next(dst []byte) (msg []byte, ok bool, err error) {
	msg, ok, err = s.user.Next(dst)
	return msg, ok, (*Conn)(s).opError("read", err)
}

// writeServed is Write within the handler: the message leaves with what else it writes.
// It reports false if no handler runs, or there is no room.
func (c *Conn) writeServed(b []byte) (done bool, err error) {
	done = c.seat.Write(func(g *datagram.Gathering, now time.Time) (how outbox.Gathered) {
		below := c.dc.Features().Gather
		if below == nil {
			return outbox.Blocked
		}
		out := below.Gather(g)
		c.sendMu.Lock()
		_, how, err = c.out.Gather((*framer)(c), now.Sub(c.born), b, out)
		c.sendMu.Unlock()
		if how == outbox.Framed {
			below.Gathered(g, (*gathered)(c))
		}
		return how
	})
	return done, err
}
