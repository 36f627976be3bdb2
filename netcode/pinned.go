package netcode

import (
	"net"
	"net/netip"
	"sync/atomic"
	"time"

	"volley/internal/datagram"
	"volley/internal/deadline"
)

// A pinned socket makes an unconnected socket look connected to one server at
// a time. Datagrams of others do not get through.
type pinned struct {
	datagram.Socket
	server atomic.Pointer[netip.AddrPort]
}

// A pinnedWake is a pinned socket on a socket that can be read in turns.
type pinnedWake struct {
	*pinned
	below datagram.WakeSocket

	// These belong to who reads.
	handle func([]datagram.Packet) // of Serve or ServeOnce
	filter func([]datagram.Packet) // made once
}

var (
	_ datagram.StatsSocket = (*pinned)(nil)
	_ datagram.WakeSocket  = (*pinnedWake)(nil)
)

// newPinned returns the socket, and what pins it to a server.
func newPinned(pc net.PacketConn, set *settings) (sock datagram.Socket, pin func(netip.AddrPort), err error) {
	below, err := newSocket(pc, set)
	if err != nil {
		return nil, nil, err
	}
	s := &pinned{Socket: below}
	pin = func(server netip.AddrPort) { s.server.Store(&server) }
	if wake, ok := below.(datagram.WakeSocket); ok {
		w := &pinnedWake{pinned: s, below: wake}
		w.filter = w.handleServer
		return w, pin, nil
	}
	return s, pin, nil
}

// keep moves the packets of the server to the front and returns them.
func (s *pinned) keep(ps []datagram.Packet) []datagram.Packet {
	server := *s.server.Load()
	kept := 0
	for i := range ps {
		if ps[i].Addr == server {
			ps[kept], ps[i] = ps[i], ps[kept]
			kept++
		}
	}
	return ps[:kept]
}

// ReadBatch waits for datagrams of the server.
func (s *pinned) ReadBatch(ps []datagram.Packet) (int, error) {
	for {
		n, err := s.Socket.ReadBatch(ps)
		if err != nil {
			return 0, err
		}
		if n = len(s.keep(ps[:n])); n > 0 {
			return n, nil
		}
	}
}

// SocketStats tells of the socket below.
func (s *pinned) SocketStats() datagram.SocketStats {
	if below, ok := s.Socket.(datagram.StatsSocket); ok {
		return below.SocketStats()
	}
	return datagram.SocketStats{}
}

func (s *pinnedWake) handleServer(ps []datagram.Packet) {
	if ps = s.keep(ps); len(ps) > 0 {
		s.handle(ps)
	}
}

// Serve implements datagram.Server.
func (s *pinnedWake) Serve(handle func([]datagram.Packet)) error {
	s.handle = handle
	return s.below.Serve(s.filter)
}

// ServeOnce implements datagram.InlineSocket.
func (s *pinnedWake) ServeOnce(handle func([]datagram.Packet)) error {
	s.handle = handle
	return s.below.ServeOnce(s.filter)
}

// SetReadDeadline implements datagram.InlineSocket.
func (s *pinnedWake) SetReadDeadline(t time.Time) error { return s.below.SetReadDeadline(t) }

// WakeOnPacket implements datagram.WakeSocket.
func (s *pinnedWake) WakeOnPacket(w datagram.Sleeper) error { return s.below.WakeOnPacket(w) }

// WriteBatch sends to the server.
func (s *pinned) WriteBatch(ps []datagram.Packet) (int, error) {
	s.address(ps)
	return s.Socket.WriteBatch(ps)
}

// WriteBatchBy implements datagram.DeadlineSocket.
func (s *pinned) WriteBatchBy(ps []datagram.Packet, d *deadline.Deadline) (int, error) {
	s.address(ps)
	if below, ok := s.Socket.(datagram.DeadlineSocket); ok {
		return below.WriteBatchBy(ps, d)
	}
	return s.Socket.WriteBatch(ps)
}

func (s *pinned) address(ps []datagram.Packet) {
	server := *s.server.Load()
	for i := range ps {
		ps[i].Addr = server
	}
}
