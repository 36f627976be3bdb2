// Package watch tells a log of counters that have moved, so that what counts
// needs no log, and a flood of events makes few lines.
package watch

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

const (
	interval = time.Second      // between two looks at the counters
	pause    = 10 * time.Second // at least, between two lines about one of them
)

// An Event is something that an operator wants to know, and that is counted.
type Event struct {
	Level   slog.Level
	Message string
	// Total returns how often it has happened so far.
	Total func() uint64
	// Attrs, if not nil, returns more about it when a line is written.
	Attrs func() []slog.Attr
}

// A Watch looks at the counters of events each second, and writes a line for each
// that has moved, with how far, at most every ten seconds. It has no goroutine but
// while it looks, so the log may take its time. A nil *Watch does nothing.
type Watch struct {
	logger *slog.Logger
	events []Event

	mu    sync.Mutex
	timer *time.Timer
	state []state
	told  []line // by Tell, not written yet
	ended bool
}

// state is what was told of an Event.
type state struct {
	total uint64
	at    time.Time
}

type line struct {
	level slog.Level
	msg   string
	attrs []slog.Attr
}

// New returns a Watch over events, which begins with Start; nil for a nil logger.
func New(logger *slog.Logger, events ...Event) *Watch {
	if logger == nil {
		return nil
	}
	return &Watch{logger: logger, events: events, state: make([]state, len(events))}
}

// Start begins to look, once. Before it, Total and Attrs of the events are not called.
func (w *Watch) Start() {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	wait := interval
	if w.ended || len(w.told) > 0 {
		wait = 0
	}
	w.timer = time.AfterFunc(wait, w.look)
}

// soonLocked makes the next look one at once.
func (w *Watch) soonLocked() {
	if w.timer != nil {
		w.timer.Reset(0)
	}
}

// Tell writes a line, behind those about what has moved. It does not wait for it.
func (w *Watch) Tell(level slog.Level, msg string, attrs ...slog.Attr) {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.ended {
		w.told = append(w.told, line{level, msg, attrs})
		w.soonLocked()
	}
}

// Stop ends the Watch, after a last look. It does not wait for that.
func (w *Watch) Stop() {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.ended {
		w.ended = true
		w.soonLocked()
	}
}

// look runs on the timer's goroutine, one at a time, except when Tell or Stop comes meanwhile.
func (w *Watch) look() {
	w.mu.Lock()
	lines := append(w.linesLocked(time.Now()), w.told...)
	w.told = nil
	w.mu.Unlock()
	for _, l := range lines {
		w.logger.LogAttrs(context.Background(), l.level, l.msg, l.attrs...)
	}
	w.mu.Lock()
	if !w.ended && len(w.told) == 0 {
		w.timer.Reset(interval)
	}
	w.mu.Unlock()
}

func (w *Watch) linesLocked(now time.Time) (lines []line) {
	for i, e := range w.events {
		s := &w.state[i]
		total := e.Total()
		if total == s.total || !w.ended && !s.at.IsZero() && now.Sub(s.at) < pause {
			continue
		}
		if total < s.total {
			s.total = 0 // a counter of few bits
		}
		attrs := []slog.Attr{slog.Uint64("count", total-s.total)}
		if e.Attrs != nil {
			attrs = append(attrs, e.Attrs()...)
		}
		lines = append(lines, line{e.Level, e.Message, attrs})
		*s = state{total, now}
	}
	return lines
}
