package volley

import (
	"cmp"

	"volley/internal/datagram"
)

// Pipe returns two connections in memory, joined to each other. A nil cfg means the
// defaults, without keepalives and idle timeout.
//
// Nothing is lost and the order is kept. Write waits until the other side has room.
// After Close the other side reads what is left and then io.EOF. For connections
// that lose messages, call [NewConn] with both sockets of [volley/simnet.Pair].
// Pipe panics with a *[ConfigError] if cfg does not fit.
// Both work in real time and in a testing/synctest bubble, where real sockets have
// no place.
func Pipe(cfg *Config) (a, b *Conn) {
	set, err := (&wrapper{cfg: cfg}).sessionSettings(datagram.MaxUDP)
	x, y := datagram.NewPipe(datagram.PipeAddr{Net: "pipe", Name: "a"}, datagram.PipeAddr{Net: "pipe", Name: "b"})
	a, b = new(Conn), new(Conn)
	if err == nil {
		set.onClose = pipedConns.Ended
		err = cmp.Or(a.start(x, set), b.start(y, set))
	}
	if err != nil {
		panic(err)
	}
	pipedConns.Add(a)
	pipedConns.Add(b)
	return a, b
}
