package netcode

import (
	"math"
	"net/netip"
)

// A history remembers the connect tokens a server has seen for as long as they
// could be shown again. A token is pending from its first request on, for the
// address that sent it, and consumed once it has its session. Nothing but the
// token's expiry frees an entry: were it evicted, a recorded session could be
// played again, with the same keys and nonces.
type history struct {
	max      int
	entries  map[tokenID]historyEntry
	earliest uint64 // no entry expires before
}

type historyEntry struct {
	addr     netip.AddrPort
	expires  uint64 // unix seconds; equal is expired
	consumed bool
}

func newHistory(maxEntries int) history {
	return history{max: maxEntries, entries: make(map[tokenID]historyEntry), earliest: math.MaxUint64}
}

// admit decides about a request with a token that has not expired. An unseen
// token becomes pending.
func (h *history) admit(now uint64, id tokenID, addr netip.AddrPort, expires uint64) DropReason {
	if e, ok := h.entries[id]; ok {
		if e.consumed || e.addr != addr {
			return DropTokenUsed
		}
		return DropNone // a retransmission
	}
	if len(h.entries) >= h.max {
		h.sweep(now)
	}
	if len(h.entries) >= h.max {
		return DropHistoryFull
	}
	h.entries[id] = historyEntry{addr: addr, expires: expires}
	h.earliest = min(h.earliest, expires)
	return DropNone
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
			delete(h.entries, id)
		} else {
			h.earliest = min(h.earliest, e.expires)
		}
	}
	if len(h.entries) == 0 { // give the memory back
		h.entries = make(map[tokenID]historyEntry)
	}
}
