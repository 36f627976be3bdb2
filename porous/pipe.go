package porous

import "volley/internal/datagram"

// Pipe returns two connections in memory, joined to each other, for tests: everything
// is framed and acknowledged as between machines, but nothing is lost and the order is
// kept. It works in real time and in a testing/synctest bubble. A nil cfg means the
// defaults. Pipe panics with the *[ConfigError] if cfg cannot be used. For links that
// lose or delay, use NewConn on the sockets of package simnet.
func Pipe(cfg *Config) (a, b *Conn) {
	x, y := datagram.NewPipe(datagram.PipeAddr{Net: "porous-pipe", Name: "a"}, datagram.PipeAddr{Net: "porous-pipe", Name: "b"})
	return pipeEnd(x, cfg), pipeEnd(y, cfg)
}

func pipeEnd(dc datagram.Conn, cfg *Config) *Conn {
	c := new(Conn)
	set, err := newSettings(cfg, datagram.MaxUDP)
	if err == nil {
		err = c.startIn(pipedConns, dc, set)
	}
	if err != nil {
		panic(err)
	}
	return c
}
