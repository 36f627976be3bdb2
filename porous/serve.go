package porous

import (
	"volley/internal/datagram"
	"volley/internal/serve"
)

// A Handler is what a server does with its connections, see [Listener.Serve]. Its
// functions are called one at a time for each socket of the Listener. A panic in one of
// them ends the program, as it does in any goroutine.
type Handler struct {
	// Message is called for each message, with the number of its channel. The bytes are
	// valid until it returns.
	Message func(c *Conn, channel int, msg []byte)
	// Open, if not nil, is called for each connection, before its first message.
	Open func(c *Conn)
	// Closed, if not nil, is called once for each connection, after its last message,
	// with the error that Read would return.
	Closed func(c *Conn, err error)
}

// Serve calls h for the messages of all connections, on the goroutine that reads the
// socket, until the Listener is closed. The error then matches net.ErrClosed. Connections
// that live on are served until they end.
//
// While h blocks, the Listener hears nobody, and no acknowledgement. So h must not wait
// for one:
//
//   - It calls [Conn.Abort], or Close on another goroutine.
//   - It writes with a context or a write deadline that is over soon, because Write waits
//     if Config.SendBuffer is full.
//
// Serve takes the place of Accept, which returns an error from then on, and also serves the connections that wait for it. Do
// not read a connection that is served.
func (l *Listener) Serve(h Handler) error { return l.serving.Serve(h.inner()) }

// Poll is [Listener.Serve] for a server that ticks: it calls h for the messages that have
// arrived since the last call, sends what is to be sent, and returns. It does not wait.
// Acknowledgements, resends and timeouts are done within Poll, so call it at least 20
// times a second, or messages are resent in vain. On Linux, no goroutine runs for the
// connections between two calls; elsewhere one reads the socket.
//
// Poll is for one goroutine. After Close, go on until its error matches net.ErrClosed:
// then the last connection has ended.
func (l *Listener) Poll(h Handler) error { return l.serving.Poll(h.inner()) }

func (h Handler) inner() serve.Handler[*Conn] {
	in := serve.Handler[*Conn]{Open: h.Open, Closed: h.Closed}
	if h.Message != nil {
		in.Message = func(c *Conn, msg []byte) { h.Message(c, c.servedChannel, msg) }
	}
	return in
}

// SetValue keeps a value with the connection, for [Conn.Value].
func (c *Conn) SetValue(v any) {
	c.mu.Lock()
	c.value = v
	c.mu.Unlock()
}

// Value returns what SetValue was given last, nil before.
func (c *Conn) Value() any {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.value
}

// A served is a Conn as its loop sees it.
type served Conn

func toServed(c *Conn) serve.Conn[*Conn] { return (*served)(c) }

func (s *served) Conn() *Conn              { return (*Conn)(s) }
func (s *served) Seat() *serve.Seat[*Conn] { return &s.seat }
func (s *served) Below() datagram.Conn     { return s.out.Below }
func (s *served) Adopted(serve.Late)       {}

// Waiting implements serve.Conn.
func (s *served) Waiting() (n int) {
	for i := range s.channels {
		if ch := s.channels[i].Load(); ch != nil {
			n += ch.user.In.Len()
		}
	}
	return n
}

// Next implements serve.Conn. It takes the channels in turn.
func (s *served) Next(dst []byte) (msg []byte, ok bool, err error) {
	c := (*Conn)(s)
	c.mu.Lock()
	ended := c.out.Err() // before the look for messages, for there are none after it
	c.mu.Unlock()
	for range c.channels {
		c.servedChannel = (c.servedChannel + 1) % len(c.channels)
		ch := c.channels[c.servedChannel].Load()
		if ch == nil {
			continue
		}
		if msg, ok, _ := ch.user.Next(dst); ok {
			return msg, true, nil
		}
	}
	return dst, false, c.opError("read", ended)
}
