package netplay

import (
	"fmt"
	"log/slog"
	"runtime/debug"
)

// A panicError is the end of a connection for which a function of the application
// has panicked.
type panicError struct{ value any }

func (e *panicError) Error() string { return fmt.Sprintf("panic: %v", e.value) }

// Unwrap returns the value if it is an error.
func (e *panicError) Unwrap() error {
	err, _ := e.value.(error)
	return err
}

// caught logs what a function of the application has panicked with, and returns it
// as an error. It is called by the deferred function that has recovered. A panic is
// not to go unnoticed, so it goes to the default Logger if there is no other.
func caught(l *slog.Logger, c *Conn, value any) error {
	if l == nil {
		l = slog.Default()
	}
	logTo(l, slog.LevelError, "a function of the application panicked", "peer", c.RemoteAddr(), "panic", value, "stack", string(debug.Stack()))
	return &panicError{value}
}

// guard calls a function of the application that learns of the end of c.
func guard(l *slog.Logger, c *Conn, f func()) {
	defer func() {
		if v := recover(); v != nil {
			caught(l, c, v)
		}
	}()
	f()
}
