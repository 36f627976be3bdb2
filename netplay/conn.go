package netplay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// A Conn carries messages over a stream, or over a message connection that keeps order.
// It is safe for concurrent use. Errors of the network are a *net.OpError, and match
// net.ErrClosed and os.ErrDeadlineExceeded as usual. The end of the stream between two
// frames is io.EOF.
type Conn struct {
	nc         net.Conn
	codec      *Codec
	maxMessage int // of a message connection; 0 for a stream

	in  inbound
	out outbound

	ctx    context.Context
	cancel context.CancelCauseFunc
	closed chan struct{}
	mu     sync.Mutex
	cause  error // why it ended

	stats struct {
		sent, received, bytesSent, bytesReceived, malformed, dropped atomic.Uint64
	}
}

// NewConn returns a Conn over nc, which its Close closes. reg has the types of messages. A
// nil cfg is the default.
//
// nc is a stream, such as a TCP or TLS connection or one end of net.Pipe. Or it is a
// message connection on which messages arrive completely and in order. Such a connection
// has methods MaxMessageSize() int and KeepsOrder() bool, which returns true. The error is
// a *[ConfigError]; nc stays as it was.
func NewConn(nc net.Conn, reg *Registry, cfg *Config) (*Conn, error) {
	codec, err := NewCodec(reg, cfg)
	if err != nil {
		return nil, err
	}
	return newConn(context.Background(), nc, codec)
}

func newConn(ctx context.Context, nc net.Conn, codec *Codec) (*Conn, error) {
	maxMessage, err := transportOf(nc)
	if err != nil {
		return nil, err
	}
	c := &Conn{nc: nc, codec: codec, maxMessage: maxMessage, closed: make(chan struct{})}
	c.ctx, c.cancel = context.WithCancelCause(ctx)
	c.in.init(c)
	c.out.init(c)
	return c, nil
}

// Dial connects to a server by TCP, or another stream of package net, with the default
// configuration. Use [NewConn] for TLS, a Config or a context, and a [Client] for a
// connection that comes back.
func Dial(network, address string, reg *Registry) (*Conn, error) {
	nc, err := net.Dial(network, address)
	if err != nil {
		return nil, err
	}
	c, err := NewConn(nc, reg, nil)
	if err != nil {
		nc.Close()
		return nil, err
	}
	return c, nil
}

// NetConn returns the connection below. Do not read from it or write to it.
func (c *Conn) NetConn() net.Conn { return c.nc }

// LocalAddr returns the local address of the connection below.
func (c *Conn) LocalAddr() net.Addr { return c.nc.LocalAddr() }

// RemoteAddr returns the peer's address, as the connection below has it.
func (c *Conn) RemoteAddr() net.Addr { return c.nc.RemoteAddr() }

// Context returns a context that ends with the connection. Its parent is that of
// Server.BaseContext, or of Client.Run.
func (c *Conn) Context() context.Context { return c.ctx }

// SetDeadline sets the deadlines of reads and writes. A zero time means none.
func (c *Conn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

// SetReadDeadline sets the time at which reads fail. Such a read takes nothing from the
// stream.
func (c *Conn) SetReadDeadline(t time.Time) error { return c.in.deadline.set(t) }

// SetWriteDeadline sets the time at which writes fail. If the system has taken a part of a
// frame by then, the connection cannot write any more. It has no effect on connections
// with a queue, those of a Server or Client.
func (c *Conn) SetWriteDeadline(t time.Time) error { return c.out.deadline.set(t) }

// Close closes the connection at once. The system still sends the messages that it has
// taken. Unsent has those that are in the queue of a Server's connection.
func (c *Conn) Close() error { return c.end(net.ErrClosed) }

func (c *Conn) end(cause error) error {
	c.mu.Lock()
	if c.cause != nil {
		c.mu.Unlock()
		return nil
	}
	c.cause = cause
	close(c.closed)
	c.mu.Unlock()
	c.cancel(cause)
	if q := c.out.queue.Load(); q != nil && c.out.owned {
		q.end(c.opError("write", cause))
	}
	err := c.nc.Close()
	c.in.deadline.change(func() { c.in.deadline.closed = true }) // where Close does not end a Read
	return err
}

// endCause returns why the connection ended, nil if it has not.
func (c *Conn) endCause() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cause
}

// Unsent returns the accepted messages that the system had not taken completely when a
// Server's connection ended, in their order. Before the end it returns nil. Messages that
// the system has taken may still be lost.
func (c *Conn) Unsent() []Frame {
	q := c.out.queue.Load()
	if q == nil || !c.out.owned || c.endCause() == nil {
		return nil
	}
	return q.unsent()
}

// Stats are the figures of a [Conn].
type Stats struct {
	MessagesSent     uint64 // taken by the system
	MessagesReceived uint64 // complete frames, whether or not they could be decoded
	BytesSent        uint64 // taken by the system
	BytesReceived    uint64
	Malformed        uint64 // of MessagesReceived, those with a MessageError
	Dropped          uint64 // messages that DropSlow has dropped

	QueuedBytes    int // in the queue, with 64 for each message
	QueuedMessages int
}

// Stats returns the current figures.
func (c *Conn) Stats() Stats {
	s := Stats{
		MessagesSent:     c.stats.sent.Load(),
		MessagesReceived: c.stats.received.Load(),
		BytesSent:        c.stats.bytesSent.Load(),
		BytesReceived:    c.stats.bytesReceived.Load(),
		Malformed:        c.stats.malformed.Load(),
		Dropped:          c.stats.dropped.Load(),
	}
	if q := c.out.queue.Load(); q != nil {
		s.QueuedBytes, s.QueuedMessages = q.size()
	}
	return s
}

// opError wraps err, once, as functions of package net do.
func (c *Conn) opError(op string, err error) error {
	if err == nil || err == io.EOF {
		return err
	}
	if _, wrapped := errors.AsType[*net.OpError](err); wrapped {
		return err
	}
	e := &net.OpError{Op: op, Source: c.nc.LocalAddr(), Addr: c.nc.RemoteAddr(), Err: err}
	if e.Source != nil {
		e.Net = e.Source.Network()
	}
	return e
}

// closeWrite tells the peer that nothing follows, if the connection can.
func (c *Conn) closeWrite() bool {
	nc, ok := c.nc.(interface{ CloseWrite() error })
	return ok && nc.CloseWrite() == nil
}

// A message connection, as volley's, carries a message with each Write. It has
// MaxMessageSize, and KeepsOrder that returns true if all arrive in order.
type (
	messageConn interface {
		// MaxMessageSize returns the largest message in bytes.
		MaxMessageSize() int
	}
	orderKeeper interface {
		// KeepsOrder reports whether messages arrive completely and in the
		// order in which they were written, or the connection ends.
		KeepsOrder() bool
	}
)

// transportOf returns the largest message, 0 for a stream, or why neither is the case.
func transportOf(nc net.Conn) (maxMessage int, err error) {
	refuse := func(reason string) (int, error) {
		return 0, &ConfigError{Field: "nc", Reason: fmt.Sprintf("%T: %s", nc, reason)}
	}
	if nc == nil {
		return refuse("there is no connection")
	}
	if m, ok := nc.(messageConn); ok {
		o, ok := nc.(orderKeeper)
		if !ok || !o.KeepsOrder() {
			return refuse("its messages can be lost or overtake each other, and frames need all of them in order (the connection has no method KeepsOrder that returns true)")
		}
		if m.MaxMessageSize() < 1 {
			return refuse(fmt.Sprintf("its MaxMessageSize is %d", m.MaxMessageSize()))
		}
		return m.MaxMessageSize(), nil
	}
	if _, ok := nc.(net.PacketConn); ok {
		// A *net.UnixConn is a net.PacketConn also where it is a stream.
		if a := nc.LocalAddr(); a == nil || a.Network() != "unix" {
			return refuse("it is a net.PacketConn, whose datagrams can be lost or overtake each other, and frames need a stream")
		}
	}
	return 0, nil
}
