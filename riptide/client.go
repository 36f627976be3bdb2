package riptide

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"time"

	"volley/internal/datagram"
	"volley/internal/netconn"
	"volley/internal/wire"
)

// A Client connects to a server: a C# or Unity program with Riptide, or a
// [Server]. The zero value is ready to use. A Client can connect again once its
// connection has ended. Fields must not be changed while it is connected.
//
// A goroutine of the client calls the functions given to it, one after the other.
// If a function panics, the client logs the panic with its stack, and the
// connection ends, as if by Close.
type Client struct {
	// Config is for the connection; nil: the defaults.
	Config *Config
	// Data is sent along with the attempt to connect; see [NewData].
	Data *Message
	// NetDialer opens the socket.
	NetDialer net.Dialer

	// Connected is called when the client is connected, before any message.
	Connected func(*Client)
	// Disconnected is called when the connection has ended, after all
	// messages. The data is that of [DisconnectError].
	Disconnected func(*Client, Reason, *Message)
	// ClientConnected and ClientDisconnected are called with the ids of other
	// clients that come and go, but not of those that came before this one.
	ClientConnected, ClientDisconnected func(*Client, uint16)
	// Notify is called with notify messages, which have no handlers.
	Notify func(*Client, *Message) error
	// Unhandled is called with messages that have no handler. Nil: they are dropped.
	Unhandled func(*Client, *Message) error
	// Delivered is called with the ids of reliable messages that the server
	// has acknowledged, including the protocol's own.
	Delivered func(*Client, uint16)
	// NotifyFate is called with the id of each notify message, in order, and
	// whether it is known to have arrived.
	NotifyFate func(c *Client, id uint16, delivered bool)

	// KickOnError ends the connection when a handler returns an error.
	KickOnError bool
	// Logger gets errors of handlers, and panics. Nil: only panics are logged,
	// by slog.Default.
	Logger *slog.Logger

	handlers handlerTable[*Client]

	mu  sync.Mutex
	cur *clientConn // the connection, or the last one
}

// Handle registers the handler of user messages with an id, in place of an
// earlier one; nil removes it. Messages without a handler go to Unhandled. The
// message is valid until the handler returns; use [Message.Clone] to keep it.
//
// Handlers are called one after the other, in the order in which messages
// arrived. If a handler returns an error, the client logs it, and ends the
// connection if KickOnError is set.
func (c *Client) Handle(id uint16, f func(*Client, *Message) error) { c.handlers.set(id, f) }

// A clientConn is one connection of a Client.
type clientConn struct {
	client *Client
	s      session
	shown  bool // by itself, and not through a session below

	ready chan struct{} // closed once it has connected or failed
	done  chan struct{} // closed when it has ended and all was handled
	// guarded by s.mu
	stands  bool // it has been connected
	id      uint16
	data    *Message // that came with the end
	trouble error    // the last one of the socket, if it has never been connected
}

// errConnected is the error of connecting twice at a time.
var errConnected = errors.New("riptide: the Client is connected already")

// Connect connects to a server. The network is "udp", "udp4" or "udp6", or one
// of net.Dial for streams, such as "tcp"; the address is as for net.Dial. It
// returns nil once the server has accepted. Errors are a *[DisconnectError], the
// context's error, a *[ConfigError], the error of Data, or that of dialing. The
// context does not affect the connection afterwards.
func (c *Client) Connect(ctx context.Context, network, address string) error {
	if _, err := newSettings(c.Config); err != nil {
		return err
	}
	conn, err := c.NetDialer.DialContext(ctx, network, address)
	if err != nil {
		return err
	}
	return c.ConnectOn(ctx, conn)
}

// ConnectOn is Connect over an existing connection to the server, which it takes
// over: a stream, or a connection that preserves message boundaries, such as a
// session of package netcode.
func (c *Client) ConnectOn(ctx context.Context, conn net.Conn) error {
	if netconn.IsNil(conn) {
		return configError("conn", "it is nil")
	}
	cc, err := c.open(conn)
	if err != nil {
		conn.Close()
		return err
	}
	select {
	case <-cc.ready:
	case <-ctx.Done():
		cc.leave()
		err = ctx.Err()
	}
	cc.s.mu.Lock()
	stands := cc.stands
	cc.s.mu.Unlock()
	if stands {
		return err
	}
	<-cc.done // at once, because no function has been called
	if err == nil {
		err = cc.failure()
	}
	return err
}

func (c *Client) open(conn net.Conn) (*clientConn, error) {
	set, err := newSettings(c.Config)
	if err != nil {
		return nil, err
	}
	data, err := set.dataBody(c.Data)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cur != nil {
		select {
		case <-c.cur.done:
		default:
			return nil, errConnected
		}
	}
	dc, set, err := newTransport(conn, set)
	if err != nil {
		return nil, err
	}
	cc := &clientConn{client: c, shown: datagram.Below(conn) == nil, ready: make(chan struct{}), done: make(chan struct{})}
	cc.s.init((*clientOwner)(cc), dc, set, clientSide, time.Now())
	if err := dc.Attach(&cc.s); err != nil {
		return nil, err
	}
	c.cur = cc
	if cc.shown {
		clientConns.Add(cc)
	}
	cc.s.do(func(now time.Time, c *connection, out *wire.Batch) { c.connect(now, data, out) })
	return cc, nil
}

// failure returns why there was no connection.
func (cc *clientConn) failure() error {
	cc.s.mu.Lock()
	defer cc.s.mu.Unlock()
	return cc.failureLocked()
}

func (cc *clientConn) failureLocked() error {
	e := cc.s.core.disconnectError()
	e.Data = cc.data
	if e.Err == nil {
		e.Err = cc.trouble
	}
	return e
}

// current returns the connection, or the last one; nil if there was none.
func (c *Client) current() *clientConn {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cur
}

// Close ends the connection, if there is one, and tells the server. The function
// Disconnected is called with the reason [Disconnected]. Close does not wait for
// functions that are being called; [Client.Done] does.
func (c *Client) Close() error {
	if cc := c.current(); cc != nil {
		cc.leave()
	}
	return nil
}

func (cc *clientConn) leave() {
	cc.s.do(func(_ time.Time, c *connection, out *wire.Batch) { c.leave(out) })
}

// closedChan is what Done returns before the first connection.
var closedChan = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// Done returns a channel that is closed when the present connection has ended and
// the function Disconnected has returned.
func (c *Client) Done() <-chan struct{} {
	if cc := c.current(); cc != nil {
		return cc.done
	}
	return closedChan
}

// Err returns why the last connection has ended, a *[DisconnectError], or nil if
// it has not ended or there was none.
func (c *Client) Err() error {
	cc := c.current()
	if cc == nil {
		return nil
	}
	cc.s.mu.Lock()
	defer cc.s.mu.Unlock()
	if !cc.stands || cc.s.core.state != stateClosed {
		return nil
	}
	return cc.failureLocked()
}

// ID returns the number that the server has given the client, 0 before it has.
func (c *Client) ID() uint16 {
	cc := c.current()
	if cc == nil {
		return 0
	}
	cc.s.mu.Lock()
	defer cc.s.mu.Unlock()
	return cc.id
}

// Send copies and sends a message. The error is [ErrSendBuffer] if too much waits,
// see [Config.SendBuffer], that of the message, or a *[DisconnectError] if the
// connection has ended.
func (c *Client) Send(m *Message) error {
	_, err := c.SendID(m)
	return err
}

// SendID is Send and returns the id that Delivered or NotifyFate gets of a
// reliable or notify message; 0 for others.
func (c *Client) SendID(m *Message) (uint16, error) {
	cc := c.current()
	if cc == nil {
		return 0, errNotConnected
	}
	if err := cc.s.set.sendable(m); err != nil {
		return 0, err
	}
	return cc.s.send(m)
}

// Stats returns the counters and figures of the connection, or of the last one.
func (c *Client) Stats() Stats {
	if cc := c.current(); cc != nil {
		return cc.s.stats()
	}
	return Stats{}
}

// SetTimeout changes [Config.Timeout] for the connection, for instance while a
// level is loaded. A negative timeout is none.
func (c *Client) SetTimeout(d time.Duration) {
	if cc := c.current(); cc != nil {
		cc.s.change(func(set *settings) { set.timeout = d })
	}
}

// SetIgnoreQuality changes [Config.IgnoreQuality] for the connection.
func (c *Client) SetIgnoreQuality(ignore bool) {
	if cc := c.current(); cc != nil {
		cc.s.change(func(set *settings) { set.quality = !ignore })
	}
}

// LocalAddr returns the local address of the connection, nil if there was none.
func (c *Client) LocalAddr() net.Addr {
	if cc := c.current(); cc != nil {
		return cc.s.conn.LocalAddr()
	}
	return nil
}

// RemoteAddr returns the server's address, nil if there was no connection.
func (c *Client) RemoteAddr() net.Addr {
	if cc := c.current(); cc != nil {
		return cc.s.conn.RemoteAddr()
	}
	return nil
}

// clientOwner is a clientConn as its session sees it.
type clientOwner clientConn

var _ owner = (*clientOwner)(nil)

func (cc *clientOwner) started() {}
func (cc *clientOwner) stopped() {}

func (cc *clientOwner) requested(time.Time, []byte, *wire.Batch) {}

func (cc *clientOwner) wants(kind packetType) bool {
	switch c := cc.client; kind {
	case eventDelivered:
		return c.Delivered != nil
	case eventFate:
		return c.NotifyFate != nil
	case eventClient:
		return c.ClientConnected != nil || c.ClientDisconnected != nil
	}
	return false
}

func (cc *clientOwner) joined() bool {
	cc.stands, cc.id = true, cc.s.core.id
	cc.s.greeted = cc.ready
	return true
}

func (cc *clientOwner) left(e end) {
	cc.data = e.message(cc.s.set)
	if !cc.stands {
		cc.trouble = netconn.LastError(cc.s.conn)
		close(cc.ready)
	}
}

func (cc *clientOwner) panicked(v any) {
	logPanic(cc.client.Logger, v)
	(*clientConn)(cc).leave()
}

// event implements owner.
func (cc *clientOwner) event(kind packetType, body []byte, m *Message) {
	c := cc.client
	switch kind {
	case typeUnreliable, typeNotify, typeReliable:
		c.handle(cc, kind, body, m)
	case eventConnected:
		if c.Connected != nil {
			c.Connected(c)
		}
	case eventClient:
		f := c.ClientDisconnected
		if body[2] == 1 {
			f = c.ClientConnected
		}
		if f != nil {
			f(c, eventID(body))
		}
	case eventDelivered:
		c.Delivered(c, eventID(body))
	case eventFate:
		c.NotifyFate(c, eventID(body), body[2] == 1)
	case eventEnded:
		if cc.shown {
			clientConns.Ended((*clientConn)(cc))
		}
		defer close(cc.done)
		if e := endOf(body); cc.stands && c.Disconnected != nil {
			c.Disconnected(c, e.why(), e.message(cc.s.set))
		}
	}
}

func (c *Client) handle(cc *clientOwner, kind packetType, body []byte, m *Message) {
	if m.loadUser(cc.s.set.layout, modeOf(kind), body); m.err != nil {
		return // too short for an id
	}
	if err := c.handlers.call(c, m, c.Notify, c.Unhandled); err != nil {
		if c.Logger != nil {
			c.Logger.Warn("riptide: handler failed", "message", m.id, "error", err)
		}
		if c.KickOnError {
			(*clientConn)(cc).leave()
		}
	}
}
