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

// A Client keeps a connection to a server. It dials, calls the functions given to
// [Handle] with the messages that arrive, and, if Reconnect is set, dials again after
// the end of the connection. Do not change fields after a call of Run or WriteMessage. A
// Client must not be copied, and runs once.
//
// Messages to the server wait in one queue, even while there is no connection. When a
// connection ends, messages that the operating system has not taken completely go out
// on the next one. None is sent twice. Messages that the system has taken may be lost
// with the connection: only an answer of the server shows that they have arrived.
type Client struct {
	// Registry has the types of messages. Required.
	Registry *Registry
	// Config is for the connection; nil: the default.
	Config *Config

	// Network and Address are those of the server, as for net.Dial. Default Network "tcp".
	Network, Address string
	// Dial, if not nil, makes the connection in place of net.Dialer, for example by
	// (*tls.Dialer).DialContext. Network and Address are not used then.
	Dial func(ctx context.Context) (net.Conn, error)
	// DialTimeout limits each attempt. Default 10 s. Negative: no limit.
	DialTimeout time.Duration

	// Reconnect makes Run dial again after a failure or the end of the connection.
	Reconnect bool
	// Before Run dials again, it waits from half of MinDelay to all of it. The wait
	// doubles with each failed attempt, up to MaxDelay. Defaults 100 ms and 30 s.
	MinDelay, MaxDelay time.Duration

	// SendBuffer limits the queue, in bytes. A message counts its frame and 64.
	// Default 256 KiB, at least 66 KiB.
	SendBuffer int
	// WriteTimeout is how long one write of at most 16 KiB, or of one longer frame, may
	// take; then the connection ends. Default 10 s. Negative: no limit.
	WriteTimeout time.Duration
	// IdleTimeout is how long the server may be silent. Default: no limit.
	IdleTimeout time.Duration

	// OnConnect, if not nil, is called for each new connection, on the goroutine of Run,
	// before anything else is read or written. It is for a login: its messages go out
	// before those in the queue. An error ends the connection.
	OnConnect func(*Conn) error
	// OnDisconnect, if not nil, is called once after the end of each connection, with
	// nil if the server has closed it in order.
	OnDisconnect func(c *Conn, err error)
	// OnError is as in Server.
	OnError func(c *Conn, err error) error
	// Logger is as in Server.
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
	conn    *Conn              // the present one, or nil
	ending  *ending            // of conn
	leaving context.Context    // of Shutdown
}

func (cl *Client) router() *router { return &cl.handlers }

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

// Run dials and handles messages until the connection ends, or with Reconnect until ctx
// ends or Close or Shutdown is called. The error is nil if the server has closed the
// connection in order, matches net.ErrClosed after Close or Shutdown, or is the cause of
// ctx's end or of the connection's. Afterwards, Unsent has the messages that the system
// has not taken.
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
		err = errClientClosed
	}
	cl.queue.end(cmp.Or(err, errClientClosed))
	close(cl.done)
	return err
}

// begin notes the start of Run.
func (cl *Client) begin(cancel context.CancelFunc) error {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	if cl.stopped {
		return errClientClosed
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

// isDone reports whether Run need not connect again.
func (cl *Client) isDone() bool {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	return !cl.Reconnect || cl.stopped || cl.leaving != nil && cl.queue.empty()
}

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
		if ce := (*ConfigError)(nil); errors.As(err, &ce) {
			return err
		}
		if time.Since(start) > cl.set.maxDelay {
			delay = cl.set.minDelay
		}
		wait := delay/2 + rand.N(delay-delay/2+1)
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
		onError:   cl.OnError,
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

// adopt notes the present connection. After Shutdown it ends as soon as the queue is empty.
func (cl *Client) adopt(c *Conn, e *ending) {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	cl.conn, cl.ending = c, e
	if c != nil && cl.leaving != nil {
		e.begin(cl.leaving, c, nil)
	}
}

// WriteMessage puts a message for the server into the queue, also before Run and between
// connections. It waits for room until ctx ends, and then returns its cause. Other errors
// are those of [Codec.Append], and of Run after its end.
func (cl *Client) WriteMessage(ctx context.Context, v any) error {
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

// Conn returns the present connection, or nil. After OnConnect, its messages go into the
// queue of the Client.
func (cl *Client) Conn() *Conn {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	return cl.conn
}

// Unsent returns the accepted messages that the system had not taken completely when Run
// returned, in their order. Before that it returns nil.
func (cl *Client) Unsent() []Frame {
	if cl.init() != nil {
		return nil
	}
	select {
	case <-cl.done:
		return cl.queue.unsent()
	default:
		return nil
	}
}

// Shutdown ends the client in order. It accepts nothing more, writes the queued messages,
// with Reconnect also on a new connection, and gives the server a second to close. If ctx
// ends first, it closes the connection at once. It returns nil if the system has taken all
// messages. Otherwise it returns an *[UnsentError], joined with the cause of ctx's end. A
// handler must not call Shutdown, which would wait for it, but may call Close.
func (cl *Client) Shutdown(ctx context.Context) error {
	if err := cl.init(); err != nil {
		return nil // nothing was ever accepted
	}
	cl.queue.seal(errClientClosed)
	cl.mu.Lock()
	if cl.leaving == nil {
		cl.leaving = ctx
	}
	if !cl.running {
		cl.stopUnused()
	} else if cl.conn != nil {
		cl.ending.begin(ctx, cl.conn, nil)
	} else if cl.queue.empty() {
		cl.cancel()
	}
	cl.mu.Unlock()

	var err error
	select {
	case <-cl.done:
	case <-ctx.Done():
		err = context.Cause(ctx)
		cl.Close()
	}
	if frames := cl.queue.unsent(); len(frames) > 0 {
		return errors.Join(err, &UnsentError{Unsent: []Unsent{{Frames: frames}}})
	}
	return err
}

// Close ends the client at once. It does not wait for handlers. After Run has returned,
// Unsent has the messages that the system has not taken.
func (cl *Client) Close() error {
	if err := cl.init(); err != nil {
		return nil
	}
	cl.queue.end(errClientClosed)
	cl.mu.Lock()
	defer cl.mu.Unlock()
	if !cl.running {
		cl.stopUnused()
		return nil
	}
	cl.stopped = true
	cl.cancel()
	return nil
}

func (cl *Client) stopUnused() {
	cl.queue.end(errClientClosed)
	if !cl.stopped {
		cl.stopped = true
		close(cl.done)
	}
}
