package netcode

import (
	"math/rand/v2"
	"testing"
)

// A replayModel is a replay window that remembers everything.
type replayModel struct {
	size, newest uint64
	seen         map[uint64]bool
}

func (m *replayModel) check(s uint64) bool {
	return !m.seen[s] && (m.newest < m.size || s > m.newest-m.size)
}

func (m *replayModel) mark(s uint64) {
	m.seen[s] = true
	m.newest = max(m.newest, s)
}

func (m *replayModel) step(t *testing.T, w *replayWindow, s uint64) {
	t.Helper()
	got, want := w.check(s), m.check(s)
	if got != want {
		t.Fatalf("check(%d) = %v with newest %d and size %d, want %v", s, got, w.newest, w.size, want)
	}
	if got {
		w.mark(s)
		m.mark(s)
	}
	if w.newest != m.newest {
		t.Fatalf("newest = %d, want %d", w.newest, m.newest)
	}
}

func TestReplayWindowModel(t *testing.T) {
	for _, size := range []int{64, 256, 2048} {
		rng := rand.New(rand.NewPCG(1, uint64(size)))
		for _, base := range []uint64{0, 1 << 32, 1<<63 - 1000, 1<<64 - 300_000} {
			w := newReplayWindow(size)
			m := &replayModel{size: uint64(size), seen: make(map[uint64]bool)}
			at := base
			for range 20_000 {
				switch rng.IntN(20) {
				case 0:
					at += uint64(rng.IntN(3 * size))
				case 1:
					at += uint64(size) - 1 + uint64(rng.IntN(3))
				default:
					at += uint64(rng.IntN(3))
				}
				at = min(at, 1<<64-2)
				s := at
				if back := uint64(rng.IntN(size + 10)); rng.IntN(2) == 0 && back <= s {
					s -= back
				}
				m.step(t, &w, s)
			}
		}
	}
}

// Wherever the window stands and however far it moves, what it had seen and still
// holds stays seen, to the oldest number, and what it had not seen stays new.
func TestReplayWindowMoves(t *testing.T) {
	const size = 128
	for from := range uint64(size) {
		for by := uint64(1); by <= size+1; by++ {
			w := newReplayWindow(size)
			newest := 5*size + from
			for s := newest - size + 1; s <= newest; s++ {
				w.mark(s)
			}
			w.mark(newest + by)
			for s := newest + by - size - 1; s <= newest+by+1; s++ {
				isNew := s > newest && s != newest+by
				behind := s+size <= newest+by
				if got, want := w.check(s), isNew && !behind; got != want {
					t.Fatalf("full to %d, then %d: check(%d) = %v, want %v", newest, newest+by, s, got, want)
				}
			}
		}
	}
	w := newReplayWindow(size)
	w.mark(1 << 40)
	w.reset()
	if !w.check(0) || !w.check(1<<40) {
		t.Error("a window has seen something after reset")
	}
}

func FuzzReplayWindow(f *testing.F) {
	f.Add(uint64(0), []byte{0, 1, 2, 3, 255, 0, 128})
	f.Add(uint64(1<<64-500), []byte{0, 255, 255, 1, 200, 0})
	f.Fuzz(func(t *testing.T, base uint64, steps []byte) {
		w := newReplayWindow(referenceWindow)
		m := &replayModel{size: referenceWindow, seen: make(map[uint64]bool)}
		at := base
		for _, b := range steps {
			d := uint64(b>>1) * 3
			if b&1 == 0 {
				at += d
			} else {
				at -= d
			}
			if at < 1<<64-1 { // the reference cannot remember the last number
				m.step(t, &w, at)
			}
		}
	})
}
