package main

import (
	"sort"
	"sync"
	"time"

	"volley"
)

// What is known of a message.
const (
	isWritten   = 1 << iota // it has a number of the library's
	isRead                  // somebody has read it
	isDelivered             // so says its receipt
	isLost
)

// A flow is what one connection writes. It remembers the last messages of it, as
// many as its book says, and judges each when it leaves.
type flow struct {
	name
	book   *book
	slot   *slot
	opened time.Duration

	mu    sync.Mutex
	next  uint64   // number of the next message
	ids   []uint32 // the library's numbers, by ours; they rise
	at    []uint32 // when they were written, in milliseconds on the clock of the book
	state []uint8
	ended time.Duration // when the connection did; 0: it has not
}

// flowBytes is how much a flow remembers of a message.
const flowBytes = 4 + 4 + 1

func newFlow(b *book, s *slot, n name) *flow {
	return &flow{name: n, book: b, slot: s, opened: b.now(),
		ids: make([]uint32, b.window), at: make([]uint32, b.window), state: make([]uint8, b.window)}
}

func (f *flow) index(n uint64) int { return int(n & uint64(len(f.state)-1)) }

// written returns when the message at index i was written.
func (f *flow) written(i int) time.Duration { return time.Duration(f.at[i]) * time.Millisecond }

// begin returns the number of a message that is about to be written. It can be
// read from now on.
func (f *flow) begin() uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := f.next
	if n >= f.book.window {
		f.judge(n - f.book.window)
	}
	i, last := f.index(n), f.index(n-1)
	f.ids[i], f.at[i], f.state[i] = f.ids[last], uint32(f.book.now().Milliseconds()), 0
	f.next++
	return n
}

// wrote notes the library's number of message n.
func (f *flow) wrote(n, id uint64) {
	f.mu.Lock()
	f.ids[f.index(n)] = uint32(id)
	f.state[f.index(n)] |= isWritten
	f.mu.Unlock()
	f.book.tally.sent.Add(1)
}

// receipts notes what became of messages.
func (f *flow) receipts(rs []volley.Receipt) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range rs {
		f.receipt(r)
	}
}

func (f *flow) receipt(r volley.Receipt) {
	t := &f.book.tally
	n, ok := f.find(uint32(r.ID))
	if !ok {
		t.fault(strangeReceipt, "%v: receipt of message %d, which was not written", f, r.ID)
		return
	}
	state := &f.state[f.index(n)]
	if *state&(isDelivered|isLost) != 0 {
		t.fault(twoFates, "%v: message %d has two receipts, the second %v", f, n, r.Fate)
		return
	}
	if r.Fate == volley.Delivered {
		*state |= isDelivered
		t.delivered.Add(1)
	} else {
		*state |= isLost
		t.lost.Add(1)
	}
}

// oldest returns the number of the oldest message that is remembered.
func (f *flow) oldest() uint64 { return f.next - min(f.next, f.book.window) }

// find returns our number of the library's.
func (f *flow) find(id uint32) (n uint64, ok bool) {
	oldest := f.oldest()
	k := sort.Search(int(f.next-oldest), func(k int) bool {
		return int32(f.ids[f.index(oldest+uint64(k))]-id) >= 0
	})
	n = oldest + uint64(k)
	for ; n < f.next && f.ids[f.index(n)] == id; n++ { // messages that failed repeat the one before
		if f.state[f.index(n)]&isWritten != 0 {
			return n, true
		}
	}
	return 0, false
}

// take notes that message n was read, and reports whether it is one that can have
// been.
func (f *flow) take(n uint64) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case n >= f.next:
		f.book.tally.fault(unwritten, "message %d of %v, which has written %d", n, f, f.next)
		return false
	case n < f.oldest():
		f.book.tally.fault(ancient, "message %d of %v, which has written %d", n, f, f.next)
		return false
	}
	f.state[f.index(n)] |= isRead
	return true
}

// judge says what is to be said of a message that is about to be forgotten.
func (f *flow) judge(n uint64) {
	t, i := &f.book.tally, f.index(n)
	state := f.state[i]
	if state&isWritten == 0 {
		return
	}
	if state&isRead == 0 {
		t.missing.Add(1)
	}
	switch {
	case state&(isDelivered|isLost) == 0:
		t.fault(noFate, "%v: message %d, %v after it was written", f, n, f.book.now()-f.written(i))
	case state&isLost != 0 && state&isRead != 0:
		t.falseLost.Add(1)
	case state&isDelivered != 0 && state&isRead == 0:
		if f.slot.excuse(f.from, f.written(i)) {
			t.unread.Add(1)
		} else {
			t.fault(falseDelivered, "%v: message %d, written at %v, was not read; the connection was opened at %v, and has written %d",
				f, n, f.written(i), f.opened, f.next)
		}
	}
}

// end says that the connection has ended and all receipts have been taken.
func (f *flow) end() {
	f.mu.Lock()
	f.ended = max(1, f.book.now())
	f.mu.Unlock()
}

// settle judges all messages if the connection has ended before t, and reports
// whether it has.
func (f *flow) settle(t time.Duration) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ended == 0 || f.ended > t {
		return false
	}
	for n := f.oldest(); n < f.next; n++ {
		f.judge(n)
	}
	return true
}
