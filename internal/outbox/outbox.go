// Package outbox orders what leaves a connection: messages that are written,
// and what receiving and timers have to say. One goroutine transmits at a time,
// what is framed meanwhile joins a queue, and everything leaves in the order in
// which it was framed.
//
// A Write that finds nobody transmitting sends in the caller, straight out, so
// that no message waits for what the caller computes next. In a flood of
// Writes, and while another goroutine transmits, messages join the queue, which
// leaves as few large segmented sends.
package outbox

import (
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"volley/internal/datagram"
	"volley/internal/deadline"
	"volley/internal/wire"
)

const (
	maxDatagrams = 128                    // in the queue, before a Write sends it first
	maxBytes     = 58 << 10               // the same in bytes
	maxAge       = 50 * time.Microsecond  // the longest a flood keeps a message
	linger       = 100 * time.Millisecond // how long Drain waits for what is under way
)

const (
	// answerRoom is how many datagrams a lossless link may have waiting before
	// the other side's writer waits.
	answerRoom = 64
	// maxAnswers is how many datagrams there may be at all when receiving or a
	// timer adds one. Packets that only acknowledge, one for 16 others, then
	// speak of twice the largest window.
	maxAnswers = maxDatagrams + 2048
)

// An Outbox is the sending side of a connection, guarded by the lock of its
// connection. Methods are called with that lock held, unless they say otherwise, and
// those named Unlocking let go of it for a while, so that afterwards the
// connection may have ended.
//
// One goroutine at a time transmits. It finds busy not set, and sets it; it lets
// go of the lock for each system call; and it clears busy when nothing is pending
// any more. Others who frame meanwhile add to what is pending, which it sends. If
// something is pending while busy is not set, the goroutine that framed it is about
// to transmit, or another one has been started for that.
type Outbox struct {
	// Below is the connection below, constant after Init.
	Below datagram.Conn

	mu    *sync.Mutex // of the connection; constant after Init
	owner Owner       // constant after Init
	run   func()      // flush; nil before it is needed, and made once, so that starting it costs no allocation

	deadline deadline.Deadline // of Writes
	err      error             // why nothing can be written any more
	failure  *error            // of what was sent on behalf of others, until a Write is told

	busy       bool
	taken      bool        // Writes are done with messages that have not left yet
	endedBelow bool        // ended other than by Close, which has not been called since
	refills    bool        // owner is a Refiller; constant after Init
	clogged    atomic.Bool // pending is longer than answerRoom; read without the lock
	waiters    int32
	flood      Flood
	extra      *extra        // nil until it is needed
	pending    *wire.Batch   // framed and waiting to leave; nil when there is nothing
	oldest     time.Duration // when the first of pending came
	looked     time.Duration // when a Write looked at the clock last
}

// An extra has the fields that an Outbox needs only once somebody has to wait, or in a flood.
type extra struct {
	free   chan struct{}     // one token: busy or pending has changed; nil before somebody waits
	turn   chan struct{}     // a token for the Write that may wait for room; nil where none has to
	giveUp deadline.Deadline // of the end: how long what was taken may still take
}

// An Owner is the connection that an Outbox sends for.
type Owner interface {
	// Arrange may change the order of a batch of several messages that is about
	// to leave. It returns the batch or another one in its place, and is called
	// without the lock.
	Arrange(*wire.Batch) *wire.Batch
}

// A Refiller is an Owner that frames most of what it sends as late as possible:
// not when a message is written, but when it may leave.
type Refiller interface {
	// Refill frames into Batch what may leave now. It is called with the lock
	// held, by who transmits, whenever nothing is pending any more, until it
	// frames nothing.
	Refill()
}

// Init prepares an Outbox, guarded by mu, which keeps the order. If waits, Writes ask for room.
func (o *Outbox) Init(mu *sync.Mutex, below datagram.Conn, owner Owner, waits bool) {
	o.mu, o.Below, o.owner = mu, below, owner
	_, o.refills = owner.(Refiller)
	if waits {
		o.extra = &extra{turn: make(chan struct{}, 1)}
		o.extra.turn <- struct{}{}
	}
}

func (o *Outbox) rest() *extra {
	if o.extra == nil {
		o.extra = new(extra)
	}
	return o.extra
}

// Err returns what End was given last, nil before.
func (o *Outbox) Err() error { return o.err }

// End makes every Write fail with err; io.EOF becomes datagram.ErrPeerClosed.
func (o *Outbox) End(err error) {
	o.err = err
	o.deadline.Expire()
	o.notify()
}

// EndBelow is End without Close: what has been received may still be read.
func (o *Outbox) EndBelow(err error) {
	o.End(err)
	o.endedBelow = true
}

// EndedBelow reports whether EndBelow was called, and Closed was not.
func (o *Outbox) EndedBelow() bool { return o.endedBelow }

// Closed notes that Close was called: nothing is to be read any more.
func (o *Outbox) Closed() { o.endedBelow = false }

// SetDeadline sets the deadline of Writes; after End it does nothing.
func (o *Outbox) SetDeadline(t time.Time) {
	if o.err == nil {
		o.deadline.Set(t)
	}
}

// Deadline returns the deadline of Writes.
func (o *Outbox) Deadline() *deadline.Deadline { return &o.deadline }

// Check returns why nothing can be written: the end, an earlier error (once), or the deadline.
func (o *Outbox) Check() error { return o.checkBy(&o.deadline) }

func (o *Outbox) checkBy(d *deadline.Deadline) error {
	switch {
	case o.err == io.EOF:
		return datagram.ErrPeerClosed
	case o.err != nil:
		return o.err
	case o.failure != nil:
		return o.takeFailure()
	case d.Exceeded():
		return os.ErrDeadlineExceeded
	}
	return nil
}

func (o *Outbox) takeFailure() error {
	err := *o.failure
	o.failure = nil
	return err
}

// Busy reports whether somebody transmits.
func (o *Outbox) Busy() bool { return o.busy }

// Pending reports whether something waits to leave, which somebody is about to send.
func (o *Outbox) Pending() bool { return o.pending != nil }

// Waiting returns how long what is pending has waited, and whether somebody transmits.
func (o *Outbox) Waiting(now time.Duration) (pending time.Duration, busy bool) {
	if o.pending != nil {
		pending = max(0, now-o.oldest)
	}
	return pending, o.busy || o.mustWait() && len(o.extra.turn) == 0
}

// Full reports whether what is pending has to leave before a Write may add to it.
func (o *Outbox) Full() bool {
	return o.pending != nil && (o.pending.Len() >= maxDatagrams || o.pending.Size() >= maxBytes)
}

// Crowded reports whether so much is pending that receiving and timers may not add either.
func (o *Outbox) Crowded() bool { return o.pending != nil && o.pending.Len() >= maxAnswers }

// Batch returns what is pending, to frame into. SendFresh- or ReleaseUnlocking follows.
func (o *Outbox) Batch(now time.Duration) *wire.Batch {
	if o.pending == nil {
		o.pending = datagram.GetBatch()
		o.oldest = now
	}
	return o.pending
}

// Take notes that a Write has framed into Batch. At the end, that is given time to leave.
func (o *Outbox) Take() { o.taken = true }

// Answered notes framing by receiving or a timer, for WaitUnclogged.
func (o *Outbox) Answered() {
	if o.pending != nil && o.pending.Len() > answerRoom {
		o.clogged.Store(true)
	}
}
