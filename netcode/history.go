package netcode

import (
	"math"
	"net/netip"
	"time"
)

// A history remembers the connect tokens a server has seen for as long as they
// could be shown again. A token is pending from its first request on, for the
// address that sent it, and consumed once it has its session. Nothing but the
// token's expiry frees an entry: were it evicted, a recorded session could be
// played again, with the same keys and nonces.
//
// A clock that is set back must not bring back what has been forgotten. So the
// history keeps the latest expiry of the tokens it forgot, a mark that the clock
// had reached, and takes no token which expires by then.
type history struct {
	max       int
	entries   map[tokenID]historyEntry
	earliest  uint64 // no entry expires before
	forgotten uint64 // the latest expiry of an entry that was freed
	start     time.Time

	// Tokens that expire later than this from now on, in seconds, would keep
	// their entries for long or for good: they may have half of them.
	lastingAfter uint64
	lasting      int // their number
}

// lastingAfter is the time, or twice the lifetime of tokens if that is more.
const lastingAfter = 24 * time.Hour

type historyEntry struct {
	addr     netip.AddrPort
	expires  uint64 // unix seconds; equal is expired
	shown    uint32 // for the first time, in seconds from start, rounded up
	consumed bool
	lasting  bool
}

func newHistory(start time.Time, maxEntries int, lastingAfter time.Duration) history {
	return history{
		start:        start,
		max:          maxEntries,
		entries:      make(map[tokenID]historyEntry),
		earliest:     math.MaxUint64,
		lastingAfter: uint64(lastingAfter / time.Second),
	}
}

// admit decides about a request with a token that has not expired by the wall
// clock, in unix seconds. An unseen token becomes pending. Of one that is admitted
// it returns when that was shown first, rounded up to whole seconds from the start.
func (h *history) admit(now time.Time, wall uint64, id tokenID, addr netip.AddrPort, expires uint64) (shown time.Time, reason DropReason) {
	if e, ok := h.entries[id]; ok {
		if e.consumed || e.addr != addr {
			return time.Time{}, DropTokenUsed
		}
		return h.shown(e), DropNone // a retransmission
	}
	lasting := expires-wall > h.lastingAfter
	if h.full(lasting) {
		h.sweep(wall)
	}
	switch {
	case expires <= h.forgotten:
		return time.Time{}, DropTokenExpired
	case h.full(lasting):
		return time.Time{}, DropHistoryFull
	}
	if lasting {
		h.lasting++
	}
	e := historyEntry{addr: addr, expires: expires, lasting: lasting}
	e.shown = uint32(max(0, now.Sub(h.start)+time.Second-1) / time.Second)
	h.entries[id] = e
	h.earliest = min(h.earliest, expires)
	return h.shown(e), DropNone
}

// shown returns when a token was shown first.
func (h *history) shown(e historyEntry) time.Time {
	return h.start.Add(time.Duration(e.shown) * time.Second)
}

// full reports whether there is no entry left for a token.
func (h *history) full(lasting bool) bool {
	return len(h.entries) >= h.max || lasting && h.lasting >= h.max/2
}

// consume marks a token as used up. An entry that is gone has expired, and
// with it the token.
func (h *history) consume(id tokenID) {
	if e, ok := h.entries[id]; ok {
		e.consumed = true
		h.entries[id] = e
	}
}

// sweep forgets expired tokens. Expiry is in whole seconds, so that however
// many requests come, it looks through the table once a second at most.
func (h *history) sweep(now uint64) {
	if now < h.earliest {
		return
	}
	h.earliest = math.MaxUint64
	for id, e := range h.entries {
		if e.expires <= now {
			h.forget(id, e)
		} else {
			h.earliest = min(h.earliest, e.expires)
		}
	}
	if len(h.entries) == 0 { // give the memory back
		h.entries = make(map[tokenID]historyEntry)
	}
}

func (h *history) forget(id tokenID, e historyEntry) {
	delete(h.entries, id)
	h.forgotten = max(h.forgotten, e.expires)
	if e.lasting {
		h.lasting--
	}
}
