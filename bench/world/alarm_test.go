package world

import (
	"context"
	"log/slog"
	"strings"
)

// An alarm is a slog.Handler that notes panics, which the packages catch, and that a host has had no
// memory.
type alarm struct {
	slog.Handler
	*book
	host int
}

// Enabled implements slog.Handler.
func (a alarm) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelWarn }

// WithAttrs implements slog.Handler.
func (a alarm) WithAttrs([]slog.Attr) slog.Handler { return a }

// Handle implements slog.Handler.
func (a alarm) Handle(_ context.Context, r slog.Record) error {
	switch {
	case strings.Contains(r.Message, "panic"):
		r.Attrs(func(at slog.Attr) bool {
			a.fail("%s: %v", r.Message, at)
			return true
		})
	case strings.Contains(r.Message, "MaxMemory is reached"):
		a.tellShort(a.host)
	}
	return nil
}

func (b *book) logger(host int) *slog.Logger { return slog.New(alarm{slog.DiscardHandler, b, host}) }
