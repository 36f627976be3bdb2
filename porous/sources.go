package porous

import (
	"hash/maphash"
	"net/netip"
	"sync"
	"time"
)

// A request of an unknown address costs a hash and an answer. So each host, or /64 of IPv6,
// has a share a second, by counters under a secret hash. It suffices for all players behind
// one translator and a few thousand others.
const (
	sourceSlots = 4096
	sourceBurst = 512 // requests
	sourceRate  = 512 // requests a second
)

// sources limits how much of what single sources ask is answered.
type sources struct {
	seed maphash.Seed

	mu    sync.Mutex
	slots *[sourceSlots]source // nil before the first request
}

// A source is a counter that leaks.
type source struct {
	used float32
	at   time.Duration
}

// allow counts a request, and reports whether it may be answered.
func (s *sources) allow(now time.Duration, from netip.Addr) bool {
	slot := s.slot(from)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.slots == nil {
		s.slots = new([sourceSlots]source)
	}
	c := &s.slots[slot]
	if passed := now - c.at; passed > 0 {
		c.used = max(0, c.used-float32(passed.Seconds()*sourceRate))
		c.at = now
	}
	if c.used >= sourceBurst {
		return false
	}
	c.used++
	return true
}

// slot returns which counter a source shares.
func (s *sources) slot(from netip.Addr) uint64 {
	if from.Is6() && !from.Is4In6() {
		p, _ := from.Prefix(64)
		from = p.Addr()
	}
	return maphash.Comparable(s.seed, from.Unmap()) % sourceSlots
}
