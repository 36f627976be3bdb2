package main

import (
	"context"
	"errors"
	"io"
	"net"
	"sync/atomic"

	"volley"
)

// A reader reads a connection to its end and checks each message.
type reader struct {
	book *book
	from side         // who writes
	slot atomic.Int64 // of the client; -1 until a message has told
	read uint64       // messages
	seen []*sight

	err  error         // what ended the connection
	done chan struct{} // closed at the end; before that all but slot are the reader's
}

func newReader(b *book, from side, slot int) *reader {
	r := &reader{book: b, from: from, done: make(chan struct{})}
	r.slot.Store(int64(slot))
	return r
}

// A sight is which of a flow's last messages a connection has read.
type sight struct {
	flow *flow
	bits []uint64
	top  uint64 // one more than the largest number
}

// maxRetries is how many errors in a row of Read are taken for passing ones.
const maxRetries = 1000

// run reads until the connection ends.
func (r *reader) run(c *volley.Conn) {
	defer close(r.done)
	buf := make([]byte, 0, 4<<10) // little, since it counts as memory in use; what is larger takes its own
	for retries := 0; ; {
		msg, err := c.ReadMessage(context.Background(), buf)
		if err == nil {
			retries = 0
			r.read++
			r.take(msg)
			continue
		}
		if retries++; errors.Is(err, net.ErrClosed) || errors.Is(err, io.EOF) || retries > maxRetries {
			r.err = err
			return
		}
		r.book.tally.passing.Add(1)
	}
}

// over reports whether the connection has ended.
func (r *reader) over() bool {
	select {
	case <-r.done:
		return true
	default:
		return false
	}
}

// take checks a message.
func (r *reader) take(msg []byte) {
	t := &r.book.tally
	t.read.Add(1)
	of, n, intact := parseMessage(msg)
	if !intact {
		t.fault(corrupt, "%d bytes at a reader of client %d", len(msg), r.slot.Load())
		return
	}
	if of.slot >= len(r.book.slots) || of.from != r.from {
		t.fault(foreign, "message %d of %v reached a reader of client %d that hears the %v", n, of, r.slot.Load(), r.from)
		return
	}
	if r.slot.Load() < 0 {
		r.slot.Store(int64(of.slot))
	}
	if int64(of.slot) != r.slot.Load() {
		t.fault(foreign, "message %d of %v reached a reader of client %d", n, of, r.slot.Load())
		return
	}
	s := r.sight(of)
	if s == nil {
		t.fault(unknown, "message %d of %v", n, of)
	} else if s.flow.take(n) {
		s.mark(n, t)
	}
}

// sight returns the one of a flow, or nil if that does not exist.
func (r *reader) sight(of name) *sight {
	for _, s := range r.seen {
		if s.flow.name == of {
			return s
		}
	}
	f := r.book.find(of)
	if f == nil {
		return nil
	}
	if len(r.seen) == maxSights {
		r.seen = append(r.seen[:0], r.seen[1:]...)
	}
	s := &sight{flow: f, bits: make([]uint64, r.book.window/64)}
	r.seen = append(r.seen, s)
	return s
}

// maxSights is how many connections of its peer a connection remembers: those
// that follow each other at one address.
const maxSights = 8

// mark notes that message n was read.
func (s *sight) mark(n uint64, t *tally) {
	window := uint64(len(s.bits)) * 64
	if n+window < s.top {
		t.fault(ancient, "message %d of %v, read behind %d", n, s.flow.name, s.top-1)
		return
	}
	if n >= s.top+window {
		clear(s.bits)
		s.top = n
	}
	for ; s.top <= n; s.top++ {
		s.bits[s.top%window/64] &^= 1 << (s.top % 64)
	}
	word, bit := &s.bits[n%window/64], uint64(1)<<(n%64)
	if *word&bit != 0 {
		t.fault(doubled, "message %d of %v", n, s.flow.name)
	}
	*word |= bit
}
