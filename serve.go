package volley

import (
	"errors"
	"net"
	"time"

	"volley/internal/datagram"
	"volley/internal/deadline"
	"volley/internal/outbox"
	"volley/internal/serve"
)

// A Handler is what a server does with its connections, see [Listener.Serve].
// Its functions are called one at a time for each socket of the Listener. A
// panic in one of them ends the program, as it does in any goroutine.
type Handler struct {
	// Message is called for each message. The bytes are valid until it returns.
	Message func(c *Conn, msg []byte)
	// Open, if not nil, is called for each connection, before its first message.
	Open func(c *Conn)
	// Closed, if not nil, is called once for each connection, after its last
	// message, with the error that Read would return. That of a connection which
	// the handler has closed itself matches net.ErrClosed.
	Closed func(c *Conn, err error)
}

// ErrServed is the error of Accept on a Listener that serves, and of a call of
// Serve or Poll beside another one.
var ErrServed = errors.New("volley: the Listener serves its connections by a Handler")

// Serve calls h for the messages of all connections, on the goroutine that
// reads the socket. It returns when the Listener is closed, with an error that
// matches net.ErrClosed; connections that live on are served until they end. No
// goroutine waits for a connection, and none is woken for a message.
//
// Everything that h writes, to any connection of the Listener, leaves together
// when h has handled the messages that are there. While h blocks, the Listener
// hears nobody, and what h has written before waits. So work that takes longer
// than a millisecond belongs on a goroutine of its own, which may write to the
// connections.
//
// Serve takes the place of Accept, which returns [ErrServed]. Connections that
// nobody has accepted yet are served, too. Those that Accept or Dial has
// returned are read as before. Do not read a connection that is served.
func (l *Listener) Serve(h Handler) error {
	if err := l.startServing(h, false); err != nil {
		return l.serveError("serve", err)
	}
	l.serving.Wait()
	return l.serveError("serve", net.ErrClosed)
}

// Poll is [Listener.Serve] for a server that ticks: it calls h for the messages
// that have arrived since the last call, sends what is to be sent, and returns.
// It does not wait. Between two calls no goroutine runs for the Listener and its
// connections, on Linux; elsewhere one reads the socket. Acknowledgements,
// keepalives and timeouts are done within Poll, so call it at least 20 times a
// second. After a longer pause, messages may be lost for want of room in the
// socket's buffer, and round-trip times measured at the other side contain the
// pause.
//
// Poll takes the place of Accept as Serve does. It is for one goroutine. After
// Close, go on until its error matches net.ErrClosed: then the last connection
// has ended, and its peer has been told.
func (l *Listener) Poll(h Handler) error {
	if err := l.startServing(h, true); err != nil {
		return l.serveError("poll", err)
	}
	for _, m := range l.side.Muxes() {
		m.Poll()
	}
	l.serving.Poll()
	if l.side.Over() {
		return l.serveError("poll", net.ErrClosed)
	}
	return nil
}

func (l *Listener) serveError(op string, err error) error {
	return &net.OpError{Op: op, Net: l.Addr().Network(), Addr: l.Addr(), Err: err}
}

// SetValue keeps a value with the connection, for [Conn.Value]: what a server
// knows of this client, so that it needs no map.
func (c *Conn) SetValue(v any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rareLocked().value = v
}

// Value returns what SetValue was given last, nil before.
func (c *Conn) Value() any {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.rare == nil {
		return nil
	}
	return c.rare.value
}

// startServing begins to serve. Connections that nobody has accepted are served, too.
func (l *Listener) startServing(h Handler, polled bool) error {
	if l.over != nil {
		return errors.ErrUnsupported
	}
	if h.Message == nil {
		return &ConfigError{Field: "Handler.Message", Reason: "it is nil"}
	}
	return l.serving.Start(serve.Handler[*Conn](h), polled, ErrServed, func() (list []serve.Conn[*Conn], ok bool) {
		conns, ok := l.side.HandOver(ErrServed)
		for _, c := range conns {
			c.markAccepted()
			list = append(list, (*served)(c))
		}
		return list, ok
	}, func(c serve.Conn[*Conn]) datagram.AfterReader { return c.Conn().out.Below.Features().After })
}

// adopt serves a new connection. It reports false if that is for Accept.
func (l *Listener) adopt(c *Conn, dc datagram.Conn) bool {
	if !l.serving.On() {
		return false
	}
	c.markAccepted()
	l.serving.Adopt((*served)(c), dc.Features().After)
	return true
}

// A served is a Conn as its loop sees it.
type served Conn

// Conn implements serve.Conn.
func (s *served) Conn() *Conn { return (*Conn)(s) }

// Seat implements serve.Conn.
func (s *served) Seat() *serve.Seat[*Conn] { return &s.seat }

// Next implements serve.Conn.
func (s *served) Next(dst []byte) (msg []byte, ok bool, err error) {
	msg, _, ok, err = s.user.In.TryNumbered(dst, &forever)
	if err != nil {
		err = (*Conn)(s).opError("read", err)
	}
	return msg, ok, err
}

// forever is a deadline that never comes.
var forever deadline.Deadline

// writeServed is write within the handler: the message leaves with what else it
// writes. It reports false if no handler runs, or there is no room.
func (c *Conn) writeServed(l *serve.Loop[*Conn], b []byte, receipts bool) (id uint64, done bool, err error) {
	pass, ok := l.Join()
	if !ok {
		return 0, false, nil
	}
	now := time.Now()
	defer l.Leave(now)
	gatherer := c.out.Below.Features().Gather
	for try := 0; gatherer != nil && try < 2; try++ {
		id, how, err := c.gather(pass, gatherer, now, b, receipts)
		if how != outbox.Blocked {
			return id, true, err
		}
		pass.Flush() // it may be blocked by the pass itself
	}
	return 0, false, nil
}
