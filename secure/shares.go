package secure

import (
	"net/netip"
	"sync"
	"time"
)

// shares divides the tokens that can be outstanding among the networks that ask for them.
// While less than half of the room is taken, everybody gets one. Beyond that a network may
// have a sixteenth, and the last quarter of the room is only for networks below their
// sixteenth. So one network, such as a carrier behind NAT, may take three quarters while
// nobody else asks.
type shares struct {
	max int // tokens

	mu     sync.Mutex
	queue  []issued // in the order of expiry
	counts map[netip.Prefix]int
}

type issued struct {
	network netip.Prefix
	expires time.Time
}

// networkOf returns the part of an address that belongs to one owner, as a rule.
func networkOf(a netip.Addr) netip.Prefix {
	a = a.Unmap().WithZone("")
	bits := 24
	if a.Is6() {
		bits = 56
	}
	p, _ := a.Prefix(bits)
	return p
}

// take counts a token for an address; the zero Addr has no share and no bound but that of all.
// If there is no share left, it returns when there may be one.
func (s *shares) take(now time.Time, a netip.Addr) (wait time.Duration) {
	network := networkOf(a)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expireLocked(now)
	total, own := len(s.queue), s.counts[network]
	alone := own == total
	if total >= s.max || a.IsValid() && total >= s.max/2 && own >= s.max/16 && (!alone || total >= s.max*3/4) {
		return max(time.Second, s.queue[0].expires.Sub(now)).Round(time.Second)
	}
	if s.counts == nil {
		s.counts = make(map[netip.Prefix]int)
	}
	s.counts[network]++
	s.queue = append(s.queue, issued{network, now.Add(tokenLifetime)})
	return 0
}

func (s *shares) expireLocked(now time.Time) {
	n := 0
	for ; n < len(s.queue) && !s.queue[n].expires.After(now); n++ {
		network := s.queue[n].network
		if s.counts[network]--; s.counts[network] == 0 {
			delete(s.counts, network)
		}
	}
	if s.queue = s.queue[n:]; len(s.queue) == 0 {
		s.queue, s.counts = nil, nil
	}
}
