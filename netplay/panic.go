package netplay

import (
	"fmt"
	"log/slog"
	"runtime/debug"
)

// A panicError ends a connection after a panic in a function of the application.
type panicError struct{ value any }

func (e *panicError) Error() string { return fmt.Sprintf("panic: %v", e.value) }

// Unwrap returns the value if it is an error.
func (e *panicError) Unwrap() error {
	err, _ := e.value.(error)
	return err
}

// caught logs a recovered panic of a function of the application, by the default Logger if
// there is no other, and returns it as an error.
func caught(l *slog.Logger, c *Conn, value any) error {
	if l == nil {
		l = slog.Default()
	}
	logTo(l, slog.LevelError, "a function of the application panicked", "peer", c.RemoteAddr(), "panic", value, "stack", string(debug.Stack()))
	return &panicError{value}
}

// guard calls OnDisconnect.
func guard(l *slog.Logger, c *Conn, f func()) {
	defer func() {
		if v := recover(); v != nil {
			caught(l, c, v)
		}
	}()
	f()
}
