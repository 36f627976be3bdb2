package registry

import (
	"sync"
	"weak"
)

// minSweep is how many members a Set has before it is swept for the first time.
const minSweep = 16

// A Set holds weak pointers to the members of one type. Members that have ended, or
// were collected, leave when the Set has doubled since its last sweep, or when
// somebody looks. So no member has to say that it ends. A member costs some 60
// bytes, with the runtime's part for a weak pointer.
type Set[T any] struct {
	over  func(*T) bool
	view  func(*T) Viewer // nil for listeners
	ended Ended

	mu      sync.Mutex
	members []weak.Pointer[T]
	sweepAt int // length
}

func newSet[T any](over func(*T) bool) *Set[T] {
	return &Set[T]{over: over, sweepAt: minSweep}
}

// Add adds a member. The caller holds no lock that over takes.
func (s *Set[T]) Add(p *T) {
	w := weak.Make(p)
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.members) >= s.sweepAt {
		s.sweepLocked(nil)
	}
	if n := len(s.members); n == cap(s.members) {
		s.members = append(make([]weak.Pointer[T], 0, n+n/8+minSweep), s.members...)
	}
	s.members = append(s.members, w)
}

// Ended adds the counters of an ended member, once, whether it was added or not.
func (s *Set[T]) Ended(p *T) { s.ended.Add(s.view(p), 0) }

// living returns the members that have not ended.
func (s *Set[T]) living() (all []*T) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sweepLocked(func(p *T) { all = append(all, p) })
	return all
}

// sweepLocked drops members that have ended or are garbage, and calls f with the others.
func (s *Set[T]) sweepLocked(f func(*T)) {
	kept := s.members[:0]
	for _, w := range s.members {
		p := w.Value()
		if p == nil || s.over(p) {
			continue
		}
		kept = append(kept, w)
		if f != nil {
			f(p)
		}
	}
	clear(s.members[len(kept):])
	s.members = kept
	if c := cap(kept); c > 4*minSweep && len(kept) < c/4 {
		s.members = append(make([]weak.Pointer[T], 0, 2*len(kept)), kept...)
	}
	s.sweepAt = max(minSweep, 2*len(kept))
}
