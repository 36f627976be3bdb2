package stacktest

import (
	"net"
	"net/netip"
	"time"

	"volley/internal/datagram"
	"volley/internal/socket"
	"volley/internal/wire"
)

// A toySocket accepts and dials.
type toySocket struct {
	mux      *datagram.Mux
	accepted chan *toy
}

func newToySocket(pc net.PacketConn) (*toySocket, error) {
	sock, err := socket.New(pc, socket.Config{})
	if err != nil {
		return nil, err
	}
	s := &toySocket{accepted: make(chan *toy, 10)}
	cfg := datagram.MuxConfig{Acceptor: s, MaxDatagram: 1 + toyMessage, Tombstone: time.Second, MaxTombstones: 9}
	s.mux = datagram.NewMux(sock, cfg)
	s.mux.Start()
	return s, nil
}

// Dial connects to an address, also to one that dials us at the same time.
func (s *toySocket) Dial(to netip.AddrPort) (*toy, error) {
	dc, err := s.mux.Dial(to)
	if err != nil {
		return nil, err
	}
	c, err := newToy(dc)
	if err == nil {
		err = c.Write(toyHello, nil)
	}
	return c, err
}

// HandleUnknown lets in who says hello, and tells who is late that it is over.
func (s *toySocket) HandleUnknown(_ time.Time, _ netip.AddrPort, late bool, bufs [][]byte, out *wire.Batch) datagram.Admit {
	if len(bufs[0]) == 1 && bufs[0][0] == toyHello {
		return s.admit
	}
	if late {
		out.Append([]byte{toyBye})
	}
	return nil
}

// admit makes a connection. It must not wait: who calls it reads for all peers.
func (s *toySocket) admit(_ time.Time, dc datagram.Conn) {
	c, err := newToy(dc)
	if err != nil {
		return
	}
	select {
	case s.accepted <- c:
	default:
		c.Close()
	}
}
