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

// Init prepares a Side for messages of up to limit bytes together, for which
// reserve, if it is not nil, is asked. Where the connection below lets its users
// read the socket, they do.
func (s *Side) Init(below datagram.Conn, limit int, reserve func(delta int) bool) {
	s.In.Init(limit, reserve)
	if inline := below.Features().Inline; inline != nil {
		s.In.SetPoller(inline)
	}
}

// Read waits for a message and copies it to b. If b is too short, the rest is
// dropped and counted, and the error is io.ErrShortBuffer. An empty b reads
// nothing.
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

// ReadPart waits for a message and copies its next bytes to b; the others are read
// later. If the message is empty, n is 0. An empty b reads nothing.
func (s *Side) ReadPart(b []byte) (n int, err error) {
	if len(b) == 0 {
		return 0, nil
	}
	n, err = s.In.ReadPart(b, &s.deadline)
	return n, noticed(err)
}

// ReadMessage waits for a message and appends it to dst. The number is the
// message's if In is numbered, otherwise 0. If ctx ends first, the error is its
// cause.
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

// noticed returns what a Read is to tell that was woken by In.Notice: that nobody
// listens at the other side.
func noticed(err error) error {
	if err == inbox.ErrNotice {
		return os.NewSyscallError("read", syscall.ECONNREFUSED)
	}
	return err
}

// Truncated returns how many messages a Read had too short a buffer for.
func (s *Side) Truncated() uint64 { return s.truncated.Load() }

// SetDeadlineLocked sets the deadlines asked for. That is no error on a
// connection that has ended but may still have messages to read.
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

// EndLocked makes writes fail with err, because the connection has ended other
// than by Close. It returns false if it had ended before. Messages that have
// been received may still be read.
func (s *Side) EndLocked(out *outbox.Outbox, err error) bool {
	if out.Err() != nil {
		return false
	}
	out.EndBelow(err)
	return true
}

// CloseLocked makes writes fail with net.ErrClosed, because the user closes the
// connection. It returns false if it had ended before; then it is closed like any
// other from now on, and what ended it stays the error, but for io.EOF.
func (s *Side) CloseLocked(out *outbox.Outbox) bool {
	err := out.Err()
	if err == nil || err == io.EOF {
		out.End(net.ErrClosed)
	}
	out.Closed()
	return err == nil
}

// OpError wraps err, once, as functions of package net do; io.EOF and nil stay as
// they are.
func OpError(op string, local, remote net.Addr, err error) error {
	if err == nil || err == io.EOF {
		return err
	}
	var wrapped *net.OpError
	if errors.As(err, &wrapped) {
		return err
	}
	return &net.OpError{Op: op, Net: local.Network(), Source: local, Addr: remote, Err: err}
}

// LastError returns the last error of a connection's socket since the peer was
// heard, without package net's wrapping. It is nil if there was none, or none of
// this peer's alone.
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

// Silence returns why, which ends the wait for a peer that is silent, with the last
// error of the socket, if it has told of any.
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
