package datagram

import (
	"errors"
	"os"
	"time"

	"volley/internal/deadline"
)

// A connected socket is best read by the goroutine that waits for its messages:
// no other one has to be woken first. So a Single on a socket that can be read
// in steps lets the callers of the application's Read do that, one at a time.
// A goroutine of its own reads while there is nobody, so that acknowledgements
// and keepalives go on: from the start, and whenever no caller has come back
// for inlinePatience.

// An InlineSocket is a Server that can be read by its users in turns.
type InlineSocket interface {
	Server
	// ServeOnce waits for packets until the read deadline and calls handle
	// once with what is there.
	ServeOnce(handle func(ps []Packet)) error
	// SetReadDeadline concerns Serve and ServeOnce, also one under way, which
	// then return os.ErrDeadlineExceeded.
	SetReadDeadline(time.Time) error
}

// inlinePatience is how long nobody may read before the goroutine takes over.
const inlinePatience = 5 * time.Millisecond

// inlinePause is the longest pause of a caller of Read after errors in a row.
const inlinePause = 10 * time.Millisecond

// past as a deadline interrupts a read.
var past = time.Unix(1, 0)

// inline is the part of a Single that is guarded by its mutex.
type inline struct {
	sock    InlineSocket // nil: only the goroutine reads
	readers Readers

	reader   reader
	handle   func(ps []Packet)
	behind   bool      // the goroutine reads
	yield    bool      // and was asked to stop
	reading  bool      // a caller reads
	deadline time.Time // of the socket
	left     time.Time // when a caller last stopped
	watching bool      // watch is scheduled
	watch    alarm
}

// Readers are the callers of the application's Read that are blocked until
// there are messages.
type Readers interface {
	Kick()         // makes one of them call ReadInline again
	Waiting() bool // whether there are any
}

// SetInline allows callers of Read to read the socket, if it can be done. It is
// called before Attach.
func (c *Single) SetInline(readers Readers) bool {
	sock, ok := c.sock.(InlineSocket)
	if !ok {
		return false
	}
	c.in.sock, c.in.readers = sock, readers
	c.in.handle = func(ps []Packet) {
		c.in.reader.ok()
		c.deliver(time.Now(), ps)
	}
	c.in.watch.tick = c.watchTick
	return true
}

// ReadInline reads the socket once for a Read that is about to block, until
// the deadline. It returns false if somebody else reads: then the caller has to
// wait.
func (c *Single) ReadInline(d *deadline.Deadline) bool {
	in := &c.in
	if in.sock == nil || !c.beginInline(d) {
		return false
	}
	err := in.sock.ServeOnce(in.handle)
	passing := err == nil || c.closed.Load() || errors.Is(err, os.ErrDeadlineExceeded)
	if !passing {
		var pause time.Duration
		if pause, passing = in.reader.failed(err); passing { // which belongs to who reads
			c.readErrors.Add(1)
			waitUntil(d, min(pause, inlinePause))
		}
	}
	c.endInline()
	if !passing {
		c.handler.HandleClose(err)
	}
	return true
}

// waitUntil waits for the given time, but not past the deadline.
func waitUntil(d *deadline.Deadline, pause time.Duration) {
	if pause == 0 {
		return
	}
	t := time.NewTimer(pause)
	defer t.Stop()
	passed := d.Arm()
	defer d.Disarm()
	select {
	case <-t.C:
	case <-passed:
	}
}

// beginInline makes the caller the reader, or has the goroutine make place.
func (c *Single) beginInline(d *deadline.Deadline) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	in := &c.in
	switch {
	case c.closed.Load() || in.reading:
		return false
	case in.behind:
		if !in.yield {
			in.yield = true
			c.setReadDeadlineLocked(past)
		}
		return false
	}
	in.reading = true
	c.setReadDeadlineLocked(d.At())
	return true
}

// endInline lets the next one read.
func (c *Single) endInline() {
	c.mu.Lock()
	defer c.mu.Unlock()
	in := &c.in
	in.reading = false
	in.left = time.Now()
	switch {
	case c.closed.Load():
	case in.readers.Waiting():
		c.readBehindLocked()
	default:
		c.watchLocked()
	}
}

// InterruptInline makes a caller who reads look at its deadline again.
func (c *Single) InterruptInline() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.in.reading {
		c.setReadDeadlineLocked(past)
	}
}

func (c *Single) setReadDeadlineLocked(t time.Time) {
	if !t.Equal(c.in.deadline) {
		c.in.deadline = t
		c.in.sock.SetReadDeadline(t) // fails after Close only
	}
}

// readBehindLocked starts the goroutine.
func (c *Single) readBehindLocked() {
	in := &c.in
	if in.behind || c.closed.Load() {
		return
	}
	in.behind, in.yield = true, false
	if in.sock != nil {
		c.setReadDeadlineLocked(time.Time{})
	}
	go c.read()
}

// yielded ends the goroutine if it was asked to make place.
func (c *Single) yielded() bool {
	c.mu.Lock()
	in := &c.in
	yield := in.yield && !c.closed.Load()
	if yield {
		in.behind, in.yield = false, false
		in.left = time.Now()
		c.watchLocked()
	}
	c.mu.Unlock()
	if yield {
		in.readers.Kick()
	}
	return yield
}

func (c *Single) watchLocked() {
	if !c.in.watching {
		c.in.watching = true
		c.timers.schedule(&c.in.watch, c.in.left.Add(inlinePatience))
	}
}

// watchTick starts the goroutine if nobody has read for a while. While a caller
// reads it stops watching: endInline starts again.
func (c *Single) watchTick(now time.Time) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	in := &c.in
	in.watching = false
	switch {
	case c.closed.Load() || in.reading || in.behind:
		return time.Time{}
	case now.Sub(in.left) < inlinePatience:
		in.watching = true
		return in.left.Add(inlinePatience)
	}
	c.readBehindLocked()
	return time.Time{}
}
