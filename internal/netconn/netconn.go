// Package netconn is the user's side of a connection, which every protocol has:
// messages that wait to be read, deadlines, how a connection ends, and errors in
// the form that package net gives them. A connection has a [Side] as a named
// field and calls it from its own methods, which have the documents.
package netconn

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"reflect"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"volley/internal/datagram"
	"volley/internal/deadline"
	"volley/internal/inbox"
	"volley/internal/outbox"
)

// A Side is what the user of a connection meets, beside what is written. The
// connection's Outbox, which knows why writes fail, is given to those methods
// that need it; they are named Locked, for the Outbox's lock.
type Side struct {
	// In holds the messages that wait for Read.
	In inbox.Inbox

	deadline  deadline.Deadline // of Read
	truncated atomic.Uint64
}

// Init prepares a Side for limit bytes of messages, asked of reserve if not nil.
func (s *Side) Init(below datagram.Conn, limit int, reserve func(delta int) bool) {
	s.In.Init(limit, reserve)
	if inline := below.Features().Inline; inline != nil {
		s.In.SetPoller(inline)
	}
}

// Read copies the next message to b. A rest is dropped and counted: io.ErrShortBuffer.
func (s *Side) Read(b []byte) (n int, err error) {
	if len(b) == 0 {
		return 0, nil
	}
	n, size, err := s.In.Read(b, &s.deadline)
	if err == nil && n < size {
		s.truncated.Add(1)
		err = io.ErrShortBuffer
	}
	return n, noticed(err)
}

// ReadPart copies a message's next bytes to b, and leaves the rest.
func (s *Side) ReadPart(b []byte) (n int, err error) {
	if len(b) == 0 {
		return 0, nil
	}
	n, err = s.In.ReadPart(b, &s.deadline)
	return n, noticed(err)
}

// ReadMessage appends the next message to dst, and returns its number, if In has any.
func (s *Side) ReadMessage(ctx context.Context, dst []byte) (p []byte, number uint64, err error) {
	if ctx.Done() == nil {
		p, number, err = s.In.ReadNumbered(dst, &s.deadline)
		return p, number, noticed(err)
	}
	if ctx.Err() != nil {
		return dst, 0, context.Cause(ctx)
	}
	p, number, ok, err := s.In.TryNumbered(dst, &s.deadline) // which costs less
	if ok || err != nil {
		return p, number, noticed(err)
	}
	d, stop := s.deadline.Within(ctx, s.In.Interrupt)
	defer stop()
	p, number, err = s.In.ReadNumbered(dst, d)
	if err == os.ErrDeadlineExceeded && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return p, number, noticed(err)
}

// Next appends the next message to dst, for what serves. It does not wait, and has no deadline.
func (s *Side) Next(dst []byte) (p []byte, ok bool, err error) {
	p, _, ok, err = s.In.TryNumbered(dst, &forever)
	return p, ok, err
}

// forever is a deadline that never comes.
var forever deadline.Deadline

// noticed returns what a Read tells after In.Notice: that nobody listens at the other side.
func noticed(err error) error {
	if err == inbox.ErrNotice {
		return os.NewSyscallError("read", syscall.ECONNREFUSED)
	}
	return err
}

// Truncated returns how many messages a Read had too short a buffer for.
func (s *Side) Truncated() uint64 { return s.truncated.Load() }

// SetDeadlineLocked sets deadlines, also after an end, since messages may be left.
func (s *Side) SetDeadlineLocked(out *outbox.Outbox, t time.Time, read, write bool) error {
	if err := out.Err(); err != nil && !out.EndedBelow() {
		return err
	}
	if read {
		s.deadline.Set(t)
		s.In.Interrupt()
	}
	if write {
		out.SetDeadline(t)
	}
	return nil
}

// EndLocked makes writes fail with err, not by Close; false: it had ended before.
func (s *Side) EndLocked(out *outbox.Outbox, err error) bool {
	if out.Err() != nil {
		return false
	}
	out.EndBelow(err)
	return true
}

// CloseLocked makes writes fail with net.ErrClosed; false: an earlier error stays.
func (s *Side) CloseLocked(out *outbox.Outbox) bool {
	err := out.Err()
	if err == nil || err == io.EOF {
		out.End(net.ErrClosed)
	}
	out.Closed()
	return err == nil
}

// OpError wraps err, once, as functions of package net do; io.EOF and nil stay as they are.
func OpError(op string, local, remote net.Addr, err error) error {
	if err == nil || err == io.EOF {
		return err
	}
	if _, wrapped := errors.AsType[*net.OpError](err); wrapped {
		return err
	}
	return &net.OpError{Op: op, Net: local.Network(), Source: local, Addr: remote, Err: err}
}

// LastError returns the socket's last error about this peer, unwrapped, or nil.
func LastError(dc datagram.Conn) error {
	e := dc.Features().Errors
	if e == nil {
		return nil
	}
	last := e.LastError()
	if errno, ok := errors.AsType[syscall.Errno](last); ok {
		return errno
	}
	return last
}

// Silence returns why, with the socket's last error, if any.
func Silence(dc datagram.Conn, why error) error {
	if last := LastError(dc); last != nil {
		return &silentError{why, last}
	}
	return why
}

// A silentError matches both of its errors, and is a timeout if why is.
type silentError struct{ why, last error }

func (e *silentError) Error() string {
	return e.why.Error() + "; the socket's last error: " + e.last.Error()
}

func (e *silentError) Unwrap() []error { return []error{e.why, e.last} }

func (e *silentError) Timeout() bool {
	t, ok := e.why.(interface{ Timeout() bool })
	return ok && t.Timeout()
}

// IsNil reports whether an argument is missing: nil, or a nil pointer of some type.
func IsNil(arg any) bool {
	v := reflect.ValueOf(arg)
	return !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil()
}

// Unfit returns why a net.Conn or net.PacketConn cannot carry messages, if that is certain, or "".
func Unfit(inner interface{ LocalAddr() net.Addr }) (reason string) {
	if IsNil(inner) {
		return "it is nil"
	}
	if network := Stream(inner); network != "" {
		return "a " + network + " connection does not preserve message boundaries"
	}
	return ""
}

// Stream returns the network of what is certainly a stream, or "".
func Stream(inner interface{ LocalAddr() net.Addr }) (network string) {
	if t := reflect.TypeOf(inner); t.String() == "*tls.Conn" && t.Elem().PkgPath() == "crypto/tls" {
		return "TLS" // not imported, because it is large
	}
	addr := inner.LocalAddr()
	if addr == nil {
		return ""
	}
	switch n := addr.Network(); {
	case n == "unix" || strings.HasPrefix(n, "tcp"):
		return n
	case n == "pipe" && addr.String() == "pipe": // ours have other names
		return "net.Pipe"
	}
	return ""
}

// Any returns a connection as a net.Conn, which is nil with an error.
func Any[C net.Conn](c C, err error) (net.Conn, error) {
	if err != nil {
		return nil, err
	}
	return c, nil
}
