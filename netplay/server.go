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

// A closedError is the error after Close or Shutdown of a Server or Client.
type closedError struct{ msg string }

func (e *closedError) Error() string        { return e.msg }
func (e *closedError) Is(target error) bool { return target == net.ErrClosed }

var (
	errServerClosed error = &closedError{"netplay: server closed"}
	errClientClosed error = &closedError{"netplay: client closed"}
)

// A Server accepts connections, and calls the functions given to [Handle] with their
// messages. Do not change fields after a call of Serve. A Server must not be copied, and
// cannot be used again after Shutdown or Close.
//
// Each connection has a goroutine, which reads messages and runs their handlers, and
// another one while there is something to write. Messages wait in a queue for each
// client, bounded by SendBuffer. So a server takes at most about MaxConns times
// SendBuffer for them. Their buffers may be up to twice as long as they are.
type Server struct {
	// Registry has the types of messages. Required.
	Registry *Registry
	// Config is for the connections; nil: the default.
	Config *Config

	// MaxConns limits the connections. Further ones are closed at once. Default 16384.
	// Negative: no limit.
	MaxConns int
	// SendBuffer limits the queue of one client, in bytes. A message counts its frame
	// and 64. Default 256 KiB, at least 66 KiB.
	SendBuffer int
	// DropSlow drops and counts messages that find no room in the queue of a client,
	// until the WriteTimeout ends the connection. Default: the first such message ends
	// the connection. In both cases WriteMessage returns ErrSlowReader.
	DropSlow bool
	// WriteTimeout is how long one write of at most 16 KiB, or of one longer frame, may
	// take; then the connection is closed. Default 10 s. Negative: no limit.
	WriteTimeout time.Duration
	// IdleTimeout is how long a client may be silent. Within a frame, only
	// Config.FrameTimeout counts. Default: no limit, because the protocol has no keep
	// alives. TCP keepalive finds dead clients.
	IdleTimeout time.Duration

	// BaseContext returns the parent of the contexts of a listener's connections; nil:
	// context.Background.
	BaseContext func(net.Listener) context.Context
	// OnConnect, if not nil, is called for each new connection before anything is read,
	// on its goroutine. It may read and write messages, and set deadlines for that. The
	// connection gets broadcasts after it has returned. An error closes the connection.
	OnConnect func(*Conn) error
	// OnDisconnect, if not nil, is called once after the end of each connection for
	// which OnConnect was called. err is nil if the client has closed the connection in
	// order, or Conn.Close was called. It matches net.ErrClosed if the Server has ended.
	// Otherwise it is a *HandlerError, ErrSlowReader and so on.
	OnDisconnect func(c *Conn, err error)
	// OnError, if not nil, gets each message that cannot be read (a *MessageError) and
	// each error of a handler (a *HandlerError). If it returns nil, the message is
	// dropped and the connection goes on. An error closes the connection. Default: a
	// message that cannot be read is dropped, as in the Java library, and an error of a
	// handler closes the connection.
	OnError func(c *Conn, err error) error
	// Logger gets connections and their ends; nil: only panics of handlers and the
	// functions above are logged, by slog.Default.
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
	members   map[*Conn]*serving // those that get broadcasts
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
		if s.set.sendBuffer < minSendBuffer {
			s.bad = configError("Server.SendBuffer", "%d is less than %d", s.SendBuffer, minSendBuffer)
		}
	})
	return s.bad
}

const defaultMaxConns = 16384

// Serve accepts connections of ln, which carries streams, until Shutdown or Close, and
// closes ln. The error matches net.ErrClosed after Shutdown or Close. Otherwise it is a
// *[ConfigError], also for the connections of ln, or a final error of ln.
func (s *Server) Serve(ln net.Listener) error {
	if ln == nil {
		return configError("ln", "it is nil")
	}
	defer ln.Close()
	if err := s.init(); err != nil {
		return err
	}
	if err := s.handlers.check(s.Registry); err != nil {
		return err
	}
	s.mu.Lock()
	s.listeners[ln] = struct{}{} // also if it is closed, for stop
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.listeners, ln)
	}()
	if s.isClosed() {
		return errServerClosed
	}
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
			return errServerClosed
		case !passing(err):
			return err
		default:
			// Too many open files, as a rule: it passes when one is closed.
			pause = min(max(2*pause, 5*time.Millisecond), time.Second)
			s.log(slog.LevelWarn, "cannot accept", "error", err, "again_in", pause)
			if !s.pause(pause) {
				return errServerClosed
			}
			continue
		}
		if err := s.start(base, nc); err != nil {
			nc.Close()
			if errors.Is(err, errServerClosed) {
				return err
			}
			if ce := (*ConfigError)(nil); errors.As(err, &ce) {
				return err
			}
		}
	}
}

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
	policy := closeSlow
	if s.DropSlow {
		policy = dropSlow
	}
	sv := &serving{
		router:    &s.handlers,
		queue:     newQueue(s.set.sendBuffer),
		owned:     true,
		policy:    policy,
		timeout:   s.set.writeTimeout,
		idle:      s.set.idleTimeout,
		ending:    new(ending),
		unhandled: &s.stats.unhandled,
		connected: s.connected,
		malformed: &s.stats.malformed,
		onError:   s.OnError,
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
		return errServerClosed
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

func (s *Server) ended(c *Conn, err error) {
	if errors.Is(err, ErrSlowReader) {
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

func (s *Server) log(level slog.Level, msg string, args ...any) { logTo(s.Logger, level, msg, args...) }

func logTo(l *slog.Logger, level slog.Level, msg string, args ...any) {
	if l != nil {
		l.Log(context.Background(), level, "netplay: "+msg, args...)
	}
}

// ServerStats are the figures of a [Server].
type ServerStats struct {
	Conns     int    // open now
	Accepted  uint64 // connections
	Refused   uint64 // of Accepted, closed because of MaxConns
	Slow      uint64 // connections that ended with ErrSlowReader
	Malformed uint64 // messages that could not be read (MessageError)
	Unhandled uint64 // messages of registered types without a handler
	Queued    int    // bytes that wait to be written, over all connections
}

// Stats returns the current figures.
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
