package volley

import (
	"fmt"
	"iter"
	"slices"
	"sync"
	"syscall"
	"time"

	"volley/internal/datagram"
	"volley/internal/outbox"
	"volley/internal/wire"
)

// A WriteAllError says on which connections WriteAll or WriteEach has failed. The
// others got their messages. It unwraps to all of the errors.
type WriteAllError struct {
	Failed map[*Conn]error // as of [Conn.Write], the first of each connection; never empty
	Of     int             // how many messages there were

	errs []error // in order
}

func (e *WriteAllError) Error() string {
	if e.Of == 1 {
		return e.errs[0].Error()
	}
	return fmt.Sprintf("volley: %d of %d messages not written, the first: %v", len(e.errs), e.Of, e.errs[0])
}

// Unwrap returns the errors.
func (e *WriteAllError) Unwrap() []error { return e.errs }

// WriteAll sends msg as a message on each of conns, as [Conn.Write] does, but in
// one pass over the sockets that they share. On Linux that takes one system call for
// 64 messages. Connections of a [Listener] gain by it, also over sessions of package
// netcode. Others, such as dialed ones, are written to one by one after the pass. A
// nil error says that all have been written to. Else it is a *[WriteAllError], and
// only the connections that it names got nothing.
//
// The order on each connection is that of the calls, whether of Write or WriteAll. If
// another call is transmitting on a connection, the message queues behind it. Where
// Write would wait, WriteAll waits at its end, when all others are served, for each
// connection until its write deadline. An empty message is not sent.
//
// WriteAll runs the iterator to its end before it sends anything; [Listener.Conns]
// is one, and slices.Values and maps.Keys make others. A yield function that is
// called after its iterator has returned panics. Without an error, WriteAll
// allocates one small object a call, beside what conns allocates. Several
// goroutines may call it at once.
//
// For receipts, call [Conn.WriteMessage] on each connection instead.
func WriteAll(msg []byte, conns iter.Seq[*Conn]) error {
	p := newPass()
	defer p.free()
	p.msg = msg
	p.listConns(conns)
	return p.run()
}

// WriteEach is [WriteAll] with a message of its own for each connection. The
// bytes of a message are copied before the iterator is resumed, which may use
// them again. A connection that occurs several times gets its messages in that
// order.
func WriteEach(msgs iter.Seq2[*Conn, []byte]) error {
	p := newPass()
	defer p.free()
	p.listMessages(msgs)
	return p.run()
}

// A pass is a call that writes to many connections.
type pass struct {
	gathering datagram.Gathering
	conns     []*Conn
	later     []int32 // indexes of those that are written to one by one
	full      []*Conn // those of them that could gather, had they room

	// A message for all, or where ends has elements, each its own.
	msg  []byte
	text []byte
	ends []int

	failed map[*Conn]error // the first error of each connection
	errs   []error         // all

	// The iterator's turn. Passes are used again, and an iterator may keep the
	// function that it was given: what it yields later must not get among the
	// messages of another call, from whichever goroutine it comes. So each turn
	// has a number and a function of its own, which knows the number. That costs
	// an object a call: nothing else tells an old function from a new one.
	mu   sync.Mutex
	turn uint64
}

// endTurn has the function of this turn panic from now on.
func (p *pass) endTurn() {
	p.mu.Lock()
	p.turn++
	p.mu.Unlock()
}

func (p *pass) checkTurnLocked(turn uint64) {
	if p.turn != turn {
		panic("volley: an iterator that was given to WriteAll or WriteEach has yielded after its end")
	}
}

// listConns runs an iterator to its end, and so has the connections.
func (p *pass) listConns(conns iter.Seq[*Conn]) {
	defer p.endTurn()
	turn := p.turn
	conns(func(c *Conn) bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.checkTurnLocked(turn)
		p.conns = append(p.conns, c)
		return true
	})
}

// listMessages runs an iterator to its end, and so has connections and messages.
func (p *pass) listMessages(msgs iter.Seq2[*Conn, []byte]) {
	defer p.endTurn()
	turn := p.turn
	msgs(func(c *Conn, msg []byte) bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.checkTurnLocked(turn)
		p.conns = append(p.conns, c)
		p.text = append(p.text, msg...)
		p.ends = append(p.ends, len(p.text))
		return true
	})
}

var passes = sync.Pool{New: func() any { return new(pass) }}

func newPass() *pass { return passes.Get().(*pass) }

// maxPooledText is how many bytes of messages are kept for reuse.
const maxPooledText = 1 << 20

func (p *pass) free() {
	if cap(p.text) > maxPooledText {
		return
	}
	clear(p.conns)
	clear(p.full)
	p.conns, p.later, p.full = p.conns[:0], p.later[:0], p.full[:0]
	p.msg, p.text, p.ends = nil, p.text[:0], p.ends[:0]
	p.failed, p.errs = nil, nil
	passes.Put(p)
}

func (p *pass) message(i int) []byte {
	if len(p.ends) == 0 {
		return p.msg
	}
	begin := 0
	if i > 0 {
		begin = p.ends[i-1]
	}
	return p.text[begin:p.ends[i]]
}

func (p *pass) run() error {
	p.write()
	if len(p.errs) == 0 {
		return nil
	}
	return &WriteAllError{Failed: p.failed, Of: len(p.conns), errs: p.errs}
}

func (p *pass) write() {
	for i, c := range p.conns {
		if c == nil {
			p.note(nil, syscall.EINVAL) // as of a nil connection of package net
		} else if !p.gather(i, c) {
			p.later = append(p.later, int32(i))
		}
	}
	if p.gathering.Flush() != nil {
		p.noteFailures(len(p.conns))
	}
	for _, i := range p.later {
		c := p.conns[i]
		_, err := c.write(p.message(int(i)), false)
		p.note(c, c.opError("write", err))
	}
}

// gather frames the message of connection i. False: the connection cannot gather at once.
func (p *pass) gather(i int, c *Conn) bool {
	gatherer := c.out.Below.Features().Gather
	if gatherer == nil || len(p.full) > 0 && slices.Contains(p.full, c) {
		return false
	}
	_, how, err := c.gather(&p.gathering, gatherer, p.gathering.Now(), p.message(i), false)
	if how == outbox.Blocked { // perhaps by ourselves
		if p.gathering.Flush() != nil {
			p.noteFailures(i)
		}
		_, how, err = c.gather(&p.gathering, gatherer, p.gathering.Now(), p.message(i), false)
	}
	if how == outbox.Blocked {
		p.full = append(p.full, c) // what comes next for it has to wait, too
		return false
	}
	p.note(c, c.opError("write", err))
	return true
}

// gather gathers a message, or adds it to the queue.
func (c *Conn) gather(g *datagram.Gathering, gatherer datagram.Gatherer, now time.Time, msg []byte, receipts bool) (id uint64, how outbox.Gathered, err error) {
	out := gatherer.Gather(g)
	c.mu.Lock()
	if receipts && len(msg) > 0 {
		c.armReceiptsLocked()
	}
	id, how, err = c.out.Gather((*framer)(c), now.Sub(c.born()), msg, out)
	c.mu.Unlock()
	if how == outbox.Framed {
		gatherer.Gathered(g, (*gathered)(c))
	}
	return id, how, err
}

func (p *pass) note(c *Conn, err error) {
	if err == nil {
		return
	}
	p.errs = append(p.errs, err)
	if p.failed == nil {
		p.failed = make(map[*Conn]error)
	}
	if p.failed[c] == nil {
		p.failed[c] = err
	}
}

// noteFailures notes on which of n connections a socket broke. Other errors are noted later.
func (p *pass) noteFailures(n int) {
	later := p.later
	for i, c := range p.conns[:n] {
		if len(later) > 0 && later[0] == int32(i) {
			later = later[1:]
			continue
		}
		if c == nil {
			continue
		}
		c.mu.Lock()
		err := c.out.TakeFailure()
		c.mu.Unlock()
		p.note(c, c.opError("write", err))
	}
}

// A gathered is a Conn of which a message has been gathered.
type gathered Conn

// Sent ends what outbox.Gather has begun.
func (s *gathered) Sent(unsent *wire.Batch, err error) {
	c := (*Conn)(s)
	c.mu.Lock()
	c.out.SentUnlocking(unsent, err, c.out.Deadline())
	c.mu.Unlock()
}
