package netcode

import (
	"math"
	"net/netip"
	"time"
)

// A history remembers the connect tokens that a server has seen until they expire. A
// token is pending from its first request on, for the address of the request, and
// consumed once it has its session. Its expiry frees an entry, and nothing earlier: otherwise
// a recorded session could be played again, with the same keys and nonces. But a token by
// which a session has moved needs no entry, because the session's owner refuses it by then.
//
// A clock that is set back must not bring forgotten tokens back. So the history keeps the
// latest expiry of a forgotten token, and takes no token that expires by then. For tokens
// under a fresh key, that of a forgotten one under this key counts.
type history struct {
	max       int
	entries   map[tokenID]historyEntry
	earliest  uint64   // no entry expires before
	forgotten uint64   // the latest expiry of an entry that was freed
	keys      *keyRing // learn of it, too; may be nil
	start     time.Time

	// Tokens that expire later than in this many seconds keep their entries for long,
	// so they may have half of them.
	lastingAfter uint64
	lasting      int // how many there are
}

// lastingAfter is at least twice the lifetime of tokens.
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

// admit decides about a request with a valid token. For an old one, shown is when it came first.
// Tokens that expire by spent may have been used. Reserve is how many places are not for this one.
func (h *history) admit(now time.Time, wall uint64, id tokenID, addr netip.AddrPort, expires, spent uint64, reserve int) (shown time.Time, reason dropReason) {
	if e, ok := h.entries[id]; ok {
		if e.consumed || e.addr != addr {
			return time.Time{}, dropTokenUsed
		}
		return h.shown(e), dropNone // a retransmission
	}
	lasting := expires-wall > h.lastingAfter
	if h.full(lasting, reserve) {
		h.sweep(wall)
	}
	switch {
	case expires <= spent:
		return time.Time{}, dropTokenExpired
	case h.full(lasting, reserve):
		return time.Time{}, dropHistoryFull
	}
	if lasting {
		h.lasting++
	}
	e := historyEntry{addr: addr, expires: expires, lasting: lasting}
	e.shown = uint32(max(0, now.Sub(h.start)+time.Second-1) / time.Second)
	h.entries[id] = e
	h.earliest = min(h.earliest, expires)
	return h.shown(e), dropNone
}

// shown returns when a token was seen first.
func (h *history) shown(e historyEntry) time.Time {
	return h.start.Add(time.Duration(e.shown) * time.Second)
}

// full reports whether there is no entry left for a token.
func (h *history) full(lasting bool, reserve int) bool {
	return len(h.entries) >= h.max-reserve || lasting && h.lasting >= h.max/2
}

// consume marks a token as used. If it has no entry it has expired.
func (h *history) consume(id tokenID) {
	if e, ok := h.entries[id]; ok {
		e.consumed = true
		h.entries[id] = e
	}
}

// release frees the entry of a token that the owner of the sessions remembers.
func (h *history) release(id tokenID) {
	if e, ok := h.entries[id]; ok {
		delete(h.entries, id)
		if e.lasting {
			h.lasting--
		}
	}
}

// sweep forgets expired tokens, at most once a second, since expiry is in whole seconds.
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
	if h.keys != nil {
		h.keys.forget(e.expires)
	}
	if e.lasting {
		h.lasting--
	}
}
