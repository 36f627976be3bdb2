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

// shared is what the sessions of a Listener have in common: counters, and a
// log of what was dropped. A nil *shared counts nothing.
type shared struct {
	drops    [NumDropReasons]atomic.Uint64
	timeouts atomic.Uint64
	logger   *slog.Logger // may be nil

	memory   listen.Budget
	departed departed

	logMu  sync.Mutex
	logged [NumDropReasons]logState
}

// logState limits the log to one line a second for each reason, so that no
// flood of datagrams becomes a flood of lines.
type logState struct {
	last  time.Time
	count int // since the last line
}

const logInterval = time.Second

// drop counts a dropped datagram.
func (s *shared) drop(r DropReason, from netip.AddrPort) {
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

// logLevel returns how interesting a reason is: what an operator may have
// configured wrongly, or will want to know, is more than noise.
func (r DropReason) logLevel() slog.Level {
	switch r {
	case DropProtocolID, DropTokenDecrypt, DropTokenExpired, DropTokenTooOld, DropNotListed,
		DropHistoryFull, DropServerFull, DropPendingFull, DropQueueFull:
		return slog.LevelWarn
	case DropTokenUsed, DropIDConnected, DropVersion, DropServerCount, DropAddressType:
		return slog.LevelInfo
	}
	return slog.LevelDebug
}

func (s *shared) log(r DropReason, from netip.AddrPort) {
	ctx, level := context.Background(), r.logLevel()
	if !s.logger.Enabled(ctx, level) {
		return
	}
	if n := s.logDue(r); n > 0 {
		s.logger.LogAttrs(ctx, level, "netcode: datagram dropped",
			slog.String("reason", r.String()), slog.Any("from", from), slog.Int("count", n))
	}
}

// logDue returns how many drops the line to be written now stands for, zero
// for: no line now.
func (s *shared) logDue(r DropReason) int {
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
