package netcode

// A replayWindow remembers which of the newest sequence numbers of one direction of a
// session have been seen. Numbers behind the window count as seen.
type replayWindow struct {
	newest uint64
	seen   []uint64 // bit s mod size; nil until the first mark
	size   uint64   // a power of two, at least 64
}

// newReplayWindow returns a window of size numbers, rounded up to a power of two.
func newReplayWindow(size int) replayWindow {
	n := uint64(64)
	for n < uint64(size) {
		n *= 2
	}
	return replayWindow{size: n}
}

// check reports whether s is new. It changes nothing, because the packet may be forged.
func (w *replayWindow) check(s uint64) bool {
	if w.seen == nil || s > w.newest {
		return true
	}
	// The subtraction cannot wrap, as an addition would near 2^64.
	if w.newest >= w.size && s <= w.newest-w.size {
		return false
	}
	i := s & (w.size - 1)
	return w.seen[i/64]>>(i%64)&1 == 0
}

// mark enters the sequence number of an authentic packet.
func (w *replayWindow) mark(s uint64) {
	if w.seen == nil {
		w.seen = make([]uint64, w.size/64)
	}
	if s > w.newest {
		w.forget(s)
		w.newest = s
	}
	i := s & (w.size - 1)
	w.seen[i/64] |= 1 << (i % 64)
}

// forget clears the bits of the numbers after newest, up to s.
func (w *replayWindow) forget(s uint64) {
	if s-w.newest >= w.size {
		clear(w.seen)
		return
	}
	for n := w.newest + 1; n <= s && n != 0; {
		i := n & (w.size - 1)
		if i%64 == 0 && s-n >= 63 {
			w.seen[i/64] = 0
			n += 64
			continue
		}
		w.seen[i/64] &^= 1 << (i % 64)
		n++
	}
}

// reset empties the window and keeps its memory.
func (w *replayWindow) reset() {
	clear(w.seen)
	w.newest = 0
}
