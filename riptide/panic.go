package riptide

import (
	"context"
	"errors"
	"log/slog"
	"runtime/debug"
)

// errPanicked is the error of Server.Accept if it has panicked.
var errPanicked = errors.New("riptide: Accept panicked")

// logPanic logs what a function of the application has panicked with. It is called
// by the deferred function that has recovered. A panic is not to go unnoticed, so it
// goes to the default Logger if there is no other.
func logPanic(l *slog.Logger, value any, attrs ...slog.Attr) {
	if l == nil {
		l = slog.Default()
	}
	attrs = append(attrs, slog.Any("panic", value), slog.String("stack", string(debug.Stack())))
	l.LogAttrs(context.Background(), slog.LevelError, "riptide: a function of the application panicked", attrs...)
}
