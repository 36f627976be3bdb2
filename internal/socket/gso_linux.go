package socket

import (
	"errors"
	"maps"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// gsoState decides which runs are sent in one call. A kernel refuses runs for a path's small
// MTU (EMSGSIZE, EINVAL), a device without checksums, or IPsec (EIO). Refusals are
// remembered by address.
type gsoState struct {
	refusals     atomic.Pointer[refusals] // nil: none
	streak       atomic.Int32             // owners of addresses refused since a run has left
	maxSegments  atomic.Int32             // of one run
	off          atomic.Bool              // not offered, or refused to everybody
	mu           sync.Mutex               // held to change refusals and streak
	loopbackOnly bool                     // constant after setUp
}

// refusals is a table of addresses, of which only row changes any more.
type refusals struct {
	until  time.Time // forgotten then
	limits map[netip.Addr]segmentLimit
	row    map[netip.Addr]struct{} // the owners that streak counts; guarded by mu
}

// A segmentLimit is what is known of runs to one address.
type segmentLimit struct {
	max     int // bytes; larger segments were refused
	invalid int // refusals by EINVAL
}

const (
	// refusalLifetime is how long a refusal is remembered, as long as the kernel
	// remembers the MTU of a path.
	refusalLifetime = 10 * time.Minute
	// maxRefusals bounds the table; it starts anew when it is full.
	maxRefusals = 256
	// maxStreak is how many owners of addresses in a row may refuse runs, with
	// errors that may be about all of them, before runs are off for a while.
	maxStreak = 64
	// maxInvalid is how many refusals by EINVAL may be about the segment size: a
	// faulty device refuses all sizes.
	maxInvalid = 4
)

// Kernels from 6.9 on take many segments a run (UDP_MAX_SEGMENTS), others few.
const (
	fewSegments  = 64
	manySegments = 128
)

func takesManySegments(release string) bool {
	major, minor, _ := kernelVersion(release)
	return major > 6 || major == 6 && minor >= 9
}

// shorten limits runs to few segments if pc, which was refused, had more.
func (g *gsoState) shorten(pc piece) bool {
	if pc.segment == 0 || pc.end-pc.off <= fewSegments*pc.segment {
		return false
	}
	g.maxSegments.Store(fewSegments)
	return true
}

// allows reports whether a run of segments of the given size may go to addr.
func (g *gsoState) allows(segment int, addr netip.AddrPort) bool {
	if g.off.Load() || g.loopbackOnly && !addr.Addr().IsLoopback() {
		return false
	}
	t := g.refusals.Load()
	if t == nil {
		return true
	}
	limit, ok := t.limits[addr.Addr()]
	if (!ok || segment <= limit.max) && g.streak.Load() < maxStreak {
		return true
	}
	if time.Now().Before(t.until) {
		return false
	}
	g.forget(t)
	return true
}

// forget drops a table that has had its time.
func (g *gsoState) forget(t *refusals) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.refusals.CompareAndSwap(t, nil) {
		g.endRow()
	}
}

func (g *gsoState) endRow() {
	g.streak.Store(0)
	if t := g.refusals.Load(); t != nil {
		t.row = nil
	}
}

// owner returns what all addresses of one host have in common: of IPv6 the /64.
func owner(addr netip.Addr) netip.Addr {
	if addr.Is4() || addr.Is4In6() {
		return addr.Unmap()
	}
	network, _ := addr.Prefix(64)
	return network.Addr()
}

// took notes that a run has left.
func (g *gsoState) took() {
	if g.streak.Load() == 0 {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.streak.Load() < maxStreak {
		g.endRow()
	}
}

// refuse notes that a run was refused with err, and that its datagrams left.
func (g *gsoState) refuse(segment int, addr netip.Addr, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	old := g.refusals.Load()
	t := &refusals{until: time.Now().Add(refusalLifetime)}
	if old != nil {
		t.row = old.row
	}
	if old != nil && len(old.limits) < maxRefusals {
		t.until, t.limits = old.until, maps.Clone(old.limits)
	} else {
		t.limits = make(map[netip.Addr]segmentLimit)
	}
	limit, known := t.limits[addr]
	limit.max = segment - 1
	switch {
	case errors.Is(err, syscall.EINVAL):
		if limit.invalid++; limit.invalid >= maxInvalid {
			limit.max = 0
		}
	case !errors.Is(err, syscall.EMSGSIZE):
		limit.max = 0
	}
	t.limits[addr] = limit
	if !known && !errors.Is(err, syscall.EMSGSIZE) {
		if t.row == nil {
			t.row = make(map[netip.Addr]struct{})
		}
		t.row[owner(addr)] = struct{}{}
		g.streak.Store(int32(len(t.row)))
	}
	g.refusals.Store(t)
}

// offered reports whether runs leave in one call now, to peer if the socket is connected.
func (g *gsoState) offered(peer netip.AddrPort) bool {
	t := g.refusals.Load()
	switch {
	case g.off.Load():
		return false
	case t == nil:
		return true
	}
	limit, ok := t.limits[peer.Addr()]
	return (!ok || limit.max > 0) && g.streak.Load() < maxStreak
}
