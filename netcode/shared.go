package netcode

import (
	"context"
	"log/slog"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"volley/internal/listen"
)

// shared has the counters and the log of a Listener's sessions. A nil *shared does nothing.
type shared struct {
	drops    [numDropReasons]atomic.Uint64
	timeouts atomic.Uint64
	logger   *slog.Logger // may be nil

	memory   listen.Budget
	departed departed

	logMu  sync.Mutex
	logged [numDropReasons]logState
}

// logState limits the log to one line a second for each reason.
type logState struct {
	last  time.Time
	count int // since the last line
}

const logInterval = time.Second

func (s *shared) drop(r dropReason, from netip.AddrPort) {
	if s == nil {
		return
	}
	s.drops[r].Add(1)
	if s.logger != nil {
		s.log(r, from)
	}
}

func (s *shared) timedOut() {
	if s != nil {
		s.timeouts.Add(1)
	}
}

// logLevel returns the level of a reason, higher if an operator can act on it.
func (r dropReason) logLevel() slog.Level {
	switch r {
	case dropProtocolID, dropTokenDecrypt, dropTokenExpired, dropTokenTooOld, dropNotListed,
		dropHistoryFull, dropServerFull, dropPendingFull, dropQueueFull:
		return slog.LevelWarn
	case dropTokenUsed, dropIDConnected, dropVersion, dropServerCount, dropAddressType:
		return slog.LevelInfo
	}
	return slog.LevelDebug
}

func (s *shared) log(r dropReason, from netip.AddrPort) {
	ctx, level := context.Background(), r.logLevel()
	if !s.logger.Enabled(ctx, level) {
		return
	}
	if n := s.logDue(r); n > 0 {
		s.logger.LogAttrs(ctx, level, "netcode: datagram dropped",
			slog.String("reason", r.String()), slog.Any("from", from), slog.Int("count", n))
	}
}

// logDue returns how many drops to log in a line now, zero for no line.
func (s *shared) logDue(r dropReason) int {
	now := time.Now()
	s.logMu.Lock()
	defer s.logMu.Unlock()
	l := &s.logged[r]
	l.count++
	if !l.last.IsZero() && now.Sub(l.last) < logInterval {
		return 0
	}
	n := l.count
	l.last, l.count = now, 0
	return n
}

// maxDeparted bounds how many addresses departed knows.
const maxDeparted = 1024

// departed knows the addresses whose peers have just ended. The nine packets that follow the
// first of an end are no drops worth a look. Their keys are gone, so forged ones are not
// counted either. When full, it forgets all.
type departed struct {
	mu     sync.Mutex
	expect map[netip.AddrPort]uint8 // how many more
}

// add notes that a peer has ended its session.
func (d *departed) add(addr netip.AddrPort) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.expect == nil || len(d.expect) >= maxDeparted {
		d.expect = make(map[netip.AddrPort]uint8)
	}
	d.expect[addr] = disconnectPackets - 1
}

// takes reports whether a datagram without a session is one of the nine.
func (d *departed) takes(addr netip.AddrPort, b []byte) bool {
	if len(b) == 0 || packetType(b[0]&0xf) != packetDisconnect {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	n := d.expect[addr]
	switch n {
	case 0:
		return false
	case 1:
		delete(d.expect, addr)
	default:
		d.expect[addr] = n - 1
	}
	return true
}
