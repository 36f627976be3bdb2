package datagram

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"volley/internal/deadline"
	"volley/internal/wire"
)

// A PipeConn is one end of a lossless, ordered link between two Conns in one
// process. The other side's Handler handles a datagram before WriteBatch returns,
// unless it is busy with an earlier one. Then the caller of that Handler hands on
// this one, too: no stack grows, however long two Handlers answer each other.
type PipeConn struct {
	peer   *PipeConn
	addr   net.Addr
	timers timers
	alarm  alarm

	mu      sync.Mutex
	handler Handler
	queue   *wire.Batch   // received before Attach, or while busy; nil: nothing
	busy    bool          // somebody is calling the Handler
	idle    chan struct{} // closed when busy ends; nil: nobody waits
	closed  bool
	told    bool // of the other side's Close
}

var _ Conn = (*PipeConn)(nil)

// maxEarly limits what is kept for a Handler that is not there yet, in bytes.
const maxEarly = 64 << 10

// NewPipe returns the two ends of a pipe.
func NewPipe(a, b net.Addr) (*PipeConn, *PipeConn) {
	x, y := &PipeConn{addr: a}, &PipeConn{addr: b}
	x.peer, y.peer = y, x
	x.alarm.of, y.alarm.of = x, y
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
	early := c.queue
	c.queue = nil
	c.busy = true
	c.mu.Unlock()
	c.deliver(h, early)
	return nil
}

func (c *PipeConn) receive(b *wire.Batch) {
	c.mu.Lock()
	h := c.handler
	switch {
	case c.closed:
	case h == nil || c.busy:
		c.keepLocked(b)
	default:
		c.busy = true
		c.mu.Unlock()
		c.deliver(h, b)
		return
	}
	c.mu.Unlock()
}

func (c *PipeConn) keepLocked(b *wire.Batch) {
	if c.queue == nil {
		c.queue = GetBatch()
	}
	for i := 0; i < b.Len() && (c.busy || c.queue.Size() < maxEarly); i++ {
		c.queue.Append(b.At(i))
	}
}

// deliver hands on a batch, nil for none, what comes meanwhile, and the end of the other side.
func (c *PipeConn) deliver(h Handler, b *wire.Batch) {
	done := false
	defer func() {
		if !done { // the Handler panics
			c.rest()
		}
	}()
	for own := false; !done; own = true {
		if b != nil {
			c.handle(h, b)
		}
		if own {
			PutBatch(b)
		}
		c.mu.Lock()
		b = c.queue
		c.queue = nil
		if done = b == nil || c.closed; done {
			c.restLocked()
		}
		c.mu.Unlock()
	}
	if c.peer.isClosed() {
		c.tellEOF()
	}
}

// rest ends busy.
func (c *PipeConn) rest() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.restLocked()
}

func (c *PipeConn) restLocked() {
	c.busy = false
	if c.idle != nil {
		close(c.idle)
		c.idle = nil
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

// WaitWritable waits until the other Handler has dealt with what was written, and has room.
func (c *PipeConn) WaitWritable(n int, cancel <-chan struct{}) error {
	if c.isClosed() {
		return net.ErrClosed
	}
	h, err := c.peer.waitIdle(cancel)
	if err != nil || h == nil {
		return err
	}
	err = h.WaitRoom(n, cancel)
	if errors.Is(err, net.ErrClosed) {
		return ErrPeerClosed
	}
	return err
}

// waitIdle waits until nobody calls the Handler, which it returns.
func (c *PipeConn) waitIdle(cancel <-chan struct{}) (Handler, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.busy && !c.closed {
		if c.idle == nil {
			c.idle = make(chan struct{})
		}
		idle := c.idle
		c.mu.Unlock()
		select {
		case <-idle:
			c.mu.Lock()
		case <-cancel:
			c.mu.Lock()
			return nil, os.ErrDeadlineExceeded
		}
	}
	if c.closed {
		return nil, ErrPeerClosed
	}
	return c.handler, nil
}

// WriteBatch hands the batch over. After the other side has closed, the datagrams vanish.
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
	c.closed, c.queue = true, nil
	c.mu.Unlock()
	if already {
		return nil
	}
	c.timers.stop()
	c.peer.tellEOF()
	return nil
}

// tellEOF tells the Handler once, behind all data, that the other side has closed.
func (c *PipeConn) tellEOF() {
	c.mu.Lock()
	h := c.handler
	tell := h != nil && !c.busy && !c.closed && !c.told
	c.told = c.told || tell
	c.mu.Unlock()
	if tell {
		h.HandleClose(io.EOF)
	}
}

// Schedule implements Conn.
func (c *PipeConn) Schedule(at time.Time) { c.timers.schedule(&c.alarm, at) }

// MaxDatagram implements Conn. It is that of UDP, though more would pass.
func (c *PipeConn) MaxDatagram() int { return MaxUDP }

// A PipeAddr is an address for an end.
type PipeAddr struct{ Net, Name string }

func (a PipeAddr) Network() string { return a.Net }
func (a PipeAddr) String() string  { return a.Name }

// LocalAddr returns this end's address, as NewPipe was given it.
func (c *PipeConn) LocalAddr() net.Addr { return c.addr }

// RemoteAddr returns the other end's address.
func (c *PipeConn) RemoteAddr() net.Addr { return c.peer.addr }
