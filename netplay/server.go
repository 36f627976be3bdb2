package netplay

import (
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// ErrServerClosed is returned by Server.Serve after Shutdown or Close, and is
// the cause with which they end connections.
var ErrServerClosed error = &serverClosedError{}

type serverClosedError struct{}

func (*serverClosedError) Error() string        { return "netplay: server closed" }
func (*serverClosedError) Is(target error) bool { return target == net.ErrClosed }

// A Server takes connections and has their messages handled by the functions
// given to [Handle]. Fields must not be changed once Serve was called. A Server
// must not be copied, and cannot be used again after Shutdown or Close.
//
// Each connection has a goroutine, which reads its messages and runs their
// handlers, and another one while something is to be written. Messages to
// clients wait in a queue for each, bounded by SendBuffer; a server takes at
// most about MaxConns times SendBuffer for them, frames of a broadcast counted
// for each connection though they are shared. The buffers that they wait in may
// be up to twice as long as they are.
type Server struct {
	// Registry has the types of messages. It is needed.
	Registry *Registry
	// Config is that of the connections; nil is the default.
	Config *Config

	// MaxConns limits the connections at one time. Others are accepted and
	// closed at once. Default 16384. Negative: no limit.
	MaxConns int
	// SendBuffer limits what waits to be written to one client, in bytes,
	// where a message counts 64 more than its frame. Default 256 KiB, at
	// least 66 KiB.
	SendBuffer int
	// SlowPolicy says what becomes of a client for which a message does not
	// fit any more. By default its connection is closed.
	SlowPolicy SlowPolicy
	// WriteTimeout is how long one write of at most 16 KiB, or one longer
	// frame, may take; then the connection is closed. Default 10 s.
	// Negative: no limit.
	WriteTimeout time.Duration
	// IdleTimeout is how long a client may be silent. By default there is no
	// limit, since the protocol has no messages that keep a connection
	// alive: the peer's system is asked by TCP keepalive. At most as long as
	// Config.FrameTimeout may pass within a frame.
	IdleTimeout time.Duration

	// BaseContext returns the context that those of the connections of a
	// listener come from; nil stands for context.Background.
	BaseContext func(net.Listener) context.Context
	// OnConnect, if not nil, is called for each new connection before
	// anything is read, on its goroutine. It may read and write messages,
	// and set deadlines for that. The connection takes part in broadcasts
	// once it has returned. An error closes the connection.
	OnConnect func(*Conn) error
	// OnDisconnect, if not nil, is called once for each connection of which
	// OnConnect was called, after its end. err says why: nil if the client
	// has closed it in order, or Close was called; a *HandlerError,
	// ErrSlowReader, ErrWriteTimeout, ErrServerClosed and so on.
	OnDisconnect func(c *Conn, err error)
	// OnError, if not nil, is told of each message that cannot be read
	// (a *MessageError) and of each error of a handler (a *HandlerError).
	// If it returns nil, the message is dropped and the connection goes on;
	// an error closes the connection. By default a message that cannot be
	// read is dropped, as the Java library does, and an error of a handler
	// closes the connection.
	OnError func(c *Conn, err error) error
	// Logger is told of connections and their ends; nil is silent, except for
	// panics of the functions above and of handlers, which go to
	// slog.Default then.
	Logger *slog.Logger

	handlers router

	once sync.Once
	bad  error // of the configuration
	set  struct {
		codec        *Codec
		maxConns     int
		sendBuffer   int
		writeTimeout time.Duration
		idleTimeout  time.Duration
	}

	mu        sync.RWMutex
	listeners map[net.Listener]struct{}
	conns     map[*Conn]*serving // all
	members   map[*Conn]*serving // those that take part in broadcasts
	done      chan struct{}      // closed with closed
	closed    bool
	unsent    []Unsent       // of connections that ended during Shutdown
	running   sync.WaitGroup // goroutines of connections; added to with mu held and closed not set

	stats struct {
		accepted, refused, slow, malformed, unhandled atomic.Uint64
	}
}

func (s *Server) router() *router { return &s.handlers }

// init applies the defaults, once.
func (s *Server) init() error {
	s.once.Do(func() {
		s.listeners = make(map[net.Listener]struct{})
		s.conns = make(map[*Conn]*serving)
		s.members = make(map[*Conn]*serving)
		s.done = make(chan struct{})
		s.set.codec, s.bad = NewCodec(s.Registry, s.Config)
		if s.bad != nil {
			return
		}
		s.set.maxConns = cmp.Or(s.MaxConns, defaultMaxConns)
		s.set.sendBuffer = cmp.Or(s.SendBuffer, defaultSendBuffer)
		s.set.writeTimeout = max(0, cmp.Or(s.WriteTimeout, defaultWriteTimeout))
		s.set.idleTimeout = max(0, s.IdleTimeout)
		switch {
		case s.set.sendBuffer < minSendBuffer:
			s.bad = configError("Server.SendBuffer", "%d is less than %d", s.SendBuffer, minSendBuffer)
		case s.SlowPolicy != CloseSlow && s.SlowPolicy != DropSlow:
			s.bad = configError("Server.SlowPolicy", "%d is neither CloseSlow nor DropSlow", int(s.SlowPolicy))
		}
	})
	return s.bad
}

const defaultMaxConns = 16384

// Serve takes connections from ln, of any network that carries streams, until
// Shutdown or Close, and returns ErrServerClosed then. It closes ln. Any other
// error is a [*ConfigError], a [*TransportError] because of what ln yields, or
// one of ln which does not pass.
func (s *Server) Serve(ln net.Listener) error {
	if ln == nil {
		return configError("ln", "it is nil")
	}
	defer ln.Close()
	if err := cmp.Or(s.init(), s.handlersKnown()); err != nil {
		return err
	}
	if !s.addListener(ln) {
		return ErrServerClosed
	}
	defer s.removeListener(ln)
	base := context.Background()
	if s.BaseContext != nil {
		if base = s.BaseContext(ln); base == nil {
			return configError("Server.BaseContext", "it has returned nil")
		}
	}
	s.log(slog.LevelInfo, "serving", "address", ln.Addr())
	var pause time.Duration
	for {
		nc, err := ln.Accept()
		switch {
		case err == nil:
			pause = 0
		case s.isClosed():
			return ErrServerClosed
		case !passing(err):
			return err
		default:
			// Too many open files, as a rule: it passes when one is closed.
			pause = min(max(2*pause, 5*time.Millisecond), time.Second)
			s.log(slog.LevelWarn, "cannot accept", "error", err, "again_in", pause)
			if !s.pause(pause) {
				return ErrServerClosed
			}
			continue
		}
		if err := s.start(base, nc); err != nil {
			nc.Close()
			if errors.Is(err, ErrServerClosed) {
				return err
			}
			if te := (*TransportError)(nil); errors.As(err, &te) {
				return err
			}
		}
	}
}

func (s *Server) handlersKnown() error {
	if s.bad != nil {
		return nil
	}
	return s.handlers.check(s.Registry)
}

// passing reports whether an error of Accept may be gone the next time.
func passing(err error) bool {
	var ne net.Error
	//lint:ignore SA1019 Accept has no better way to say it, and net/http uses it, too.
	return errors.As(err, &ne) && ne.Temporary()
}

// errFull is why a connection is closed at once.
var errFull = errors.New("netplay: MaxConns connections are open")

// start serves a new connection on a goroutine of its own.
func (s *Server) start(base context.Context, nc net.Conn) error {
	s.stats.accepted.Add(1)
	c, err := newConn(base, nc, s.set.codec)
	if err != nil {
		return err
	}
	sv := &serving{
		router:    &s.handlers,
		queue:     newQueue(s.set.sendBuffer),
		owned:     true,
		policy:    s.SlowPolicy,
		timeout:   s.set.writeTimeout,
		idle:      s.set.idleTimeout,
		ending:    new(ending),
		unhandled: &s.stats.unhandled,
		connected: s.connected,
		problem:   s.problem,
		logger:    s.Logger,
	}
	if err := s.admit(c, sv); err != nil {
		c.cancel(err)
		return err
	}
	go func() {
		defer s.running.Done()
		s.ended(c, sv.serve(c))
	}()
	return nil
}

// admit adds a connection, if there is room.
func (s *Server) admit(c *Conn, sv *serving) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return ErrServerClosed
	}
	if s.set.maxConns >= 0 && len(s.conns) >= s.set.maxConns {
		s.stats.refused.Add(1)
		s.log(slog.LevelWarn, "connection refused", "peer", c.RemoteAddr(), "error", errFull)
		return errFull
	}
	sv.prepare(c)
	s.conns[c] = sv
	s.running.Add(1)
	return nil
}

// connected is called on the goroutine of a new connection.
func (s *Server) connected(c *Conn) error {
	s.log(slog.LevelDebug, "connected", "peer", c.RemoteAddr())
	if s.OnConnect != nil {
		if err := s.OnConnect(c); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.members[c] = s.conns[c]
	return nil
}

// problem decides about a message that was not read or not handled.
func (s *Server) problem(c *Conn, err error) error {
	malformed := isMalformed(err)
	if malformed {
		s.stats.malformed.Add(1)
	}
	s.log(slog.LevelDebug, "message failed", "peer", c.RemoteAddr(), "error", err)
	if s.OnError != nil {
		return s.OnError(c, err)
	}
	if malformed {
		return nil
	}
	return err
}

// ended is called when a connection has ended.
func (s *Server) ended(c *Conn, err error) {
	if errors.Is(err, ErrSlowReader) || errors.Is(err, ErrWriteTimeout) {
		s.stats.slow.Add(1)
	}
	frames := c.Unsent()
	s.mu.Lock()
	sv := s.conns[c]
	delete(s.conns, c)
	delete(s.members, c)
	if s.closed && !sv.reported && len(frames) > 0 {
		s.unsent = append(s.unsent, Unsent{Addr: c.RemoteAddr(), Frames: frames})
	}
	s.mu.Unlock()
	level := slog.LevelDebug
	if err != nil && !errors.Is(err, net.ErrClosed) && err != io.EOF {
		level = slog.LevelInfo
	}
	s.log(level, "disconnected", "peer", c.RemoteAddr(), "error", err, "unsent", len(frames))
	if s.OnDisconnect != nil {
		guard(s.Logger, c, func() { s.OnDisconnect(c, err) })
	}
}

// log tells the Logger.
func (s *Server) log(level slog.Level, msg string, args ...any) { logTo(s.Logger, level, msg, args...) }

func logTo(l *slog.Logger, level slog.Level, msg string, args ...any) {
	if l != nil {
		l.Log(context.Background(), level, "netplay: "+msg, args...)
	}
}

// ServerStats are the figures of a [Server].
type ServerStats struct {
	Conns     int    // open now
	Accepted  uint64 // connections that the listeners have yielded
	Refused   uint64 // of them, those closed because of MaxConns
	Slow      uint64 // connections that ended with ErrSlowReader or ErrWriteTimeout
	Malformed uint64 // messages that could not be read (MessageError)
	Unhandled uint64 // messages of registered types without a handler
	Queued    int    // bytes that wait to be written, over all connections
}

// Stats returns the figures of now.
func (s *Server) Stats() ServerStats {
	st := ServerStats{
		Accepted:  s.stats.accepted.Load(),
		Refused:   s.stats.refused.Load(),
		Slow:      s.stats.slow.Load(),
		Malformed: s.stats.malformed.Load(),
		Unhandled: s.stats.unhandled.Load(),
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	st.Conns = len(s.conns)
	for _, sv := range s.conns {
		bytes, _ := sv.queue.size()
		st.Queued += bytes
	}
	return st
}
