package volley

import (
	"time"

	"volley/internal/datagram"
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

// Serve calls h for the messages of all connections, on the goroutine that
// reads the socket. It returns when the Listener is closed, with an error that
// matches net.ErrClosed; connections that live on are served until they end. No
// goroutine waits for a connection, and none is woken for a message.
//
// Everything that h writes, to any connection of the Listener, leaves together
// when h has handled the messages that are there. While h blocks, the Listener
// hears nobody, and what h has written before waits, as do acknowledgements of
// messages that h has not seen yet; [Conn.Explain] tells. So work that takes
// longer than a millisecond belongs on a goroutine of its own, which may write to
// the connections. Connections take turns of at most 64 messages, so that none of
// them can keep h from the others.
//
// While no packets come, acknowledgements and whatever else is due by time may be 5 ms late,
// or an eighth of Config.AckDelay if that is less.
//
// Serve takes the place of Accept, which returns an error from then on, as a
// second Serve does. Connections that nobody has accepted yet are served, too.
// Those that Accept or Dial has returned are read as before. Do not read a
// connection that is served.
//
// A Listener on another one ([NewListener]) serves its connections, too. Over listeners of
// this module that costs no goroutine either; over others, each connection has the one that
// reads it. Connections that the Config does not fit are closed.
func (l *Listener) Serve(h Handler) error {
	return l.serving.Serve(serve.Handler[*Conn](h))
}

// Poll is [Listener.Serve] for a server that ticks: it calls h for the messages
// that have arrived since the last call, sends what is to be sent, and returns.
// It does not wait; what arrives meanwhile is for the next call. Between two
// calls no goroutine runs for the Listener and its connections, on Linux;
// elsewhere one reads the socket. Acknowledgements, keepalives and timeouts are
// done within Poll, so call it at least 20 times a second. After a longer pause,
// messages may be lost for want of room in the socket's buffer, and round-trip
// times measured at the other side contain the pause.
//
// Poll takes the place of Accept as Serve does. It is for one goroutine. After
// Close, go on until its error matches net.ErrClosed: then the last connection
// has ended, and its peer has been told.
func (l *Listener) Poll(h Handler) error {
	return l.serving.Poll(serve.Handler[*Conn](h))
}

// SetValue keeps a value with the connection, for [Conn.Value]: what a server
// knows of this client, so that it needs no map.
func (c *Conn) SetValue(v any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.attachedLocked().value = v
}

// Value returns what SetValue was given last, nil before.
func (c *Conn) Value() any {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.attached == nil {
		return nil
	}
	return c.attached.value
}

// tickLag is how late what Serve owes by time may be.
func (s *settings) tickLag() time.Duration {
	if d := s.reliable.AckDelay; d > 0 {
		return min(serve.TickLag, d/8)
	}
	return serve.TickLag
}

// A served is a Conn as its loop sees it.
type served Conn

func toServed(c *Conn) serve.Conn[*Conn] { return (*served)(c) }

// Conn implements serve.Conn.
func (s *served) Conn() *Conn { return (*Conn)(s) }

// Seat implements serve.Conn.
func (s *served) Seat() *serve.Seat[*Conn] { return &s.seat }

// Adopted implements serve.Conn.
func (s *served) Adopted(late serve.Late) {
	if c := (*Conn)(s); late != (serve.Late{}) {
		c.mu.Lock()
		c.extraLocked().earlier.late = late
		c.mu.Unlock()
	}
}

// Below implements serve.Conn.
func (s *served) Below() datagram.Conn { return s.out.Below }

// Waiting implements serve.Conn.
func (s *served) Waiting() int { return s.user.In.Len() }

// Next implements serve.Conn.
func (s *served) Next(dst []byte) (msg []byte, ok bool, err error) {
	msg, ok, err = s.user.Next(dst)
	c := (*Conn)(s)
	switch {
	case err != nil:
		err = c.opError("read", err)
	case !ok:
		c.mu.Lock()
		now := c.now()
		c.scheduleLocked(c.at(now), now)
		c.mu.Unlock()
	}
	return msg, ok, err
}

// writeServed is write within the handler: the message leaves with what else it
// writes. It reports false if no handler runs, or there is no room.
func (c *Conn) writeServed(b []byte, receipts bool) (id uint64, done bool, err error) {
	done = c.seat.Write(func(g *datagram.Gathering, now time.Time) (how outbox.Gathered) {
		gatherer := c.out.Below.Features().Gather
		if gatherer == nil {
			return outbox.Blocked
		}
		id, how, err = c.gather(g, gatherer, now, b, receipts)
		return how
	})
	return id, done, err
}
