package world

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"volley"
)

// A flow is what one end of a connection writes.
type flow struct {
	*book
	number   uint32
	from, to int // hosts
	fates    bool
	promises promises
	order    turn          // of writes, where that matters
	explain  func() string // what the connection says of itself
	// dropped counts receipts that have found no room, for all flows of a PacketConn. A Conn
	// drops none, and has nil.
	dropped *atomic.Uint64

	mu    sync.Mutex
	sent  []sent
	ids   map[uint64]uint32      // numbers of messages without a fate, by their ids
	early map[uint64]volley.Fate // by ids that no message is known to have
	held  time.Duration          // for which its readers have written answers, and read nothing
	over  bool                   // all fates have been told
	// shared: as the flow began, its peer had a connection with the process that had the
	// port before. The peer goes on with that. By chance it has seen the same sequences before,
	// and takes messages for copies. Where sequences begin at 1 and nothing tells
	// connections apart, it is enough that datagrams of the one before may be under way.
	shared bool
	// heard is when the first message was known to be Delivered; 0: none. By then the writer has
	// heard its peer, and before it may not have.
	heard time.Duration
	ended time.Duration // when its connection was known to have ended; 0: it has not
	// busy is for how long the Handler of the writer had waited when the first message was Lost, and
	// then how much longer it did before it learned of the end.
	busy time.Duration
	lost bool           // a message was Lost
	left time.Duration  // when this side has closed it; 0: it has not
	told map[uint64]int // of riptide: how many messages were written by the fate of each id
	// furthest is the number of the last message of those that were read, and lateAt when one was read
	// that was written before the writer had heard anything, more than 64 behind it; 0: none.
	furthest uint32
	lateAt   time.Duration
	drops    []uint64 // by full buffers, between both hosts, before each message by number/dropsEach
}

// dropsEach is how many messages share a number in drops.
const dropsEach = 64

// A sent is a message of a flow.
type sent struct {
	at    time.Duration
	held  time.Duration // of the flow, by then
	id    uint64
	fate  volley.Fate
	fated time.Duration // when the fate was told
	read  bool
	full  bool // of one that is Lost and was read: a full buffer had no room for datagrams meanwhile
	blind bool // when its fate was told, a function of a Handler of the writer waited, so that no end was told
}

// promises are what a connection promises about messages.
type promises struct {
	once     bool // at most once
	turn     int  // copies may be read if so many messages are written while one is on its way; 0: never
	ordered  bool
	reliable bool // each message arrives, unless the connection ends
	silent   bool // nothing tells that a message was lost
	skipped  bool // a delivered message may be left out, because it came too late
	exact    bool // no byte that the peer has not sent passes for one of its own
	mixed    bool // late datagrams of one connection pass for those of the next
}

// write writes the next message by a function that returns its id.
func (f *flow) write(size, answer int, do func(msg []byte) (id uint64, err error)) error {
	if f.promises.ordered {
		f.order.Lock()
		defer f.order.Unlock()
	}
	f.mu.Lock()
	n := uint32(len(f.sent))
	if n%dropsEach == 0 {
		f.drops = append(f.drops[:n/dropsEach], f.fullDrops(f.from, f.to))
	}
	f.sent = append(f.sent, sent{at: f.now(), held: f.held})
	f.mu.Unlock()
	id, err := do(message{f.number, n, size, answer}.appendTo(make([]byte, 0, size)))
	if err == nil {
		f.count(func(c *counts) { c.Written++ })
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if err != nil && f.promises.ordered {
		f.sent = f.sent[:n] // so that none is missing
	}
	if err != nil && f.promises.ordered || !f.fates {
		return err
	}
	f.sent[n].id = id
	switch _, twice := f.ids[id]; {
	case id == 0 && err == nil:
		f.fail("%v: message %d has no id", f, n)
	case twice:
		f.fail("%v: message %d has the id %d, which another one has", f, n, id)
	case id != 0:
		if fate, ok := f.early[id]; ok {
			delete(f.early, id)
			f.fateLocked(n, fate)
			return err
		}
		f.ids[id] = n
	}
	return err
}

// decide notes the fate of a message. It may come before write has returned the id.
func (f *flow) decide(id uint64, fate volley.Fate) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.count(func(c *counts) {
		if fate == volley.Delivered {
			c.Delivered++
		} else {
			c.Lost++
		}
	})
	if n, ok := f.ids[id]; ok {
		delete(f.ids, id)
		f.fateLocked(n, fate)
		if f.promises.silent {
			f.tellLocked(id)
		}
		return
	}
	if f.promises.silent {
		f.tellLocked(id)
		return // it is of a message of the protocol's own
	}
	if _, ok := f.early[id]; ok || slices.ContainsFunc(f.sent, func(s sent) bool { return s.id == id }) {
		f.fail("%v: id %d has the fate %v, and had one already", f, id, fate)
	}
	f.early[id] = fate
}

func (f *flow) fateLocked(n uint32, fate volley.Fate) {
	f.sent[n].fate, f.sent[n].fated, f.sent[n].blind = fate, f.now(), f.stalled(f.from)
	f.noteFullLocked(n)
	if fate == volley.Lost && !f.lost && f.ended == 0 {
		f.lost, f.busy = true, f.waited(f.from)
	}
	if fate == volley.Delivered && f.heard == 0 {
		f.heard = f.now()
	}
}

// tellLocked notes that an id of 16 bits was acknowledged, which must not happen twice while no
// other message can have it.
func (f *flow) tellLocked(id uint64) {
	if n, ok := f.told[id]; ok && len(f.sent)-n < 30000 {
		f.fail("%v: id %d was acknowledged twice", f, id)
	}
	f.told[id] = len(f.sent)
}

// end notes that the connection is known to have ended.
func (f *flow) end() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.endLocked()
}

func (f *flow) endLocked() {
	if f.ended == 0 {
		f.ended, f.busy = f.now(), f.waited(f.from)-f.busy
	}
}

// leave notes that this side closes the connection.
func (f *flow) leave() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.left == 0 {
		f.left = f.now()
	}
}

// leftBy reports whether its side has closed the connection by a time.
func (f *flow) leftBy(at time.Duration) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.left != 0 && f.left <= at
}

// wronglyLost reports whether there is no reason to call a message Lost that was read.
func (f *flow) wronglyLost(n int, s sent) bool {
	switch {
	case !f.promises.exact, f.promises.ordered, f.promises.silent, f.shared:
		return false
	case s.at <= f.heard, f.heard == 0 && s.at < f.sent[0].at+lag: // not all is answered then: the address of the writer may be forged
		return false
	case !f.livedAt(s.fated + 5*time.Second), s.full, f.pushedOut(n, s):
		return false
	case f.shortAt(f.from, s.fated): // the window of sent packets stays as small as it is then
		return false
	}
	return f.plan.calmBetween(f.from, f.to, s.at-lag, s.fated)
}

// sentWindow is how many packets a connection of volley remembers, see docs/ARCHITECTURE.md. All but
// a few are messages where so many are on their way.
const sentWindow = 16384 - 64

// pushedOut reports whether so many messages were written behind one that it left the window.
func (f *flow) pushedOut(n int, s sent) bool {
	for _, later := range f.sent[n+1:] {
		if later.at > s.fated {
			break
		}
		if later.id >= s.id+sentWindow {
			return true
		}
	}
	return false
}

// endLag is how much later than by the fates of messages a Handler learns of an end: it is polled
// each 20 ms. It may also be busy with the messages of others, and waits for room where it writes.
const endLag = 100 * time.Millisecond

// livedAt reports whether the connection had not ended at a time.
func (f *flow) livedAt(at time.Duration) bool {
	return (f.ended == 0 || at < f.ended) && (f.left == 0 || at < f.left)
}

// settle notes that the connection has ended and has told all fates.
func (f *flow) settle() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.over, f.explain = true, nil // which holds the connection
	f.endLocked()                 // its reader may rest, and not know it yet
}

// A fateless is a message without a fate.
type fateless struct {
	flow *flow
	id   uint64
	n    uint32
	at   time.Duration // when it was written
}

func (m fateless) String() string {
	return fmt.Sprintf("%v: message %d (id %d, written at %v) has no fate", m.flow, m.n, m.id, m.at)
}

// hold notes for how long a reader of the flow has written an answer.
func (f *flow) hold(d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.held += d
}

// fateless returns the messages without a fate that were written before a time. The time in
// which a reader writes answers does not count: a full send buffer holds it up for half a
// second each time, while two buffers full of messages wait for it.
func (f *flow) fateless(before time.Duration) (all []fateless) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for id, n := range f.ids {
		if at, held := f.sent[n].at, f.held-f.sent[n].held; at+held < before {
			all = append(all, fateless{f, id, n, at})
		}
	}
	return all
}

// said returns what the connection of a flow says of itself, while it lives.
func (f *flow) said() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.over {
		return ""
	}
	return f.explain()
}

// overdue returns a message for each flow that has one without a fate, written before a time.
// A PacketConn that has dropped receipts may have as many of them.
func overdue(flows []*flow, before time.Duration) (first []fateless) {
	late, number := make(map[*atomic.Uint64][]fateless), make(map[*atomic.Uint64]int)
	for _, f := range flows {
		f.mu.Lock()
		over := f.over
		f.mu.Unlock()
		if all := f.fateless(before); len(all) > 0 && !over {
			late[f.dropped] = append(late[f.dropped], all[0])
			number[f.dropped] += len(all)
		}
	}
	for dropped, some := range late {
		if dropped == nil || uint64(number[dropped]) > dropped.Load() {
			first = append(first, some...)
		}
	}
	return first
}

// writtenAt returns when a message was written.
func (f *flow) writtenAt(n uint32) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.sent[n].at
}

// recent returns how many messages were written in the longest time that one is on its way.
func (f *flow) recent() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	first, _ := slices.BinarySearchFunc(f.sent, f.now()-lag, func(s sent, at time.Duration) int { return cmp.Compare(s.at, at) })
	return len(f.sent) - first
}

// opening reports whether a message is one of many that were written before the writer had heard
// anything, or comes after one of them that came late. A peer tells such a writer from one that was
// started again by sequences that are more than 64 apart. Where some overtake so many others, it
// may believe in a restart, and take copies of all that is under way: rule 4 of docs/reliable.md,
// section 3.
func (f *flow) opening(n uint32) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	late := f.lateAt > 0 && f.now() < f.lateAt+lag
	return len(f.sent) > 64 && f.unheardLocked(64) && (f.unheardLocked(n) || late)
}

// unheardLocked reports whether a message was written before the writer had heard anything.
func (f *flow) unheardLocked(n uint32) bool { return f.heard == 0 || f.sent[n].at <= f.heard }

// arrived notes that a message was read.
func (f *flow) arrived(n uint32) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if int(n) >= len(f.sent) {
		return false
	}
	f.sent[n].read = true
	if f.unheardLocked(n) && n+64 < f.furthest {
		f.lateAt = f.now()
	}
	f.furthest = max(f.furthest, n)
	f.noteFullLocked(n)
	return true
}

// noteFullLocked notes whether a full buffer may be why a message that was read is called Lost.
func (f *flow) noteFullLocked(n uint32) {
	if s := &f.sent[n]; s.read && s.fate == volley.Lost {
		s.full = f.fullDrops(f.from, f.to) != f.drops[n/dropsEach]
	}
}

func (f *flow) String() string { return fmt.Sprintf("flow %d (host %d to %d)", f.number, f.from, f.to) }
