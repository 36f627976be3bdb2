package datagram

import (
	"errors"
	"net"
	"sync/atomic"
	"syscall"
	"time"

	"volley/internal/deadline"
	"volley/internal/wire"
)

// A Moving is a Conn whose way to the peer can change while the layers above stay. It
// stands in front of another Conn, and Move puts that of another Moving in its place.
type Moving struct {
	path    atomic.Pointer[path]
	handler Handler // set by Attach, before the Conn in front of which it stands is read
	failed  func()  // set before; nil: nobody cares
}

var (
	_ Conn         = (*Moving)(nil)
	_ InlineReader = (*Moving)(nil)
)

// A Mover is a Handler that learns of moves.
type Mover interface {
	// HandleMove says that the Conn below reaches its peer by another way from now on:
	// what was measured of the former one means nothing any more, and what is under way
	// may be lost.
	HandleMove(now time.Time)
}

// A path is a Conn as the Handler of which it leads to a Moving.
type path struct {
	conn Conn
	of   atomic.Pointer[Moving]
}

var _ Handler = (*path)(nil)

// NewMoving returns a Moving in front of a Conn, which it takes over.
func NewMoving(c Conn) *Moving {
	m := new(Moving)
	p := &path{conn: c}
	p.of.Store(m)
	m.path.Store(p)
	return m
}

// OnFailure sets, before Attach, what is called when the system says, as datagrams are written,
// that no way leads to the peer: the network or the address that they left by is gone.
func (m *Moving) OnFailure(f func()) { m.failed = f }

func leadsNowhere(err error) bool {
	for _, errno := range []syscall.Errno{syscall.ENETUNREACH, syscall.EHOSTUNREACH, syscall.ENETDOWN, syscall.EADDRNOTAVAIL} {
		if errors.Is(err, errno) {
			return true
		}
	}
	return false
}

// Move puts the Conn of another Moving in the place of its own, which it returns for the
// caller to close. The Handler of other is not called any more, and other must not be used.
// Calls of a Handler that are under way may still finish.
func (m *Moving) Move(other *Moving) (former Conn) {
	p := other.path.Load()
	before := m.path.Swap(p)
	p.of.Store(m)
	return before.conn
}

func (m *Moving) below() Conn { return m.path.Load().conn }

// aboveAll returns what a Handler stands for: the one above a Moving, nil if that has moved.
func aboveAll(h Handler) Handler {
	if p, ok := h.(*path); ok {
		return p.handler()
	}
	return h
}

// handler returns the Handler above, nil if the Moving goes another way now.
func (p *path) handler() Handler {
	if m := p.of.Load(); m.path.Load() == p {
		return m.handler
	}
	return nil
}

func (p *path) HandleBatch(now time.Time, bufs [][]byte, out *wire.Batch) {
	if h := p.handler(); h != nil {
		h.HandleBatch(now, bufs, out)
	}
}

func (p *path) HandleTick(now time.Time, out *wire.Batch) (next time.Time) {
	if h := p.handler(); h != nil {
		return h.HandleTick(now, out)
	}
	return time.Time{}
}

func (p *path) HandleClose(err error) {
	if h := p.handler(); h != nil {
		h.HandleClose(err)
	}
}

func (p *path) WaitRoom(n int, cancel <-chan struct{}) error {
	if h := p.handler(); h != nil {
		return h.WaitRoom(n, cancel)
	}
	return net.ErrClosed
}

// Attach implements Conn.
func (m *Moving) Attach(h Handler) error {
	m.handler = h
	p := m.path.Load()
	return p.conn.Attach(p)
}

// ReadInline implements InlineReader.
func (m *Moving) ReadInline(d *deadline.Deadline, r Readers) bool {
	inline := m.below().Features().Inline
	return inline != nil && inline.ReadInline(d, r)
}

// InterruptInline implements InlineReader.
func (m *Moving) InterruptInline(r Readers) {
	if inline := m.below().Features().Inline; inline != nil {
		inline.InterruptInline(r)
	}
}

// Features are those of the way at this time. Only Inline may be kept for longer.
func (m *Moving) Features() Features {
	f := m.below().Features()
	if f.Inline != nil {
		f.Inline = m
	}
	return f
}

func (m *Moving) MaxDatagram() int { return m.below().MaxDatagram() }

// WriteBatch implements Conn.
func (m *Moving) WriteBatch(b *wire.Batch) error {
	_, err := m.WriteBatchBy(b, nil)
	return err
}

// WriteBatchBy implements Conn. Datagrams that a move loses are done with.
func (m *Moving) WriteBatchBy(b *wire.Batch, d *deadline.Deadline) (int, error) {
	p := m.path.Load()
	n, err := p.conn.WriteBatchBy(b, d)
	switch {
	case err == nil:
	case m.path.Load() != p:
		return b.Len(), nil
	case m.failed != nil && leadsNowhere(err):
		m.failed()
	}
	return n, err
}

// WaitWritable implements Conn.
func (m *Moving) WaitWritable(n int, cancel <-chan struct{}) error {
	return m.below().WaitWritable(n, cancel)
}

func (m *Moving) Schedule(at time.Time) { m.below().Schedule(at) }
func (m *Moving) LocalAddr() net.Addr   { return m.below().LocalAddr() }
func (m *Moving) RemoteAddr() net.Addr  { return m.below().RemoteAddr() }
func (m *Moving) Stats() Stats          { return m.below().Stats() }
func (m *Moving) Close() error          { return m.below().Close() }
