package volley

import (
	"volley/internal/datagram"
	"volley/simnet"
)

// A PipeConfig describes the two ends of a [Pipe] and the link between them.
type PipeConfig struct {
	// Config is for both connections; nil: the defaults.
	Config *Config
	// AtoB and BtoA describe the link in each direction. With both zero the
	// pipe is lossless.
	AtoB, BtoA simnet.Link
	// Seed determines what chance does to each datagram.
	Seed uint64
}

type pipeAddr string

func (pipeAddr) Network() string  { return "pipe" }
func (a pipeAddr) String() string { return string(a) }

// Pipe returns two connections in memory, joined to each other.
//
// With a nil cfg nothing is lost and the order is kept: Write waits until the
// other side has room, and after Close the other side reads what is left and
// then io.EOF. By default there are no keepalives and no idle timeout, for
// nothing can happen to such a link.
//
// With links that do something, datagrams cross a simulated network: messages
// may be lost or overtake each other, Write does not wait, and the other side
// learns of a Close only by its IdleTimeout, as over UDP. It works in real time
// and in a testing/synctest bubble, where real sockets have no place: dialed
// ones share a goroutine of the whole process.
func Pipe(cfg *PipeConfig) (a, b *Conn) {
	if cfg == nil {
		cfg = &PipeConfig{}
	}
	if cfg.AtoB == (simnet.Link{}) && cfg.BtoA == (simnet.Link{}) {
		return losslessPipe(cfg.Config)
	}
	x, y := simnet.Pair(cfg.Seed, cfg.AtoB, cfg.BtoA)
	return NewConn(x, cfg.Config), NewConn(y, cfg.Config)
}

func losslessPipe(cfg *Config) (a, b *Conn) {
	set, err := newSettings(sessionConfig(cfg), datagram.MaxUDP, nil)
	if err == nil {
		set.onClose = pipedConns.Ended
	}
	x, y := datagram.NewPipe(pipeAddr("a"), pipeAddr("b"))
	a, b = new(Conn), new(Conn)
	for _, end := range []struct {
		c  *Conn
		dc datagram.Conn
	}{{a, x}, {b, y}} {
		if end.c.start(end.dc, set, err) == nil {
			pipedConns.Add(end.c)
		}
	}
	return a, b
}
