package datagram

import (
	"errors"
	"net"
	"sync/atomic"
	"syscall"
	"time"

	"volley/internal/deadline"
	"volley/internal/socket"
	"volley/internal/wire"
)

// A Single is a Conn with a connected socket of its own.
type Single struct {
	remote net.Addr
	timers timers
	alarm  alarm

	handler                 Handler // set by Attach, before the reader starts
	maxDatagram             int32
	readErrors, writeErrors atomic.Uint64
	refused                 atomic.Uint64
	trouble                 atomic.Pointer[trouble] // since the other side was heard; nil: none
	onRefusal               func()                  // set before Attach

	turns turns

	// These belong to who reads.
	one [1][]byte
	out wire.Batch // empty
}

var (
	_ Conn       = (*Single)(nil)
	_ turnsOwner = (*Single)(nil)
)

// MaxUDP is the largest payload in bytes of a UDP datagram over IPv4.
const MaxUDP = 65507

// NewSingle returns a Conn on a connected socket, which it takes over.
func NewSingle(sock socket.Socket, remote net.Addr, maxDatagram int) *Single {
	c := &Single{remote: remote, maxDatagram: int32(maxDatagram)}
	c.alarm.of = c
	c.turns.init(c, sock, &c.timers, c.handle)
	c.turns.sleeps = sock.Features().Notifier != nil
	return c
}

// Attach starts the reader. Datagrams that came before wait in the socket's buffer.
func (c *Single) Attach(h Handler) error {
	if c.handler != nil {
		return errors.New("datagram: a Handler is attached already")
	}
	if c.turns.closed.Load() {
		return net.ErrClosed
	}
	c.handler = h
	c.turns.start()
	return nil
}

// ReadInline implements InlineReader.
func (c *Single) ReadInline(d *deadline.Deadline, r Readers) bool {
	return c.turns.readInline(d, anyone, r)
}

// InterruptInline implements InlineReader.
func (c *Single) InterruptInline(r Readers) { c.turns.interrupt(r) }

func (c *Single) handleBroken(err error) { c.handler.HandleClose(err) }

func (c *Single) handleError(err error) {
	c.readErrors.Add(1)
	c.noteError(err)
}

func (c *Single) handle(ps []socket.Packet) {
	if len(ps) == 0 {
		return
	}
	now := c.turns.received()
	c.handlePackets(now, ps)
	c.turns.handled(now)
}

func (c *Single) handlePackets(now time.Time, ps []socket.Packet) {
	if c.trouble.Load() != nil {
		c.trouble.Store(nil)
	}
	if len(ps) == 1 && ps[0].Datagrams() == 1 { // as where messages come one by one
		c.one[0] = ps[0].Buf
		c.hand(now, c.one[:])
		c.one[0] = nil
		return
	}
	l := bufLists.Get().(*bufList)
	defer l.put()
	for i := range ps {
		l.add(&ps[i])
	}
	c.hand(now, l.bufs)
}

// maxKeptAnswers limits the memory that a Single keeps for its handler's answers.
const maxKeptAnswers = 4 << 10

// hand gives datagrams to the handler and sends its answers.
func (c *Single) hand(now time.Time, bufs [][]byte) {
	c.handler.HandleBatch(now, bufs, &c.out)
	if c.out.Len() > 0 {
		c.WriteBatch(&c.out)
		if c.out.Reset(); c.out.Cap() > maxKeptAnswers {
			c.out = wire.Batch{}
		}
	}
}

func (c *Single) tick(now time.Time) time.Time {
	if c.turns.closed.Load() {
		return time.Time{}
	}
	out := GetBatch()
	defer PutBatch(out)
	next := c.handler.HandleTick(now, out)
	if out.Len() > 0 {
		c.WriteBatch(out)
	}
	return next
}

func (c *Single) WriteBatch(b *wire.Batch) error {
	err := sendBatch(&c.turns, route{}, b, &c.writeErrors)
	if err != nil {
		c.noteError(err)
	}
	return err
}

// WriteBatchBy implements Conn.
func (c *Single) WriteBatchBy(b *wire.Batch, d *deadline.Deadline) (int, error) {
	n, err := sendBatchBy(&c.turns, route{}, b, &c.writeErrors, d)
	if err != nil {
		c.noteError(err)
	}
	return n, err
}

// A trouble is what the socket has told since the other side was heard.
type trouble struct {
	last    error
	refused bool
}

// noteError remembers errors from the network, and counts those that say nobody listens.
func (c *Single) noteError(err error) {
	if _, ok := errors.AsType[syscall.Errno](err); !ok {
		return // a deadline, or that the socket was closed
	}
	refused := socket.IsRefused(err)
	if refused {
		c.refused.Add(1)
	}
	for {
		old := c.trouble.Load()
		known := old != nil && old.refused
		if !c.trouble.CompareAndSwap(old, &trouble{err, known || refused}) {
			continue
		}
		if refused && !known && c.onRefusal != nil {
			c.onRefusal()
		}
		return
	}
}

// LastError implements ErrorTeller.
func (c *Single) LastError() error {
	if t := c.trouble.Load(); t != nil {
		return t.last
	}
	return nil
}

// OnRefusal implements ErrorTeller.
func (c *Single) OnRefusal(f func()) { c.onRefusal = f }

// Refused implements RefusalCounter.
func (c *Single) Refused() uint64 { return c.refused.Load() }

func (c *Single) Schedule(at time.Time) { c.timers.schedule(&c.alarm, at) }

// Close closes the socket. Every call returns the result of the first.
func (c *Single) Close() error {
	c.turns.closed.Store(true)
	c.timers.stop()
	return c.turns.sock.Close()
}

func (c *Single) WaitWritable(int, <-chan struct{}) error { return nil }
func (c *Single) MaxDatagram() int                        { return int(c.maxDatagram) }
func (c *Single) LocalAddr() net.Addr                     { return c.turns.sock.LocalAddr() }
func (c *Single) RemoteAddr() net.Addr                    { return c.remote }

// Stats returns what happened below the connection.
func (c *Single) Stats() Stats {
	return Stats{
		ReadErrors:  c.readErrors.Load(),
		WriteErrors: c.writeErrors.Load(),
		Socket:      c.turns.sock.Stats(),
	}
}

// Linger implements Lingerer.
func (c *Single) Linger() { c.turns.linger() }

// Features implements Conn.
func (c *Single) Features() Features {
	below := c.turns.sock.Features()
	f := Features{Inline: c, Linger: c, Refusals: c, Errors: c, System: below.System}
	if below.Peek != nil {
		f.Unread = c
	}
	return f
}

// Unread implements UnreadTeller.
func (c *Single) Unread() bool { return c.turns.unread() }
