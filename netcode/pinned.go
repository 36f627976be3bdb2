package netcode

import (
	"net"
	"net/netip"
	"sync/atomic"

	"volley/internal/datagram"
)

// A pinned socket makes an unconnected socket look connected to one server at
// a time. Datagrams of others do not get through.
type pinned struct {
	datagram.Socket
	server atomic.Pointer[netip.AddrPort]
}

func newPinned(pc net.PacketConn, set *settings) (*pinned, error) {
	sock, err := newSocket(pc, set)
	if err != nil {
		return nil, err
	}
	return &pinned{Socket: sock}, nil
}

func (s *pinned) pin(server netip.AddrPort) { s.server.Store(&server) }

// ReadBatch waits for datagrams of the server.
func (s *pinned) ReadBatch(ps []datagram.Packet) (int, error) {
	for {
		n, err := s.Socket.ReadBatch(ps)
		if err != nil {
			return 0, err
		}
		server := *s.server.Load()
		kept := 0
		for i := range ps[:n] {
			if ps[i].Addr == server {
				ps[kept], ps[i] = ps[i], ps[kept]
				kept++
			}
		}
		if kept > 0 {
			return kept, nil
		}
	}
}

// WriteBatch sends to the server.
func (s *pinned) WriteBatch(ps []datagram.Packet) (int, error) {
	server := *s.server.Load()
	for i := range ps {
		ps[i].Addr = server
	}
	return s.Socket.WriteBatch(ps)
}
