package registry

import (
	"runtime"
	"sync"
	"testing"
	"unsafe"

	"volley/internal/testenv"
)

type member struct {
	over bool
	_    [120]byte
}

func newTestSet() *Set[member] { return newSet(func(m *member) bool { return m.over }) }

// heap returns the bytes in use after what is garbage has been freed.
func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// weakSpecial is what the runtime keeps off its heap for an object with a weak
// pointer: next, offset and kind, and the handle.
const weakSpecial = 4 * unsafe.Sizeof(uintptr(0))

// A member costs at most 64 bytes while nobody looks, at any number of them.
func TestSetMemory(t *testing.T) {
	if testenv.Race {
		t.Skip("the race detector changes what memory costs")
	}
	for _, n := range []int{1000, 10_000, 100_000, 131_073} {
		all := make([]*member, n)
		for i := range all {
			all[i] = new(member)
		}
		s := newTestSet()
		before := heap()
		for _, m := range all {
			s.Add(m)
		}
		held := float64(heap()-before)/float64(n) + float64(weakSpecial)
		t.Logf("%d members: %.1f bytes each", n, held)
		if held > 64 {
			t.Errorf("%d members take %.1f bytes each, want at most 64", n, held)
		}
		runtime.KeepAlive(all)
		runtime.KeepAlive(s)
	}
}

// Who is forgotten can be collected, and what the Set kept of it is given back.
func TestSetForgets(t *testing.T) {
	s := newTestSet()
	kept := new(member)
	s.Add(kept)
	for range 10_000 {
		s.Add(new(member))
	}
	if n := len(s.living()); n < 1 || n > 10_001 {
		t.Fatalf("%d members live, want from 1 to 10001", n)
	}
	runtime.GC()
	runtime.GC()
	if got := s.living(); len(got) != 1 || got[0] != kept {
		t.Errorf("%d members live, want the one that is held", len(got))
	}
	if c := cap(s.members); c > 4*minSweep {
		t.Errorf("room for %d members is kept for one", c)
	}
	runtime.KeepAlive(kept)
}

// Who has ended leaves, when somebody looks, and also when nobody ever does.
func TestSetSweeps(t *testing.T) {
	s := newTestSet()
	var all []*member
	live := 0
	for i := range 100_000 {
		m := &member{over: i%10 != 0}
		all = append(all, m)
		s.Add(m)
		if !m.over {
			live++
		}
		if n := len(s.members); n > 2*live+2*minSweep {
			t.Fatalf("%d places are taken after %d members, of which %d live", n, i+1, live)
		}
	}
	if got := len(s.living()); got != live {
		t.Errorf("%d members live, want %d", got, live)
	}
	for _, m := range all {
		m.over = true
	}
	if got := len(s.living()); got != 0 {
		t.Errorf("%d members live, want none", got)
	}
}

func TestSetAtOnce(t *testing.T) {
	s := newTestSet()
	var wg sync.WaitGroup
	keep := make([][]*member, 8)
	for i := range keep {
		wg.Go(func() {
			for j := range 1000 {
				m := new(member)
				keep[i] = append(keep[i], m)
				s.Add(m)
				if j%100 == 0 {
					s.living()
				}
			}
		})
	}
	wg.Wait()
	if got := len(s.living()); got != 8000 {
		t.Errorf("%d members live, want 8000", got)
	}
	runtime.KeepAlive(keep)
}
