package porous

import (
	"volley/internal/datagram"
)

type pipeAddr string

func (pipeAddr) Network() string  { return "porous-pipe" }
func (a pipeAddr) String() string { return string(a) }

// Pipe returns two connections in memory, joined to each other, for tests:
// everything is framed and acknowledged as between machines, but nothing is
// lost and the order is kept. It works in real time and in a testing/synctest
// bubble. A nil cfg means the defaults. With one that does not fit every call
// returns the *[ConfigError]. For links that do something, use NewConn on the
// sockets of package simnet.
func Pipe(cfg *Config) (a, b *Conn) {
	x, y := datagram.NewPipe(pipeAddr("a"), pipeAddr("b"))
	a, b = new(Conn), new(Conn)
	set, err := newSettings(cfg, datagram.MaxUDP)
	for _, end := range []struct {
		c  *Conn
		dc datagram.Conn
	}{{a, x}, {b, y}} {
		failed := err
		if failed == nil {
			end.c.onGone = func() { pipedConns.Ended(end.c) }
			failed = end.c.start(end.dc, set, randomIDs())
		}
		if failed != nil {
			end.c.fail(end.dc, failed)
		} else {
			pipedConns.Add(end.c)
		}
	}
	return a, b
}
