package netcode

import (
	"net/netip"
	"time"
)

// A handshake is a challenged client that has not answered yet: the keys for
// its address.
type handshake struct {
	clientKey Key
	serverKey Key
	id        tokenID
	timeout   time.Duration // of the session to be; zero: none
	deadline  time.Time     // of the handshake; zero: that of the token
	expires   uint64        // of the token, unix seconds
	place     uint8         // of this server in the token's list
	last      bool          // no server follows in the list
}

// wipe forgets the keys.
func (h *handshake) wipe() { *h = handshake{} }

// expired reports whether the answer comes too late. The token's own expiry
// ends only those handshakes that have no other end.
func (h *handshake) expired(now time.Time, wall uint64) bool {
	if h.timeout > 0 {
		return h.deadline.Before(now)
	}
	return h.expires <= wall
}

// handshakes is the bounded table of unfinished handshakes by address.
type handshakes struct {
	max     int
	entries map[netip.AddrPort]*handshake
	swept   time.Time
}

// sweepInterval bounds how often a full table is searched for what expired.
const sweepInterval = time.Second

func newHandshakes(maxEntries int) handshakes {
	return handshakes{max: maxEntries, entries: make(map[netip.AddrPort]*handshake)}
}

// put adds or replaces the handshake of an address and reports whether there
// was room.
func (t *handshakes) put(now time.Time, wall uint64, addr netip.AddrPort, h *handshake) bool {
	former, ok := t.entries[addr]
	if !ok && len(t.entries) >= t.max {
		if now.Sub(t.swept) >= sweepInterval {
			t.sweep(now, wall)
		}
		if len(t.entries) >= t.max {
			return false
		}
	}
	if ok {
		former.wipe()
	}
	t.entries[addr] = h
	return true
}

// get returns the handshake of an address, nil if there is none or its time
// is over.
func (t *handshakes) get(now time.Time, wall uint64, addr netip.AddrPort) *handshake {
	h := t.entries[addr]
	if h != nil && h.expired(now, wall) {
		t.remove(addr)
		return nil
	}
	return h
}

// remove forgets the handshake of an address, and its keys.
func (t *handshakes) remove(addr netip.AddrPort) {
	if h := t.entries[addr]; h != nil {
		h.wipe()
		delete(t.entries, addr)
	}
}

// wipe forgets all handshakes and takes no more.
func (t *handshakes) wipe() {
	for _, h := range t.entries {
		h.wipe()
	}
	*t = newHandshakes(0)
}

// sweep forgets expired handshakes.
func (t *handshakes) sweep(now time.Time, wall uint64) {
	t.swept = now
	for addr, h := range t.entries {
		if h.expired(now, wall) {
			t.remove(addr)
		}
	}
	if len(t.entries) == 0 {
		t.entries = make(map[netip.AddrPort]*handshake)
	}
}
