package datagram

import (
	"errors"
	"io"
	"net"
	"time"
)

// connSocket makes a Socket of any connected net.Conn that preserves message
// boundaries.
type connSocket struct {
	net.Conn
	buf []byte
}

// NewConnSocket returns a Socket on c, which it takes over. Received datagrams
// of more than maxDatagram bytes are cut, and so become invalid to the layer
// above.
func NewConnSocket(c net.Conn, maxDatagram int) Socket {
	return &connSocket{Conn: c, buf: make([]byte, maxDatagram+1)}
}

func (s *connSocket) ReadBatch(ps []Packet) (int, error) {
	n, err := s.Read(s.buf)
	if err != nil && (n == 0 || !errors.Is(err, io.ErrShortBuffer)) {
		return 0, err
	}
	ps[0] = Packet{Buf: s.buf[:n]}
	return 1, nil
}

func (s *connSocket) WriteBatch(ps []Packet) (int, error) {
	for i := range ps {
		rest := ps[i].Buf
		for rest != nil {
			var d []byte
			d, rest = nextDatagram(rest, ps[i].Segment)
			if _, err := s.Write(d); err != nil {
				return i, err
			}
		}
	}
	return len(ps), nil
}

// unknownAddr stands for an address that a foreign net.Conn does not tell.
type unknownAddr struct{}

func (unknownAddr) Network() string { return "unknown" }
func (unknownAddr) String() string  { return "unknown" }

func known(a net.Addr) net.Addr {
	if a == nil {
		return unknownAddr{}
	}
	return a
}

// NewForeign returns a Conn on any net.Conn that preserves message boundaries,
// which it takes over.
func NewForeign(c net.Conn, maxDatagram int) *Single {
	c.SetDeadline(time.Time{})
	return NewSingle(NewConnSocket(c, maxDatagram), known(c.LocalAddr()), known(c.RemoteAddr()), maxDatagram)
}
