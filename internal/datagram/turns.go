package datagram

import (
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"volley/internal/deadline"
	"volley/internal/socket"
)

// A socket with one peer is best read by the goroutine that waits for its
// messages: no other one has to be woken first. So where the socket can be read
// in steps, the callers of the application's Read do that, one at a time. A
// goroutine of its own reads while there is nobody, so that acknowledgements
// and keepalives go on: from the start, while there is more than one peer, and
// whenever no caller has come back for inlinePatience. Where the socket can
// tell of packets without being read, that goroutine is there only while some
// come.

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
	handlePackets(now time.Time, ps []socket.Packet)
	handleBroken(err error)
}

// turns sees to it that one goroutine at a time reads a socket. The methods of
// its owner are called with mu held, except for handlePackets and handleBroken.
type turns struct {
	owner  turnsOwner
	sock   socket.Socket
	inline socket.Stepper // sock; nil if only the goroutine can read it
	timers *timers
	errors *atomic.Uint64 // passing errors of reads
	passed func(error)    // is told of each; may be nil

	base   time.Time
	handle func(ps []socket.Packet)

	// These belong to who reads.
	reader reader
	seen   time.Duration // when packets came last, since base

	mu       sync.Mutex
	asleep   bool          // nobody reads, and wakes will tell of packets
	behind   bool          // the goroutine reads
	yield    bool          // and was asked to stop
	reading  bool          // a caller reads
	watching bool          // watch is scheduled
	wakes    bool          // constant: sock is a Notifier, so there need not be a goroutine
	peer     *Peer         // whose readers they are who read, or want to
	readers  Readers       // and they
	deadline time.Time     // of the socket
	left     time.Duration // when somebody last stopped, since base
	watch    alarm
}

func (t *turns) init(owner turnsOwner, sock socket.Socket, timers *timers, errors *atomic.Uint64) {
	t.owner, t.sock, t.timers, t.errors = owner, sock, timers, errors
	t.inline = sock.Features().Steps
	t.base = time.Now()
	t.handle = func(ps []socket.Packet) {
		t.reader.ok()
		t.seen = time.Since(t.base)
		t.owner.handlePackets(t.base.Add(t.seen), ps)
	}
	t.watch.tick, t.watch.reads = t.watchTick, true
}

// now is time.Now at half its cost. It does not follow when the system's clock
// is set, so only differences of such times count.
func (t *turns) now() time.Time { return t.base.Add(time.Since(t.base)) }

// readInline is InlineReader.ReadInline for the readers of p.
func (t *turns) readInline(d *deadline.Deadline, p *Peer, r Readers) bool {
	if t.inline == nil || !t.begin(d, p, r) {
		return false
	}
	var broken error
	defer func() { // even if a callback of the application panics
		if broken == nil {
			t.end()
			return
		}
		t.owner.handleBroken(broken) // and nobody reads any more
	}()
	broken = t.readOnce(d)
	return true
}

// readOnce reads the socket once and returns the error if that broke.
func (t *turns) readOnce(d *deadline.Deadline) error {
	err := t.inline.ReadStep(t.handle)
	if err == nil {
		return nil
	}
	t.seen = time.Since(t.base)
	if t.owner.isClosed() {
		return nil
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		t.mu.Lock()
		t.deadline = past // the next one has to be set, for the application may have set this one
		t.mu.Unlock()
		return nil
	}
	pause, passing := t.reader.failed(err)
	if !passing {
		return err
	}
	t.count(err)
	waitUntil(d, min(pause, inlinePause))
	return nil
}

// count counts a passing error.
func (t *turns) count(err error) {
	t.errors.Add(1)
	if t.passed != nil {
		t.passed(err)
	}
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
	if t.asleep {
		t.asleep = false
		t.sock.Features().Notifier.WakeOnPacket(nil)
	}
	if t.behind {
		if !t.yield && !r.Several() {
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
	case t.readers.Several() || !t.owner.mayRead(t.peer):
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
	case t.owner.isClosed() || t.owner.mayRead(t.peer):
	case t.behind:
		t.peer, t.readers = nil, nil // they may be gone for good
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
