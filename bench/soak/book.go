package main

import (
	"fmt"
	"slices"
	"sync"
	"time"
)

// remembered is how long a message is remembered at least: longer than any
// lives in the links and waits for its receipt.
const remembered = 30 * time.Second

// A book keeps what all connections write and read. What it holds does not grow:
// of each connection it remembers the same number of messages.
type book struct {
	tally  tally
	window uint64 // how many messages of a connection are remembered, a power of two
	start  time.Time
	slots  []*slot
}

func newBook(slots, rate int) *book {
	b := &book{window: 256, start: time.Now(), slots: make([]*slot, slots)}
	for b.window < uint64(remembered.Seconds())*uint64(rate) {
		b.window *= 2
	}
	for i := range b.slots {
		b.slots[i] = new(slot)
	}
	return b
}

func (b *book) now() time.Duration { return time.Since(b.start) }

// A slot is the place of one client, which has one connection after the other.
type slot struct {
	mu          sync.Mutex
	generations [2]uint32
	flows       [2][]*flow
	closings    [2][]closing
	chaos       time.Duration // when connections were last given a reason to end
}

// A closing is the end of a connection whose reader had not read all.
type closing struct {
	at   time.Duration
	left uint64 // messages dropped and not accounted for yet
}

// open begins the flow of a new connection.
func (b *book) open(slot int, from side) *flow {
	s := b.slots[slot]
	s.mu.Lock()
	defer s.mu.Unlock()
	s.generations[from]++
	f := newFlow(b, s, name{slot, from, s.generations[from]})
	s.flows[from] = append(s.flows[from], f)
	return f
}

// find returns a flow, or nil.
func (b *book) find(n name) *flow {
	s := b.slots[n.slot]
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.flows[n.from] {
		if f.generation == n.generation {
			return f
		}
	}
	return nil
}

// closed notes that n messages from a side were dropped unread by a Close now.
func (s *slot) closed(b *book, from side, n uint64) {
	b.tally.closedOn.Add(n)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closings[from] = append(s.closings[from], closing{b.now(), n})
}

// excusable is how long before the end of a connection a message may have been
// written that was acknowledged and not read at the end: on a machine that is
// much too busy, a reader may be that far behind.
const excusable = remembered

// excuse reports whether a message from a side, written at the given time, was
// among those that a Close has dropped.
func (s *slot) excuse(from side, at time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.closings[from] {
		c := &s.closings[from][i]
		if c.left > 0 && at <= c.at && c.at-at <= excusable {
			c.left--
			return true
		}
	}
	return false
}

// disturb notes that the slot's connections have a reason to end.
func (s *slot) disturb(b *book) {
	s.mu.Lock()
	s.chaos = max(1, b.now())
	s.mu.Unlock()
}

// disturbed reports whether they had one since t.
func (s *slot) disturbed(t time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.chaos != 0 && s.chaos >= t
}

// settle judges what connections have written that ended before t, and forgets
// them.
func (b *book) settle(t time.Duration) {
	for _, s := range b.slots {
		for from := range s.flows {
			b.settleSide(s, side(from), t)
		}
	}
}

func (b *book) settleSide(s *slot, from side, t time.Duration) {
	s.mu.Lock()
	flows := slices.Clone(s.flows[from])
	s.mu.Unlock()
	settled := make(map[*flow]bool)
	for _, f := range flows {
		if f.settle(t) { // which asks the slot for excuses
			settled[f] = true
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.flows[from] = slices.DeleteFunc(s.flows[from], func(f *flow) bool { return settled[f] })
	s.closings[from] = slices.DeleteFunc(s.closings[from], func(c closing) bool {
		return c.left == 0 || c.at < t-4*remembered
	})
}

// bytes returns how much memory the book takes, nearly all of it for its flows.
// It has more of them when more connections have ended lately.
func (b *book) bytes() uint64 { return uint64(b.flows()) * b.window * flowBytes }

// flows counts those that are not settled.
func (b *book) flows() (n int) {
	for _, s := range b.slots {
		s.mu.Lock()
		n += len(s.flows[client]) + len(s.flows[server])
		s.mu.Unlock()
	}
	return n
}

func (n name) String() string {
	return fmt.Sprintf("client %d, connection %d of the %v", n.slot, n.generation, n.from)
}
