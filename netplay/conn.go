package netplay

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// A Conn carries messages over a stream, or over a message connection that
// keeps order. Its methods may be called concurrently.
//
// Errors of the network are wrapped, once, in a *net.OpError, and match
// net.ErrClosed and os.ErrDeadlineExceeded as usual. The end of the stream
// between two frames is io.EOF.
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

// NewConn returns a Conn over nc, which it takes over: Close closes it. reg has
// the types of messages, cfg may be nil.
//
// nc is a stream, such as a TCP or TLS connection or one end of net.Pipe. Or it
// is a message connection on which messages arrive completely and in order: it
// has, beside the method MaxMessageSize() int, a method KeepsOrder() bool that
// returns true. Others are refused with a [*TransportError]; an unusable cfg
// with a [*ConfigError]. In case of an error nc stays as it was.
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

// Dial connects to a server by TCP, or another stream that package net knows,
// with the default configuration. ctx bounds the dialing and means nothing
// afterwards. For TLS, or for a Config, use [NewConn]; for a connection that
// comes back, a [Client].
func Dial(ctx context.Context, network, address string, reg *Registry) (*Conn, error) {
	codec, err := NewCodec(reg, nil)
	if err != nil {
		return nil, err
	}
	var d net.Dialer
	nc, err := d.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	c, err := newConn(context.Background(), nc, codec)
	if err != nil {
		nc.Close()
		return nil, err
	}
	return c, nil
}

// NetConn returns the connection below. What is read from or written to it
// directly is missing from, or in the way of, the messages.
func (c *Conn) NetConn() net.Conn { return c.nc }

// LocalAddr returns the local address of the connection below.
func (c *Conn) LocalAddr() net.Addr { return c.nc.LocalAddr() }

// RemoteAddr returns the peer's address, as the connection below has it.
func (c *Conn) RemoteAddr() net.Addr { return c.nc.RemoteAddr() }

// Context returns a context that is done when the connection has ended. For a
// connection of a Server it comes from Server.BaseContext, for one of a Client
// from the context given to Run.
func (c *Conn) Context() context.Context { return c.ctx }

// SetDeadline sets the deadlines of reads and writes. A zero time means none.
func (c *Conn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

// SetReadDeadline sets the time at which reads fail. A read that fails so takes
// nothing from the stream; the next one goes on with it.
func (c *Conn) SetReadDeadline(t time.Time) error { return c.in.deadline.set(t) }

// SetWriteDeadline sets the time at which writes fail. If the system has taken
// a part of a frame by then, the connection can write no more, since the peer
// waits for the rest. On a connection of a Server or a Client, which writes
// behind, it has no effect.
func (c *Conn) SetWriteDeadline(t time.Time) error { return c.out.deadline.set(t) }

// Close closes the connection at once. What WriteMessage has written is with
// the system, which sends it; what a connection of a Server has only accepted
// is in Unsent. The error is that of the first Close of the connection below.
func (c *Conn) Close() error { return c.end(net.ErrClosed) }

// end closes the connection. The first error is its cause.
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
	c.in.deadline.wake() // where Close does not end a Read
	return err
}

// endCause returns why the connection ended, nil if it has not.
func (c *Conn) endCause() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cause
}

// Unsent returns the messages that the connection of a Server has accepted and
// not handed to the system as a whole when it ended, in their order. A message
// that was handed to the system may still be lost: TCP does not say what has
// arrived. Before its end Unsent returns nil.
func (c *Conn) Unsent() []Frame {
	q := c.out.queue.Load()
	if q == nil || !c.out.owned || c.endCause() == nil {
		return nil
	}
	var frames []Frame
	for _, f := range q.unsent() {
		frames = append(frames, c.codec.set.frame(f.b))
	}
	return frames
}

// ConnStats are the figures of a [Conn].
type ConnStats struct {
	MessagesSent     uint64 // handed to the system
	MessagesReceived uint64 // complete frames, whether or not they could be decoded
	BytesSent        uint64 // handed to the system
	BytesReceived    uint64
	Malformed        uint64 // of MessagesReceived, those that led to a MessageError
	Dropped          uint64 // messages that the policy DropSlow dropped

	QueuedBytes    int // accepted and not yet handed to the system, with 64 for each message
	QueuedMessages int
}

// Stats returns the figures of now.
func (c *Conn) Stats() ConnStats {
	s := ConnStats{
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
	var wrapped *net.OpError
	if errors.As(err, &wrapped) {
		return err
	}
	e := &net.OpError{Op: op, Source: c.nc.LocalAddr(), Addr: c.nc.RemoteAddr(), Err: err}
	if e.Source != nil {
		e.Net = e.Source.Network()
	}
	return e
}

// closeWrite tells the peer that nothing follows, where the connection can.
func (c *Conn) closeWrite() bool {
	switch nc := c.nc.(type) {
	case *tls.Conn:
		return nc.CloseWrite() == nil
	case interface{ CloseWrite() error }:
		return nc.CloseWrite() == nil
	}
	return false
}
