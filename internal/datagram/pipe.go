package datagram

import (
	"errors"
	"io"
	"net"
	"sync"
	"time"

	"volley/internal/deadline"
	"volley/internal/wire"
)

// A PipeConn is one end of a lossless, ordered link between two Conns in one
// process. A datagram is handled by the other side's Handler before WriteBatch
// returns.
type PipeConn struct {
	peer   *PipeConn
	addr   net.Addr
	timers timers
	alarm  alarm

	mu      sync.Mutex
	handler Handler
	early   wire.Batch // received before Attach
	closed  bool
	told    bool // of the other side's Close
}

var _ Conn = (*PipeConn)(nil)

// maxEarly limits what a pipe keeps for a Handler that is not there yet, in
// bytes.
const maxEarly = 64 << 10

// NewPipe returns the two ends of a pipe.
func NewPipe(a, b net.Addr) (*PipeConn, *PipeConn) {
	x, y := &PipeConn{addr: a}, &PipeConn{addr: b}
	x.peer, y.peer = y, x
	x.alarm.tick, y.alarm.tick = x.tick, y.tick
	return x, y
}

// Attach gives the layer above.
func (c *PipeConn) Attach(h Handler) error {
	c.mu.Lock()
	if c.handler != nil || c.closed {
		defer c.mu.Unlock()
		if c.closed {
			return net.ErrClosed
		}
		return errors.New("datagram: a Handler is attached already")
	}
	c.handler = h
	early := c.early
	c.early = wire.Batch{}
	c.mu.Unlock()
	if early.Len() > 0 {
		c.handle(h, &early)
	}
	if c.peer.isClosed() {
		c.tellEOF()
	}
	return nil
}

// receive takes a batch that the other side has written.
func (c *PipeConn) receive(b *wire.Batch) {
	c.mu.Lock()
	h := c.handler
	if h == nil && !c.closed {
		for i := 0; i < b.Len() && c.early.Size() < maxEarly; i++ {
			c.early.Append(b.At(i))
		}
	}
	closed := c.closed
	c.mu.Unlock()
	if h != nil && !closed {
		c.handle(h, b)
	}
}

func (c *PipeConn) handle(h Handler, b *wire.Batch) {
	l := bufLists.Get().(*bufList)
	defer l.put()
	for i := range b.Len() {
		l.bufs = append(l.bufs, b.At(i))
	}
	out := GetBatch()
	defer PutBatch(out)
	h.HandleBatch(time.Now(), l.bufs, out)
	c.WriteBatch(out)
}

func (c *PipeConn) tick(now time.Time) time.Time {
	c.mu.Lock()
	h, closed := c.handler, c.closed
	c.mu.Unlock()
	if h == nil || closed {
		return time.Time{}
	}
	out := GetBatch()
	defer PutBatch(out)
	next := h.HandleTick(now, out)
	c.WriteBatch(out)
	return next
}

// WaitWritable waits until the other side's Handler has room.
func (c *PipeConn) WaitWritable(n int, cancel <-chan struct{}) error {
	if c.isClosed() {
		return net.ErrClosed
	}
	p := c.peer
	p.mu.Lock()
	h, closed := p.handler, p.closed
	p.mu.Unlock()
	if closed {
		return ErrPeerClosed
	}
	if h == nil {
		return nil
	}
	err := h.WaitRoom(n, cancel)
	if errors.Is(err, net.ErrClosed) {
		return ErrPeerClosed
	}
	return err
}

// WriteBatch hands the batch over. After the other side has closed, the
// datagrams vanish.
func (c *PipeConn) WriteBatch(b *wire.Batch) error {
	if b.Len() == 0 {
		return nil
	}
	if c.isClosed() {
		return net.ErrClosed
	}
	c.peer.receive(b)
	return nil
}

// WriteBatchBy is WriteBatch, which does not wait.
func (c *PipeConn) WriteBatchBy(b *wire.Batch, _ *deadline.Deadline) (int, error) {
	return b.Len(), c.WriteBatch(b)
}

// Stats implements Conn: nothing happens below.
func (c *PipeConn) Stats() Stats { return Stats{} }

// Features implements Conn.
func (c *PipeConn) Features() Features { return Features{Lossless: true, Waits: true} }

func (c *PipeConn) isClosed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closed
}

// Close ends both ends; the other side's Handler learns it as io.EOF.
func (c *PipeConn) Close() error {
	c.mu.Lock()
	already := c.closed
	c.closed = true
	c.mu.Unlock()
	if already {
		return nil
	}
	c.timers.stop()
	c.peer.tellEOF()
	return nil
}

// tellEOF tells the Handler, once there is one and only once, that the other
// side has closed.
func (c *PipeConn) tellEOF() {
	c.mu.Lock()
	h := c.handler
	tell := h != nil && !c.closed && !c.told
	c.told = c.told || tell
	c.mu.Unlock()
	if tell {
		h.HandleClose(io.EOF)
	}
}

func (c *PipeConn) Schedule(at time.Time) { c.timers.schedule(&c.alarm, at) }
func (c *PipeConn) MaxDatagram() int      { return MaxUDP }
func (c *PipeConn) LocalAddr() net.Addr   { return c.addr }
func (c *PipeConn) RemoteAddr() net.Addr  { return c.peer.addr }
