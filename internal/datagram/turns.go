package datagram

import (
	"errors"
	"math"
	"os"
	"slices"
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
// and keepalives go on: from the start, while there is more than one peer or
// more than one caller, and whenever no caller has come back for inlinePatience.
// Where the socket can tell of packets without being read, that goroutine is
// there only while some come.

// A turn says who reads a socket:
//
//	from      when                                              to
//	unstarted reading is started                                asleep, or behind
//	vacant    no caller has come for inlinePatience               if it cannot sleep
//	unstarted, vacant
//	          a caller of Read comes                            taken
//	vacant    callers may not read any more                     behind
//	asleep    a packet comes                                    behind
//	asleep    a caller of Read comes                            taken
//	taken     that caller has read once                         vacant
//	taken     ... and others wait, or it may not read any more  behind
//	taken     the socket broke                                  over
//	behind    a caller of Read comes, the only one there is     yielding
//	behind    no packet has come for sleepAfter                 asleep
//	behind    the socket broke                                  over
//	yielding  the goroutine stops, and the caller is still      vacant
//	          there, and the only one: it is woken
//	yielding  the goroutine stops, and there are others, or     behind
//	          callers may not read any more
//
//	any but over
//	          Mux.Poll is called the first time                 polled
//	all but asleep, polled and over
//	          the Conn lingers, and the socket cannot tell      over
//	          of packets: the goroutine stops
//
// The socket is read when it is taken, behind or yielding. A closed one makes no
// transitions.
type turn uint8

const (
	unstarted turn = iota // nobody has read yet
	vacant                // nobody reads; a caller may be about to come back
	asleep                // nobody reads, and the socket will tell of packets
	taken                 // a caller reads
	behind                // the goroutine reads
	yielding              // the goroutine reads, and has been asked to make place
	polled                // Poll reads
	over                  // nobody reads any more
)

// inlinePatience is how long nobody may read before the goroutine takes over.
const inlinePatience = 5 * time.Millisecond

// leastLook is how long a caller must have read to count: past a deadline, nothing comes.
const leastLook = time.Millisecond

// past as a deadline interrupts a read.
var past = time.Unix(1, 0)

// turnsOwner has a socket read: a Single or a Mux. mu is not held in its methods.
type turnsOwner interface {
	handleError(err error) // a passing one of a read
	handleBroken(err error)
}

// anyone is the Peer whose readers may always read: there is one Peer, or one kind of readers.
var anyone = new(Peer)

// turns sees to it that one goroutine at a time reads a socket.
type turns struct {
	owner  turnsOwner
	sock   socket.Socket
	late   socket.DeadlineWriter // sock; nil if its writers may have to wait for ever
	steps  socket.Stepper        // sock; nil if only the goroutine can read it
	timers *timers
	settle func() // what was handed over before has been dealt with; nil, or see MuxConfig.Settle
	closed atomic.Bool
	only   atomic.Pointer[Peer] // the Peer, if there is one and no other

	handle   func(ps []socket.Packet)
	handling atomic.Bool // handle runs

	// These belong to who reads.
	readsBehind bool // who reads is the goroutine
	backoff     backoff
	began       time.Duration // when the caller began to read, since timers.base; without a deadline: never
	seen        time.Duration // when packets came last, or somebody looked for them in vain, since timers.base

	// mu guards everything below.
	mu       sync.Mutex
	turn     turn
	sleeps   bool          // sock is a Notifier, so there need not be a goroutine
	watching bool          // watch is scheduled
	seat     *Peer         // whose readers they are who read, or want to; nil: nobody's
	readers  Readers       // and they
	others   *[]Readers    // of the same seat, which have asked before; nil: none ever
	deadline time.Duration // of the socket, since timers.base; or noDeadline
	left     time.Duration // when somebody last stopped, since timers.base
	watch    alarm
	gone     chan struct{} // closed when the goroutine has made place for Poll; nil: there is none
}

// init prepares turns. Handle calls received before its work, and handled after it.
func (t *turns) init(owner turnsOwner, sock socket.Socket, timers *timers, handle func([]socket.Packet)) {
	t.owner, t.sock, t.timers, t.handle = owner, sock, timers, handle
	features := sock.Features()
	t.late, t.steps = features.Late, features.Steps
	t.timers.base = time.Now()
	t.deadline = noDeadline
	t.watch.of, t.watch.reads = (*watcher)(t), true
}

// received notes that packets have come, and returns the time.
func (t *turns) received() time.Time {
	t.handling.Store(true)
	t.backoff.ok()
	t.seen = time.Since(t.timers.base)
	return t.timers.base.Add(t.seen)
}

// handled notes that they have been dealt with.
func (t *turns) handled(now time.Time) {
	t.handling.Store(false)
	if t.readsBehind {
		t.settled()
	}
	t.timers.poll(now)
}

func (t *turns) settled() {
	if t.settle != nil {
		t.settle()
	}
}

// mayRead reports whether the readers of a Peer may read the socket.
func (t *turns) mayRead(p *Peer) bool { return p == anyone || p != nil && p == t.only.Load() }

// unread reports whether something waits in the socket, or is being handled.
func (t *turns) unread() bool { return t.handling.Load() || t.sock.Features().Peek.Unread() }

// now is time.Now at half its cost, for differences: it does not follow the system's clock.
func (t *turns) now() time.Time { return t.timers.base.Add(time.Since(t.timers.base)) }

// noDeadline is what the zero time is as a time since timers.base.
const noDeadline = math.MinInt64

// since returns the deadline at as a time since timers.base.
func (t *turns) since(at time.Time) time.Duration {
	if at.IsZero() {
		return noDeadline
	}
	return at.Sub(t.timers.base)
}

// at undoes since.
func (t *turns) at(since time.Duration) time.Time {
	if since == noDeadline {
		return time.Time{}
	}
	return t.timers.base.Add(since)
}

// readInline is InlineReader.ReadInline for readers of s.
func (t *turns) readInline(d *deadline.Deadline, s *Peer, r Readers) bool {
	if t.steps == nil || !t.begin(d, s, r) {
		return false
	}
	var broken error
	defer func() { // even if a callback of the application panics
		t.end(broken)
		if broken != nil {
			t.owner.handleBroken(broken)
		}
	}()
	t.readsBehind = false
	t.settled()
	broken = t.readOnce(d)
	return true
}

// readOnce reads the socket once and returns the error if that broke.
func (t *turns) readOnce(d *deadline.Deadline) error {
	err := t.steps.ReadStep(t.handle)
	if err == nil {
		return nil
	}
	if t.closed.Load() {
		return nil
	}
	now := time.Since(t.timers.base)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		if now-t.began >= leastLook {
			t.seen = now
		}
		t.mu.Lock()
		t.deadline = t.since(past) // the next one has to be set, for the application may have set this one
		t.mu.Unlock()
		return nil
	}
	t.seen = now
	pause, passing := t.backoff.failed(err)
	if !passing {
		return err
	}
	t.owner.handleError(err)
	pauseUntil(d, min(pause, inlinePause))
	return nil
}

// begin makes the caller the one who reads, or has the goroutine make place.
func (t *turns) begin(d *deadline.Deadline, s *Peer, r Readers) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.turn == over || t.turn == polled || t.closed.Load() || !t.mayRead(s) {
		return false
	}
	if t.turn == taken {
		if r != t.readers {
			t.addOtherLocked(r)
		}
		return false
	}
	t.sitLocked(s, r)
	switch t.turn {
	case yielding:
		return false
	case behind:
		if t.callersLocked() == 1 {
			t.turn = yielding
			t.setDeadlineLocked(past)
		}
		return false
	case asleep:
		t.sock.Features().Notifier.WakeOnPacket(nil)
	}
	t.turn = taken
	at := d.At()
	t.began = math.MaxInt64
	if !at.IsZero() {
		t.began = time.Since(t.timers.base)
	}
	t.setDeadlineLocked(at)
	return true
}

// sitLocked makes r those who read, or want to.
func (t *turns) sitLocked(s *Peer, r Readers) {
	if t.readers == r {
		t.seat = s
		return
	}
	before := t.readers
	if t.seat != s {
		t.others, before = nil, nil
	}
	t.seat, t.readers = s, r
	if t.others != nil {
		*t.others = slices.DeleteFunc(*t.others, func(x Readers) bool { return x == r })
	}
	if before != nil {
		t.addOtherLocked(before)
	}
}

func (t *turns) addOtherLocked(r Readers) {
	if t.others == nil {
		t.others = new([]Readers)
	}
	if !slices.Contains(*t.others, r) {
		*t.others = append(*t.others, r)
	}
}

// callersLocked counts the callers of Read without a message, including the one that reads.
func (t *turns) callersLocked() int {
	n := 0
	if t.readers != nil {
		n = t.readers.Callers()
	}
	if t.others == nil {
		return n
	}
	*t.others = slices.DeleteFunc(*t.others, func(r Readers) bool {
		callers := r.Callers()
		n += callers
		return callers == 0
	})
	return n
}

// mayReadLocked reports whether those who read, or wanted to, still may.
func (t *turns) mayReadLocked() bool { return t.mayRead(t.seat) }

// forgetLocked forgets who wanted to read: they may be gone for good.
func (t *turns) forgetLocked() { t.seat, t.readers, t.others = nil, nil, nil }

// end lets the next one read.
func (t *turns) end(broken error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.left = t.seen
	switch {
	case broken != nil || t.turn == over:
		t.turn = over
	case t.closed.Load():
		t.turn = vacant
	case !t.mayReadLocked():
		t.forgetLocked()
		t.readBehindLocked()
	case t.callersLocked() > 1:
		t.readBehindLocked()
	default:
		t.turn = vacant
		t.watchLocked()
	}
}

// interrupt makes one of r who reads look at its deadline again.
func (t *turns) interrupt(r Readers) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.turn == taken && t.readers == r {
		t.setDeadlineLocked(past)
	}
}

// reconsider has the goroutine read at once if no caller of Read may any more.
func (t *turns) reconsider() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed.Load() || t.mayReadLocked() {
		return
	}
	switch t.turn {
	case vacant:
		t.readBehindLocked()
		t.forgetLocked()
	case taken:
		t.setDeadlineLocked(past)
	case asleep, behind, yielding:
		t.forgetLocked()
	}
}

func (t *turns) setDeadlineLocked(at time.Time) {
	if since := t.since(at); since != t.deadline {
		t.deadline = since
		t.steps.SetReadDeadline(at) // fails after Close only
	}
}
