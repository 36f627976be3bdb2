package netplay

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"reflect"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"
)

// A slowPolicy says what WriteMessage does if the queue of a connection is full.
type slowPolicy int

const (
	closeSlow slowPolicy = iota // end the connection
	dropSlow                    // drop the message
	waitSlow                    // wait for room
)

const (
	defaultSendBuffer   = 256 << 10
	minSendBuffer       = 66 << 10 // the longest frame with its overhead
	defaultWriteTimeout = 10 * time.Second
	// lingerTime is how long a connection that ended in order waits for the peer to
	// close its side. Closing at once, with unread data of the peer, would make the
	// system throw away what the peer has not read yet.
	lingerTime = time.Second
)

// errEnding is the error of writing to a connection that is about to end.
var errEnding = &closedError{"netplay: the connection is being closed"}

// A serving is what a Server or Client does with a connection.
type serving struct {
	router    *router
	queue     *queue
	owned     bool // the queue is this connection's alone
	policy    slowPolicy
	timeout   time.Duration // of writes; 0 for none
	idle      time.Duration // 0 for none
	ending    *ending
	reported  bool // Shutdown has asked for what was not sent
	unhandled *atomic.Uint64
	malformed *atomic.Uint64 // may be nil

	connected func(*Conn) error        // is called first; an error ends the connection
	onError   func(*Conn, error) error // of the Server or Client; may be nil

	logger   *slog.Logger
	handling any // the message that a handler has; nil while there is none
}

// Kick and Shutdown ask for an ending, and the reader of the connection carries it out.
type ending struct {
	mu    sync.Mutex
	asked atomic.Bool     // set after the others
	ctx   context.Context // bounds it
	cause error
}

// begin asks for the end. Only the first call counts.
func (e *ending) begin(ctx context.Context, c *Conn, cause error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.asked.Load() {
		return
	}
	e.ctx, e.cause = ctx, cause
	e.asked.Store(true)
	c.in.deadline.poke(true)
}

func (s *serving) prepare(c *Conn) {
	c.in.idle = s.idle
	c.out.policy, c.out.timeout, c.out.owned = s.policy, s.timeout, s.owned
	if s.owned {
		s.attach(c)
	}
}

// attach puts messages to c into the queue from now on.
func (s *serving) attach(c *Conn) {
	c.out.queue.Store(s.queue)
	s.queue.connect(sink{
		write:  c.writeBehind,
		wrote:  func(frames int) { c.stats.sent.Add(uint64(frames)) },
		failed: func(err error) { c.end(err) },
	})
}

// serve reads until the connection ends, and closes it. An orderly end is nil.
func (s *serving) serve(c *Conn) error {
	err := s.runGuarded(c)
	if err == io.EOF {
		err = nil
		if s.owned {
			// The peer may still read what was accepted for it.
			ctx, cancel := context.WithTimeout(context.Background(), cmp.Or(s.timeout, defaultWriteTimeout))
			defer cancel()
			s.ending.begin(ctx, c, nil)
		}
	}
	if err == nil && s.ending.asked.Load() {
		err = s.finish(c)
	}
	c.end(cmp.Or(err, net.ErrClosed))
	if cause := c.endCause(); cause != net.ErrClosed {
		return cause // what came first
	}
	return nil
}

// runGuarded is run, but a panic in a function of the application ends only the connection.
func (s *serving) runGuarded(c *Conn) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = caught(s.logger, c, v)
			if s.handling != nil {
				err = &HandlerError{Type: reflect.TypeOf(s.handling).Elem(), Err: err}
			}
		}
	}()
	return s.run(c)
}

// run reads until the end of the stream, io.EOF, or until Kick or Shutdown, nil.
func (s *serving) run(c *Conn) error {
	if s.connected != nil {
		if err := s.connected(c); err != nil {
			if s.ending.asked.Load() {
				return nil // its reads were ended
			}
			return err
		}
	}
	if !s.owned {
		s.attach(c)
	}
	for !s.ending.asked.Load() {
		err := s.next(c)
		switch {
		case s.ending.asked.Load():
			return nil
		case err != nil:
			return err
		}
	}
	return nil
}

// next reads and handles one message.
func (s *serving) next(c *Conn) error {
	var m any
	var h func(*Conn, any) error
	err := c.read(context.Background(), func(f Frame) (err error) {
		m, h, err = s.router.decode(c.codec, f)
		return err
	})
	if isMessageError(err) {
		return s.problem(c, err)
	}
	if err != nil {
		return err
	}
	if h == nil {
		s.unhandled.Add(1)
		return nil
	}
	s.handling = m
	err = h(c, m)
	s.handling = nil
	if err != nil {
		return s.problem(c, &HandlerError{Type: reflect.TypeOf(m).Elem(), Err: err})
	}
	return nil
}

// problem decides about a message that was not read or not handled. An error ends the
// connection.
func (s *serving) problem(c *Conn, err error) error {
	malformed := isMalformed(err)
	if malformed && s.malformed != nil {
		s.malformed.Add(1)
	}
	logTo(s.logger, slog.LevelDebug, "message failed", "peer", c.RemoteAddr(), "error", err)
	if s.onError != nil {
		return s.onError(c, err)
	}
	if malformed {
		return nil
	}
	return err
}

// finish writes the queued messages and tells the peer the end.
func (s *serving) finish(c *Conn) error {
	s.queue.seal(c.opError("write", errEnding))
	ctx, cancel := context.WithCancel(s.ending.ctx)
	defer cancel()
	defer context.AfterFunc(c.ctx, cancel)()
	if !s.queue.flush(ctx) {
		return cmp.Or(s.ending.cause, errWriteTimeout)
	}
	if c.closeWrite() {
		c.in.deadline.setOwn(time.Now().Add(lingerTime))
		c.in.deadline.poke(false)
		defer c.in.deadline.watch(ctx)()
		var waste [512]byte
		for {
			if _, err := c.nc.Read(waste[:]); err != nil {
				break
			}
		}
	}
	return s.ending.cause
}

// A panicError ends a connection after a panic in a function of the application.
type panicError struct{ value any }

func (e *panicError) Error() string { return fmt.Sprintf("panic: %v", e.value) }

// Unwrap returns the value if it is an error.
func (e *panicError) Unwrap() error {
	err, _ := e.value.(error)
	return err
}

// caught logs a panic of the application, and returns it as an error.
func caught(l *slog.Logger, c *Conn, value any) error {
	if l == nil {
		l = slog.Default()
	}
	logTo(l, slog.LevelError, "a function of the application panicked", "peer", c.RemoteAddr(), "panic", value, "stack", string(debug.Stack()))
	return &panicError{value}
}

// guard calls OnDisconnect.
func guard(l *slog.Logger, c *Conn, f func()) {
	defer func() {
		if v := recover(); v != nil {
			caught(l, c, v)
		}
	}()
	f()
}
