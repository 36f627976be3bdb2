package datagram

import (
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"volley/internal/deadline"
)

// A socket with one peer is best read by the goroutine that waits for its
// messages: no other one has to be woken first. So where the socket can be read
// in steps, the callers of the application's Read do that, one at a time. A
// goroutine of its own reads while there is nobody, so that acknowledgements
// and keepalives go on: from the start, while there is more than one peer, and
// whenever no caller has come back for inlinePatience.

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

// An InlineConn is a Conn whose socket may be read by the callers of the
// application's Read.
type InlineConn interface {
	Conn
	// ReadInline reads the socket once for a Read that is about to block,
	// until the deadline. It returns false if the caller has to wait until it
	// is woken: somebody else reads.
	ReadInline(d *deadline.Deadline, r Readers) bool
	// InterruptInline makes one of r who reads look at the deadline again.
	InterruptInline(r Readers)
}

// Readers are the callers of one Conn's Read that are blocked until there are
// messages.
type Readers = interface {
	Kick()         // makes one of them call ReadInline again
	Waiting() bool // whether there are any
}

// inlinePatience is how long nobody may read before the goroutine takes over.
const inlinePatience = 5 * time.Millisecond

// inlinePause is the longest pause of a caller of Read after errors in a row.
const inlinePause = 10 * time.Millisecond

// past as a deadline interrupts a read.
var past = time.Unix(1, 0)

// turnsOwner is who has a socket read: a Single or a Mux.
type turnsOwner interface {
	isClosed() bool
	// mayRead reports whether the readers of a Peer may read the socket. A
	// Single asks for nil.
	mayRead(p *Peer) bool
	handlePackets(now time.Time, ps []Packet)
	handleBroken(err error)
}

// turns sees to it that one goroutine at a time reads a socket. The methods of
// its owner are called with mu held, except for handlePackets and handleBroken.
type turns struct {
	owner  turnsOwner
	sock   Socket
	inline InlineSocket // sock; nil if only the goroutine can read it
	timers *timers
	errors *atomic.Uint64 // passing errors of reads

	base   time.Time
	handle func(ps []Packet)

	// These belong to who reads.
	reader reader
	seen   time.Time // when packets came last

	mu       sync.Mutex
	behind   bool      // the goroutine reads
	yield    bool      // and was asked to stop
	reading  bool      // a caller reads
	peer     *Peer     // whose readers they are who read, or want to
	readers  Readers   // and they
	deadline time.Time // of the socket
	left     time.Time // when somebody last stopped
	watching bool      // watch is scheduled
	watch    alarm
}

func (t *turns) init(owner turnsOwner, sock Socket, timers *timers, errors *atomic.Uint64) {
	t.owner, t.sock, t.timers, t.errors = owner, sock, timers, errors
	t.inline, _ = sock.(InlineSocket)
	t.base = time.Now()
	t.handle = func(ps []Packet) {
		t.reader.ok()
		t.seen = t.now()
		t.owner.handlePackets(t.seen, ps)
	}
	t.watch.tick = t.watchTick
}

// now is time.Now at half its cost.
func (t *turns) now() time.Time { return t.base.Add(time.Since(t.base)) }

// start has the goroutine read.
func (t *turns) start() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.readBehindLocked()
}

// run is the goroutine that reads while no caller of the application's does.
func (t *turns) run() {
	for {
		err := serve(t.sock, t.handle)
		if t.owner.isClosed() || t.yielded() {
			return
		}
		if errors.Is(err, os.ErrDeadlineExceeded) && t.inline != nil {
			continue // of an interruption that came late
		}
		if !t.reader.again(err) {
			t.owner.handleBroken(err)
			return
		}
		t.errors.Add(1)
	}
}

// readInline is InlineConn.ReadInline for the readers of p.
func (t *turns) readInline(d *deadline.Deadline, p *Peer, r Readers) bool {
	if t.inline == nil || !t.begin(d, p, r) {
		return false
	}
	err := t.inline.ServeOnce(t.handle)
	if err != nil {
		t.seen = t.now()
	}
	passing := err == nil || t.owner.isClosed() || errors.Is(err, os.ErrDeadlineExceeded)
	if !passing {
		var pause time.Duration
		if pause, passing = t.reader.failed(err); passing {
			t.errors.Add(1)
			waitUntil(d, min(pause, inlinePause))
		}
	}
	t.end()
	if !passing {
		t.owner.handleBroken(err)
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

// begin makes the caller the one who reads, or has the goroutine make place.
func (t *turns) begin(d *deadline.Deadline, p *Peer, r Readers) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.reading || t.owner.isClosed() || !t.owner.mayRead(p) {
		return false
	}
	t.peer, t.readers = p, r
	if t.behind {
		if !t.yield {
			t.yield = true
			t.setDeadlineLocked(past)
		}
		return false
	}
	t.reading = true
	t.setDeadlineLocked(d.At())
	return true
}

// end lets the next one read.
func (t *turns) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.reading = false
	t.left = t.seen
	switch {
	case t.owner.isClosed():
	case t.readers.Waiting() || !t.owner.mayRead(t.peer):
		t.readBehindLocked()
	default:
		t.watchLocked()
	}
}

// interrupt makes one of r who reads look at its deadline again.
func (t *turns) interrupt(r Readers) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.reading && t.readers == r {
		t.setDeadlineLocked(past)
	}
}

// reconsider has the goroutine read at once if those who did, or were about
// to, may not any more.
func (t *turns) reconsider() {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.owner.isClosed() || t.behind || t.owner.mayRead(t.peer):
	case t.reading:
		t.setDeadlineLocked(past)
	default:
		t.readBehindLocked()
	}
}

func (t *turns) setDeadlineLocked(at time.Time) {
	if !at.Equal(t.deadline) {
		t.deadline = at
		t.inline.SetReadDeadline(at) // fails after Close only
	}
}

// readBehindLocked starts the goroutine.
func (t *turns) readBehindLocked() {
	if t.behind || t.owner.isClosed() {
		return
	}
	t.behind, t.yield = true, false
	t.peer, t.readers = nil, nil
	if t.inline != nil {
		t.setDeadlineLocked(time.Time{})
	}
	go t.run()
}

// yielded ends the goroutine if it was asked to make place, and there still is
// somebody to make place for.
func (t *turns) yielded() bool {
	t.mu.Lock()
	yield := t.yield && !t.owner.isClosed()
	readers := t.readers
	if yield {
		t.yield = false
		t.setDeadlineLocked(time.Time{})
		if yield = t.owner.mayRead(t.peer); yield {
			t.behind = false
			t.left = t.now()
			t.watchLocked()
		}
	}
	t.mu.Unlock()
	if yield {
		readers.Kick()
	}
	return yield
}

func (t *turns) watchLocked() {
	if !t.watching {
		t.watching = true
		t.timers.schedule(&t.watch, t.left.Add(inlinePatience))
	}
}

// watchTick starts the goroutine if nobody has read for a while. While a caller
// reads it stops watching: end starts again.
func (t *turns) watchTick(now time.Time) time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.watching = false
	switch {
	case t.owner.isClosed() || t.reading || t.behind:
		return time.Time{}
	case now.Sub(t.left) < inlinePatience:
		t.watching = true
		return t.left.Add(inlinePatience)
	}
	t.readBehindLocked()
	return time.Time{}
}
