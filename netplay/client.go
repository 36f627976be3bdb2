package netplay

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// A Client keeps a connection to a server: it dials, has the messages that
// arrive handled by the functions given to [Handle], and, if Reconnect is set,
// dials again when the connection has ended. Fields must not be changed once Run
// or WriteMessage was called. A Client must not be copied, and runs once.
//
// Messages to the server wait in one queue, also while there is no connection.
// Those that were not handed to the system as a whole when a connection ended
// go out on the next one, each at most once; what was handed to the system and
// lost with the connection, nobody knows without an answer of the server.
type Client struct {
	// Registry has the types of messages. It is needed.
	Registry *Registry
	// Config is that of the connection; nil is the default.
	Config *Config

	// Network and Address say where the server is, as for net.Dial. Network
	// is "tcp" by default.
	Network, Address string
	// Dial makes the connection in place of net.Dialer, such as
	// (*tls.Dialer).DialContext behind a function. Network and Address are
	// not looked at then.
	Dial func(ctx context.Context) (net.Conn, error)
	// DialTimeout limits each attempt. Default 10 s. Negative: no limit.
	DialTimeout time.Duration

	// Reconnect has Run dial again after a failure or the end of the
	// connection, until its context ends.
	Reconnect bool
	// MinDelay is about how long Run waits before it dials again. The wait
	// doubles with each attempt that fails up to MaxDelay, and half of it
	// is left to chance. Defaults 100 ms and 30 s.
	MinDelay, MaxDelay time.Duration

	// SendBuffer limits what waits to be written, in bytes, where a message
	// counts 64 more than its frame. Default 256 KiB, at least 66 KiB.
	SendBuffer int
	// WriteTimeout is how long one write of at most 16 KiB, or one longer
	// frame, may take; then the connection ends. Default 10 s. Negative: no
	// limit.
	WriteTimeout time.Duration
	// IdleTimeout is how long the server may be silent. No limit by default.
	IdleTimeout time.Duration

	// OnConnect, if not nil, is called for each new connection before
	// anything else is read or written, on the goroutine of Run: for a
	// login. What it writes goes out at once, ahead of messages that wait.
	// An error ends the connection.
	OnConnect func(*Conn) error
	// OnDisconnect, if not nil, is called once after the end of each
	// connection, with nil if the server has closed it in order.
	OnDisconnect func(c *Conn, err error)
	// OnError is as in Server.
	OnError func(c *Conn, err error) error
	// Logger is told of connections and their ends; nil is silent, except for
	// panics of the functions above and of handlers, which go to
	// slog.Default then.
	Logger *slog.Logger

	handlers router

	once sync.Once
	bad  error
	set  struct {
		codec        *Codec
		dialTimeout  time.Duration
		minDelay     time.Duration
		maxDelay     time.Duration
		writeTimeout time.Duration
		idleTimeout  time.Duration
	}
	queue     *queue
	unhandled atomic.Uint64

	mu      sync.Mutex
	running bool
	stopped bool               // by Close or Shutdown
	cancel  context.CancelFunc // of Run
	done    chan struct{}      // closed when Run returns, or was not needed
	conn    *Conn              // of now, nil if there is none
	ending  *ending            // of conn
	leaving context.Context    // of Shutdown
}

func (cl *Client) router() *router { return &cl.handlers }

// ErrClientClosed is returned by Client.Run after Close or Shutdown, and by
// WriteMessage from then on. It matches net.ErrClosed.
var ErrClientClosed error = &clientClosedError{}

type clientClosedError struct{}

func (*clientClosedError) Error() string        { return "netplay: client closed" }
func (*clientClosedError) Is(target error) bool { return target == net.ErrClosed }

const (
	defaultDialTimeout = 10 * time.Second
	defaultMinDelay    = 100 * time.Millisecond
	defaultMaxDelay    = 30 * time.Second
)

// init applies the defaults, once.
func (cl *Client) init() error {
	cl.once.Do(func() {
		sendBuffer := cmp.Or(cl.SendBuffer, defaultSendBuffer)
		cl.queue = newQueue(sendBuffer)
		cl.done = make(chan struct{})
		cl.set.codec, cl.bad = NewCodec(cl.Registry, cl.Config)
		cl.set.dialTimeout = max(0, cmp.Or(cl.DialTimeout, defaultDialTimeout))
		cl.set.minDelay = cmp.Or(max(0, cl.MinDelay), defaultMinDelay)
		cl.set.maxDelay = max(cl.set.minDelay, cmp.Or(max(0, cl.MaxDelay), defaultMaxDelay))
		cl.set.writeTimeout = max(0, cmp.Or(cl.WriteTimeout, defaultWriteTimeout))
		cl.set.idleTimeout = max(0, cl.IdleTimeout)
		switch {
		case cl.bad != nil:
		case sendBuffer < minSendBuffer:
			cl.bad = configError("Client.SendBuffer", "%d is less than %d", cl.SendBuffer, minSendBuffer)
		case cl.Address == "" && cl.Dial == nil:
			cl.bad = configError("Client.Address", "neither it nor Dial is set")
		}
	})
	return cl.bad
}

// Run dials and has messages handled until the connection ends, or with
// Reconnect until ctx ends or Close or Shutdown is called. It returns why: nil
// if the server has closed the connection in order, [ErrClientClosed], the
// cause of ctx, or what else ended the connection. What was accepted by
// WriteMessage and not handed to the system is told by Unsent then.
func (cl *Client) Run(ctx context.Context) error {
	if err := cl.init(); err != nil {
		return err
	}
	if err := cl.handlers.check(cl.Registry); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if err := cl.begin(cancel); err != nil {
		return err
	}
	err := cl.loop(ctx)
	if cl.isStopped() {
		err = ErrClientClosed
	}
	cl.queue.end(cmp.Or(err, ErrClientClosed))
	close(cl.done)
	return err
}

// begin notes that Run is on its way.
func (cl *Client) begin(cancel context.CancelFunc) error {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	if cl.stopped {
		return ErrClientClosed
	}
	if cl.running {
		return errors.New("netplay: Client.Run was called before")
	}
	cl.running, cl.cancel = true, cancel
	return nil
}

// isStopped reports whether Close or Shutdown was called.
func (cl *Client) isStopped() bool {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	return cl.stopped || cl.leaving != nil
}

// isDone reports whether there is nothing left to connect for.
func (cl *Client) isDone() bool {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	return !cl.Reconnect || cl.stopped || cl.leaving != nil && cl.queue.empty()
}

// loop makes one connection after another.
func (cl *Client) loop(ctx context.Context) error {
	delay := cl.set.minDelay
	for {
		start := time.Now()
		err := cl.connect(ctx)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if cl.isDone() {
			return err
		}
		if te := (*TransportError)(nil); errors.As(err, &te) {
			return err
		}
		if time.Since(start) > cl.set.maxDelay {
			delay = cl.set.minDelay
		}
		wait := someOf(delay)
		logTo(cl.Logger, slog.LevelInfo, "dialing again", "in", wait, "error", err)
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return context.Cause(ctx)
		}
		delay = min(2*delay, cl.set.maxDelay)
	}
}

// someOf returns a time from half of the delay up to all of it.
func someOf(delay time.Duration) time.Duration { return delay/2 + rand.N(delay-delay/2+1) }

// connect makes a connection and serves it until it ends.
func (cl *Client) connect(ctx context.Context) error {
	nc, err := cl.dial(ctx)
	if err != nil {
		return err
	}
	c, err := newConn(ctx, nc, cl.set.codec)
	if err != nil {
		nc.Close()
		return err
	}
	sv := &serving{
		router:    &cl.handlers,
		queue:     cl.queue,
		policy:    waitSlow,
		timeout:   cl.set.writeTimeout,
		idle:      cl.set.idleTimeout,
		ending:    new(ending),
		unhandled: &cl.unhandled,
		connected: cl.OnConnect,
		problem:   cl.problem,
		logger:    cl.Logger,
	}
	sv.prepare(c)
	cl.adopt(c, sv.ending)
	stop := context.AfterFunc(ctx, func() { c.end(context.Cause(ctx)) })
	err = sv.serve(c)
	stop()
	cl.queue.disconnect()
	cl.adopt(nil, nil)
	logTo(cl.Logger, slog.LevelInfo, "disconnected", "peer", c.RemoteAddr(), "error", err)
	if cl.OnDisconnect != nil {
		guard(cl.Logger, c, func() { cl.OnDisconnect(c, err) })
	}
	return err
}

func (cl *Client) dial(ctx context.Context) (net.Conn, error) {
	if cl.set.dialTimeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, cl.set.dialTimeout)
		defer cancel()
	}
	if cl.Dial != nil {
		return cl.Dial(ctx)
	}
	var d net.Dialer
	return d.DialContext(ctx, cmp.Or(cl.Network, "tcp"), cl.Address)
}

// adopt notes the connection of now. If Shutdown was called meanwhile, it ends
// as soon as what waits is written.
func (cl *Client) adopt(c *Conn, e *ending) {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	cl.conn, cl.ending = c, e
	if c != nil && cl.leaving != nil {
		e.begin(cl.leaving, c, nil)
	}
}

// problem decides about a message that was not read or not handled.
func (cl *Client) problem(c *Conn, err error) error {
	logTo(cl.Logger, slog.LevelDebug, "message failed", "peer", c.RemoteAddr(), "error", err)
	if cl.OnError != nil {
		return cl.OnError(c, err)
	}
	if isMalformed(err) {
		return nil
	}
	return err
}

// WriteMessage accepts a message for the server, and waits for room in the queue
// if there is none. That it was accepted means that it goes out in its turn;
// see Unsent for those that did not. Before Run and between connections,
// messages are accepted, too. Errors are those of [Codec.Append], and of Run
// once it has ended.
func (cl *Client) WriteMessage(v any) error {
	return cl.WriteMessageContext(context.Background(), v)
}

// WriteMessageContext is like WriteMessage and returns the cause of ctx if ctx
// ends before there is room; the message was not accepted then.
func (cl *Client) WriteMessageContext(ctx context.Context, v any) error {
	if err := cl.init(); err != nil {
		return err
	}
	f, err := cl.set.codec.encode(v)
	if err != nil {
		return err
	}
	defer f.release()
	return cl.queue.pushWait(ctx, f)
}

// Conn returns the connection of now, or nil. What is written to it after
// OnConnect goes by the queue of the Client.
func (cl *Client) Conn() *Conn {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	return cl.conn
}
