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

// shared belongs to all sessions of a Listener: counters, and a log of drops. A nil
// *shared counts nothing.
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

// drop counts a dropped datagram.
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

// logLevel returns the level of a reason. It is higher for reasons that an operator can
// act on.
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
