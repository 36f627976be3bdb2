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

// A Written says what became of one message of a call that writes to many
// connections.
type Written struct {
	Conn *Conn
	ID   uint64 // as of [Conn.WriteMessage]; 0 if Err is not nil
	Err  error  // as of [Conn.Write]
}

// A WriteAllError says which connections a call that writes to many has failed
// on. The others got theirs. It unwraps to all of the errors.
type WriteAllError struct {
	Failed []Written // never empty
	Of     int       // how many messages there were
}

func (e *WriteAllError) Error() string {
	if e.Of == 1 {
		return e.Failed[0].Err.Error()
	}
	return fmt.Sprintf("volley: %d of %d messages not written, the first: %v", len(e.Failed), e.Of, e.Failed[0].Err)
}

func (e *WriteAllError) Unwrap() []error {
	errs := make([]error, len(e.Failed))
	for i := range e.Failed {
		errs[i] = e.Failed[i].Err
	}
	return errs
}

// WriteAll sends msg as a message on each of conns, as [Conn.Write] does, but in
// one pass over the sockets that they share: 64 messages a system call, where
// the system has one for that (Linux), and a fraction of the work above it. That
// serves connections of a [Listener], also over sessions of package netcode;
// others, such as dialed ones, may be among them and are written to one by one
// when the pass is over. A nil error says that all have been written to. Else it
// is a *[WriteAllError], and only the connections that it names got nothing.
//
// The order on each connection is that of the calls, whatever mixture of Write
// and WriteAll. A connection on which another call is transmitting at the moment
// has the message queued behind that. Only at the end, with all others served,
// does WriteAll wait for connections on which Write would wait, each until its
// write deadline. An empty message is not sent.
//
// WriteAll runs the iterator to its end before it sends anything; [Listener.Conns]
// is one, and slices.Values and maps.Keys make others. A yield function that is
// called after its iterator has returned panics. Without an error, WriteAll
// allocates one small object a call, beside what conns allocates. It may be
// called by several goroutines at once.
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

// AppendWriteAll is [WriteAll], but turns receipts on, as [Conn.WriteMessage]
// does, and appends to dst, in the order of conns, what became of each message.
func AppendWriteAll(dst []Written, msg []byte, conns iter.Seq[*Conn]) []Written {
	p := newPass()
	defer p.free()
	p.msg = msg
	p.listConns(conns)
	return p.runReceipts(dst)
}

// AppendWriteEach is [WriteEach] as AppendWriteAll is WriteAll.
func AppendWriteEach(dst []Written, msgs iter.Seq2[*Conn, []byte]) []Written {
	p := newPass()
	defer p.free()
	p.listMessages(msgs)
	return p.runReceipts(dst)
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

	results  []Written // of all if receipts, else of those that failed
	first    int       // index of the result of the first of conns, if receipts
	receipts bool

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
	p.results, p.first, p.receipts = nil, 0, false
	passes.Put(p)
}

// message returns the message for connection i.
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

// run writes. The error is a *WriteAllError.
func (p *pass) run() error {
	p.write()
	if len(p.results) == 0 {
		return nil
	}
	return &WriteAllError{Failed: p.results, Of: len(p.conns)}
}

// runReceipts writes and appends a result for each message.
func (p *pass) runReceipts(dst []Written) []Written {
	p.receipts, p.first = true, len(dst)
	for _, c := range p.conns {
		dst = append(dst, Written{Conn: c})
	}
	p.results = dst
	p.write()
	return dst
}

func (p *pass) write() {
	for i, c := range p.conns {
		if c == nil {
			p.note(i, 0, syscall.EINVAL) // as of a nil connection of package net
		} else if !p.gather(i, c) {
			p.later = append(p.later, int32(i))
		}
	}
	if p.gathering.Flush() != nil {
		p.noteFailures(len(p.conns))
	}
	for _, i := range p.later {
		c := p.conns[i]
		id, err := c.write(p.message(int(i)), p.receipts)
		p.note(int(i), id, c.opError("write", err))
	}
}

// gather frames the message for connection i. It reports false for a connection
// that cannot gather, or never without waiting.
func (p *pass) gather(i int, c *Conn) bool {
	gatherer := c.out.Below.Features().Gather
	if gatherer == nil || len(p.full) > 0 && slices.Contains(p.full, c) {
		return false
	}
	id, how, err := p.frame(c, gatherer, p.message(i))
	if how == outbox.Blocked { // perhaps by ourselves
		if p.gathering.Flush() != nil {
			p.noteFailures(i)
		}
		id, how, err = p.frame(c, gatherer, p.message(i))
	}
	if how == outbox.Blocked {
		p.full = append(p.full, c) // what comes next for it has to wait, too
		return false
	}
	p.note(i, id, c.opError("write", err))
	return true
}

// frame gathers a message for c, or adds it to the queue there.
func (p *pass) frame(c *Conn, gatherer datagram.Gatherer, msg []byte) (id uint64, how outbox.Gathered, err error) {
	return c.gather(&p.gathering, gatherer, p.gathering.Now(), msg, p.receipts)
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

// note notes what became of the message for connection i.
func (p *pass) note(i int, id uint64, err error) {
	switch {
	case p.receipts && err != nil:
		p.results[p.first+i].Err = err
	case p.receipts:
		p.results[p.first+i].ID = id
	case err != nil:
		p.results = append(p.results, Written{Conn: p.conns[i], Err: err})
	}
}

// noteFailures notes on which of the first n connections a socket has broken. What
// else a connection has to tell is told where its message is tried.
func (p *pass) noteFailures(n int) {
	later := p.later
	for i, c := range p.conns[:n] {
		if len(later) > 0 && later[0] == int32(i) {
			later = later[1:]
			continue
		}
		if c == nil || p.receipts && p.results[p.first+i].Err != nil {
			continue
		}
		c.mu.Lock()
		err := c.out.TakeFailure()
		c.mu.Unlock()
		if err != nil {
			p.note(i, 0, c.opError("write", err))
			if p.receipts {
				p.results[p.first+i].ID = 0
			}
		}
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
