package porous

import (
	"context"
	"net"
	"time"
)

// wrapped is NewConn where that cannot fail.
func wrapped(inner net.Conn, cfg *Config) *Conn {
	c, err := NewConn(inner, cfg)
	if err != nil {
		panic(err)
	}
	return c
}

// Wrapped is wrapped for the tests outside of the package.
var Wrapped = wrapped

// acceptWithin waits for a connection for at most so long.
func acceptWithin(l *Listener, d time.Duration) (*Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	return l.AcceptConn(ctx)
}
