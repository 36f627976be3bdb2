package netcode

import (
	"net/netip"
	"time"
)

// A handshake has the keys of a challenged client that has not answered yet.
type handshake struct {
	addr      netip.AddrPort
	clientKey Key
	serverKey Key
	id        tokenID
	timeout   time.Duration // of the session to be; zero: none
	deadline  time.Time     // of the handshake; zero: that of the token
	expires   uint64        // of the token, unix seconds
	place     uint8         // of this server in the token's list
	last      bool          // no server follows in the list
	anywhere  bool          // the session's sequence starts at random
	moves     bool          // a session is to go on as the one to be
	shown     time.Time     // when we saw the token first

	before, behind *handshake // in a queue
}

func (h *handshake) wipe() { *h = handshake{} }

// expired reports whether the answer is late. The token's expiry counts without a timeout only.
func (h *handshake) expired(now time.Time, wall uint64) bool {
	if h.timeout > 0 {
		return h.deadline.Before(now)
	}
	return h.expires <= wall
}

// handshakes is the bounded table of unfinished handshakes by address.
//
// While the table has room, a handshake lasts as long as its token's timeout. In a full
// table, a token has handshakeShare from when it was seen first, and then gives way to
// others. So clients that ask and never answer do not keep others out, neither by a long
// timeout nor by asking again.
type handshakes struct {
	max     int
	entries map[netip.AddrPort]*handshake
	swept   time.Time
	// The heads of two rings in the order of arrival, for tokens that arrived before
	// and after the end of their time. The heads are no handshakes.
	early, late *handshake
}

const (
	// sweepInterval bounds how often a full table is searched for expired entries.
	sweepInterval = time.Second
	// handshakeShare is the time of a token in a full table, about a hundred times
	// the duration of a handshake.
	handshakeShare = 10 * time.Second
)

func newHandshakes(maxEntries int) handshakes {
	return handshakes{
		max:     maxEntries,
		entries: make(map[netip.AddrPort]*handshake),
		early:   newRing(),
		late:    newRing(),
	}
}

func newRing() *handshake {
	h := new(handshake)
	h.before, h.behind = h, h
	return h
}

func (h *handshake) putBefore(other *handshake) {
	h.before, h.behind = other.before, other
	h.before.behind, other.before = h, h
}

func (h *handshake) overdue(now time.Time) bool { return now.Sub(h.shown) >= handshakeShare }

// put adds or replaces the handshake of an address and reports whether there was room.
// Reserve is how many places are not for this one.
func (t *handshakes) put(now time.Time, wall uint64, addr netip.AddrPort, h *handshake, reserve int) bool {
	former := t.entries[addr]
	if most := t.max - reserve; former == nil && len(t.entries) >= most && !t.makeRoom(now, wall, most) {
		return false
	}
	h.addr = addr
	switch {
	case former != nil && former.id == h.id:
		h.putBefore(former) // it keeps its place in the queue
	case h.overdue(now):
		h.putBefore(t.late)
	default:
		h.putBefore(t.early)
	}
	t.remove(addr)
	t.entries[addr] = h
	return true
}

// makeRoom forgets expired handshakes, or one that has had its time. True: there is room.
func (t *handshakes) makeRoom(now time.Time, wall uint64, most int) bool {
	if now.Sub(t.swept) >= sweepInterval {
		t.sweep(now, wall)
	}
	if len(t.entries) != most {
		return len(t.entries) < most
	}
	first := t.late.behind
	if first == t.late {
		first = t.early.behind
	}
	if first == t.early || !first.overdue(now) {
		return false
	}
	t.remove(first.addr)
	return true
}

// get returns the handshake of an address, nil if there is none or it has expired.
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
		h.before.behind, h.behind.before = h.behind, h.before
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
