package seq

import "math/bits"

// StaleIn reports whether a window of n sequences that expects next has left s behind.
func StaleIn(s, next uint16, n int) bool { return Less(s, next-uint16(n)) }

// AheadOf reports whether s moves a window that expects next.
func AheadOf(s, next uint16) bool { return Greater(s+1, next) }

// A Status is what a Window knows of a sequence number.
type Status uint8

const (
	// Fresh is a sequence that may still be inserted.
	Fresh Status = iota
	// Seen is a sequence that is present, or too far back to tell.
	Seen
	// Stale is a sequence that the window has left behind.
	Stale
)

// A Window remembers which of the last n sequence numbers are present. Where n
// is a power of two it is a ring of bits. At any other size it is a table of
// numbers that repeats what a modulo does at the step from 65535 to 0, where
// neighbours stop being neighbours.
type Window struct {
	next  uint16 // one past the newest
	run   uint8  // in a window of bits, so many of the newest are present for sure; up to 32
	n     int32  // sequences before next-n are stale
	known int32  // sequences before next-known, down to next-n, count as seen
	track int32  // limit of known: min(n, bits.Size())
	bits  Bits
	table *table // nil where bits are used
}

// A table has a slot for each sequence modulo its length: number plus one, 0 if empty.
type table struct{ slots []uint32 }

func (t *table) at(i int) *uint32 { return &t.slots[i%len(t.slots)] }

// clear empties all slots; a nil table has none.
func (t *table) clear() {
	if t != nil {
		clear(t.slots)
	}
}

// Init makes w a window of n sequences, the newest track told apart; at odd sizes all.
func (w *Window) Init(n, track int) {
	*w = Window{n: int32(n)}
	if n&(n-1) == 0 {
		w.bits = MakeBits(track)
		w.track = int32(min(n, w.bits.Size()))
	} else {
		w.table = &table{make([]uint32, n)}
		w.track = int32(n)
	}
	w.known = w.track
}

// Reset empties w.
func (w *Window) Reset() {
	w.next, w.run, w.known = 0, 0, w.track
	clear(w.bits.words)
	w.table.clear()
}

// Next returns one past the newest sequence.
func (w *Window) Next() uint16 { return w.next }

// Len returns the number of sequences of the window.
func (w *Window) Len() int { return int(w.n) }

// Track returns the number of newest sequences that w can tell apart.
func (w *Window) Track() int { return int(w.track) }

// Bytes returns the memory held.
func (w *Window) Bytes() int {
	if w.table != nil {
		return 4 * len(w.table.slots)
	}
	return w.bits.Bytes()
}

// Stale reports whether the window has left s behind.
func (w *Window) Stale(s uint16) bool { return StaleIn(s, w.next, int(w.n)) }

// Ahead reports whether inserting s would move the window.
func (w *Window) Ahead(s uint16) bool { return AheadOf(s, w.next) }

// Exists reports whether s is present.
func (w *Window) Exists(s uint16) bool {
	if w.table != nil {
		return *w.table.at(int(s)) == uint32(s)+1
	}
	return int32(w.next-1-s) < w.known && w.bits.Has(s)
}

// Occupant returns the sequence at the place of s, if the size is not a power of two.
func (w *Window) Occupant(s uint16) (uint16, bool) {
	v := *w.table.at(int(s))
	return uint16(v - 1), v != 0
}

// Knows reports whether s is present, too far back, or in a table's stale rest.
func (w *Window) Knows(s uint16) bool {
	if w.table != nil {
		return w.Exists(s)
	}
	return w.Status(s) == Seen
}

// Status says what is known of s.
func (w *Window) Status(s uint16) Status {
	if s == w.next {
		return Fresh
	}
	return w.status(s)
}

func (w *Window) status(s uint16) Status {
	if d := int32(w.next - 1 - s); w.table == nil && d < w.n {
		if d >= w.known || w.bits.Has(s) {
			return Seen
		}
		return Fresh
	}
	switch {
	case w.Stale(s):
		return Stale
	case w.Exists(s):
		return Seen
	}
	return Fresh
}

// Forward makes s the newest sequence, absent as yet. It reports whether it is newer.
func (w *Window) Forward(s uint16) bool {
	if !w.Ahead(s) {
		return false
	}
	steps := int32(s-w.next) + 1
	if w.table != nil {
		w.empty(steps)
	} else {
		w.bits.ClearRange(w.next, int(steps))
	}
	w.next, w.run = s+1, 0
	w.known = min(w.known+steps, w.track)
	return true
}

// empty clears the slots of the next sequences, beyond 65535 too, as the reference does.
func (w *Window) empty(steps int32) {
	if steps > w.n {
		w.table.clear()
		return
	}
	for i := range int(steps) {
		*w.table.at(int(w.next) + i) = 0
	}
}

// Put adds s, which is in the window.
func (w *Window) Put(s uint16) {
	if w.table != nil {
		*w.table.at(int(s)) = uint32(s) + 1
		return
	}
	w.bits.Set(s)
}

// Push is Insert for the next sequence, in a window of bits.
func (w *Window) Push() {
	w.bits.Set(w.next)
	w.next++
	if w.known < w.track {
		w.known++
	}
	if w.run < 32 {
		w.run++
	}
}

// Skip is Forward for the next sequence, in a window of bits.
func (w *Window) Skip() {
	w.Push()
	w.bits.Clear(w.next - 1)
	w.run = 0
}

// Bitwise reports whether w is a window of bits, its size a power of two.
func (w *Window) Bitwise() bool { return w.table == nil }

// Insert adds s by the rule for packets: it refuses a stale one, then moves the window.
func (w *Window) Insert(s uint16) bool {
	if s == w.next && w.table == nil {
		w.Push()
		return true
	}
	if w.Stale(s) {
		return false
	}
	w.Forward(s)
	w.Put(s)
	return true
}

// Remove empties the place of s, whatever sequence it holds.
func (w *Window) Remove(s uint16) {
	if w.table != nil {
		*w.table.at(int(s)) = 0
		return
	}
	w.run = 0
	newest := w.next - 1
	w.bits.Clear(newest - (newest-s)&uint16(w.n-1))
}

// Acks returns a header's newest sequence, and the bits for it and the 31 before it.
func (w *Window) Acks() (ack uint16, ackBits uint32) {
	if w.run >= 32 && w.known >= 32 { // as in a flood without loss
		return w.next - 1, 1<<32 - 1
	}
	return w.acks()
}

func (w *Window) acks() (ack uint16, ackBits uint32) {
	ack = w.next - 1
	if w.table == nil {
		return ack, w.bits.Last32(ack) & lowBits(w.known)
	}
	for i := range uint16(32) {
		if w.Exists(ack - i) {
			ackBits |= 1 << i
		}
	}
	return ack, ackBits
}

// AcksAt returns a header's bits for s and the 31 before it, in a window of bits.
func (w *Window) AcksAt(s uint16) uint32 {
	return w.bits.Last32(s) & lowBits(max(0, w.known-int32(w.next-1-s)))
}

// lowBits returns a mask of the n lowest bits, which are all from 32 on.
func lowBits(n int32) uint32 { return 1<<n - 1 }

// Restart empties w and makes s the next sequence. In bits, all before s count as seen.
func (w *Window) Restart(s uint16) {
	w.next, w.run, w.known = s, 0, 0
	clear(w.bits.words)
	w.table.clear()
}

// Begin empties w, with s next. In bits, so many before s may still come.
func (w *Window) Begin(s uint16, before int) {
	w.Restart(s)
	w.known = min(w.track, int32(before))
}

// Resize tells the newest track apart, a power of two. More ones before count as seen.
func (w *Window) Resize(track int) {
	w.known = min(w.known, int32(track))
	w.bits = w.bits.Resize(track, w.next-1, int(w.known))
	w.track = min(w.n, int32(w.bits.Size()))
}

// Trim returns the smallest size from least to most that loses nothing.
func (w *Window) Trim(least, most int) int {
	need := 0
	for d := int(w.known) - 1; d >= 0; d-- {
		if !w.bits.Has(w.next - 1 - uint16(d)) {
			need = d + 1
			break
		}
	}
	if need <= least {
		return least
	}
	return min(most, 1<<bits.Len(uint(need-1)))
}
