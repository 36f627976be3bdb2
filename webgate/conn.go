package webgate

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"sync"
	"time"
)

// A Conn is the session of a browser: a net.Conn on which each Write and Read is one
// datagram. Programs use the [volley.Conn] on it, whose NetConn returns this one:
//
//	player := c.NetConn().(*webgate.Conn).Identity()
type Conn struct {
	gate          *Gate
	link          link
	identity      any
	local, remote net.Addr
	reading       deadline

	mu      sync.Mutex
	queue   [][]byte // to be sent
	queued  int      // bytes of it
	free    [][]byte // buffers for it
	sending bool     // a goroutine sends
	closed  bool
	broken  error // of a send
	idle    sync.Cond
}

const (
	// maxQueued is how many bytes may wait for a client: a message of 64 KiB and others.
	// Each datagram counts overhead bytes more, so that there are not too many.
	maxQueued = 128 << 10
	overhead  = 64
	// maxFree is how many buffers are kept for later datagrams.
	maxFree = 4
	// flushTime is how long the queue is sent after Close, and partTime how long the
	// client then has to end the session, so that it reads all that was sent.
	flushTime = 100 * time.Millisecond
	partTime  = 400 * time.Millisecond
)

func newConn(g *Gate, l link) *Conn {
	c := &Conn{gate: g, link: l}
	c.local, c.remote = l.addrs()
	c.idle.L = &c.mu
	c.reading.set(time.Time{})
	return c
}

// Identity returns what [Config].Authorize has returned for the request; nil without.
func (c *Conn) Identity() any { return c.identity }

// LocalAddr returns the server's address. Its network is that of RemoteAddr.
func (c *Conn) LocalAddr() net.Addr { return c.local }

// RemoteAddr returns the client's address. Its network is "webtransport" or "websocket".
func (c *Conn) RemoteAddr() net.Addr { return c.remote }

// Read waits for a datagram and copies it to b. A datagram longer than b is cut, and the
// error is io.ErrShortBuffer. After the client has ended the session it is io.EOF, after
// Close one that matches net.ErrClosed.
func (c *Conn) Read(b []byte) (int, error) {
	m, err := c.link.receive(c.reading.context())
	switch {
	case err == nil && len(m) > len(b):
		return copy(b, m), io.ErrShortBuffer
	case err == nil:
		return copy(b, m), nil
	case c.isClosed():
		err = net.ErrClosed
	case errors.Is(err, io.EOF):
		return 0, io.EOF
	case errors.Is(err, context.Canceled):
		err = os.ErrDeadlineExceeded
	}
	return 0, c.opError("read", err)
}

func (c *Conn) isClosed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closed
}

// Write sends b as one datagram. It does not wait: where the client is slow the oldest
// datagrams that wait are dropped, and counted in [Stats].
func (c *Conn) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed:
		return 0, c.opError("write", net.ErrClosed)
	case c.broken != nil:
		return 0, c.opError("write", c.broken)
	}
	for c.queued+len(b)+overhead > maxQueued && len(c.queue) > 0 {
		c.release(c.next())
		c.gate.counts.dropped.Add(1)
	}
	var buf []byte
	if n := len(c.free); n > 0 {
		buf, c.free = c.free[n-1], c.free[:n-1]
	}
	c.queue = append(c.queue, append(buf[:0], b...))
	c.queued += len(b) + overhead
	if !c.sending {
		c.sending = true
		go c.send()
	}
	return len(b), nil
}

// NeverWaits is a promise about Write, by which volley calls it without a queue of its
// own.
func (c *Conn) NeverWaits() {}

// next takes the oldest datagram out of the queue.
func (c *Conn) next() []byte {
	b := c.queue[0]
	c.queue = slices.Delete(c.queue, 0, 1)
	c.queued -= len(b) + overhead
	return b
}

// release keeps a buffer for a later Write.
func (c *Conn) release(b []byte) {
	if len(c.free) < maxFree {
		c.free = append(c.free, b)
	}
}

// send sends the queue until it is empty.
func (c *Conn) send() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.queue) > 0 && c.broken == nil {
		b := c.next()
		c.mu.Unlock()
		err := c.link.send(b)
		c.mu.Lock()
		c.release(b)
		if tooLarge(err) {
			c.gate.counts.dropped.Add(1)
		} else if err != nil {
			c.broken = err
		}
	}
	c.queue, c.queued, c.sending = c.queue[:0], 0, false
	c.idle.Broadcast()
}

// Close ends the session. It returns at once. Datagrams that wait are sent for up to 100 ms.
func (c *Conn) Close() error {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return c.opError("close", net.ErrClosed)
	}
	c.closed = true
	c.mu.Unlock()
	c.reading.set(longAgo)
	go c.part()
	return nil
}

// part lets the client read what was sent, and ends the session.
func (c *Conn) part() {
	defer c.gate.leave()
	late := time.AfterFunc(flushTime, c.giveUp)
	c.mu.Lock()
	for c.sending {
		c.idle.Wait()
	}
	c.mu.Unlock()
	late.Stop()
	wait := time.NewTimer(partTime)
	defer wait.Stop()
	select {
	case <-c.link.gone():
	case <-wait.C:
	}
	c.link.close()
}

// giveUp ends a session whose client takes nothing.
func (c *Conn) giveUp() {
	c.mu.Lock()
	c.broken = net.ErrClosed
	c.mu.Unlock()
	c.link.close()
}

// SetDeadline is SetReadDeadline.
func (c *Conn) SetDeadline(t time.Time) error { return c.SetReadDeadline(t) }

// SetReadDeadline sets the deadline of Read.
func (c *Conn) SetReadDeadline(t time.Time) error {
	if c.isClosed() {
		return c.opError("set", net.ErrClosed)
	}
	c.reading.set(t)
	return nil
}

// SetWriteDeadline does nothing, because Write does not wait.
func (c *Conn) SetWriteDeadline(time.Time) error { return nil }

func (c *Conn) opError(op string, err error) error {
	return &net.OpError{Op: op, Net: c.remote.Network(), Source: c.local, Addr: c.remote, Err: err}
}

// A deadline ends a context at a time that can be changed.
type deadline struct {
	mu     sync.Mutex
	ctx    context.Context
	cancel context.CancelFunc
	timer  *time.Timer
}

var longAgo = time.Unix(1, 0)

func (d *deadline) set(t time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	went := d.timer != nil && !d.timer.Stop() // and ends the context, perhaps later
	d.timer = nil
	if went || d.ctx == nil || d.ctx.Err() != nil {
		d.ctx, d.cancel = context.WithCancel(context.Background())
	}
	if t.IsZero() {
		return
	}
	if in := time.Until(t); in > 0 {
		d.timer = time.AfterFunc(in, d.cancel)
	} else {
		d.cancel()
	}
}

func (d *deadline) context() context.Context {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.ctx
}
