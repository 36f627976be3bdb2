package volley

import "volley/internal/datagram"

type pipeAddr string

func (pipeAddr) Network() string  { return "pipe" }
func (a pipeAddr) String() string { return string(a) }

// Pipe returns two connections in memory, joined to each other. A nil cfg means the
// defaults, without keepalives and idle timeout.
//
// Nothing is lost and the order is kept. Write waits until the other side has room.
// After Close the other side reads what is left and then io.EOF. For connections
// that lose messages, call [NewConn] with both sockets of [volley/simnet.Pair].
// Both work in real time and in a testing/synctest bubble, where real sockets have
// no place.
func Pipe(cfg *Config) (a, b *Conn) {
	set, err := sessionSettings(cfg, datagram.MaxUDP)
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
