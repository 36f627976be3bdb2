package netcode

import (
	"net"
	"net/netip"
	"sync/atomic"
	"time"

	"volley/internal/deadline"
	"volley/internal/socket"
)

// A pinned socket makes an unconnected socket look connected to one server at
// a time. Datagrams of others do not get through.
type pinned struct {
	socket.Socket
	server atomic.Pointer[netip.AddrPort]
}

// A pinnedWake is a pinned socket on a socket that can be read in turns.
type pinnedWake struct {
	*pinned
	below socket.WakeSocket

	// These belong to who reads.
	handle func([]socket.Packet) // of Serve or ServeOnce
	filter func([]socket.Packet) // made once
}

var (
	_ socket.StatsSocket = (*pinned)(nil)
	_ socket.WakeSocket  = (*pinnedWake)(nil)
)

// newPinned returns the socket, and what pins it to a server.
func newPinned(pc net.PacketConn, set *settings) (sock socket.Socket, pin func(netip.AddrPort), err error) {
	below, err := newSocket(pc, set)
	if err != nil {
		return nil, nil, err
	}
	s := &pinned{Socket: below}
	pin = func(server netip.AddrPort) { s.server.Store(&server) }
	if wake, ok := below.(socket.WakeSocket); ok {
		w := &pinnedWake{pinned: s, below: wake}
		w.filter = w.handleServer
		return w, pin, nil
	}
	return s, pin, nil
}

// keep moves the packets of the server to the front and returns them.
func (s *pinned) keep(ps []socket.Packet) []socket.Packet {
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
func (s *pinned) ReadBatch(ps []socket.Packet) (int, error) {
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

// Stats tells of the socket below.
func (s *pinned) Stats() socket.Stats {
	if below, ok := s.Socket.(socket.StatsSocket); ok {
		return below.Stats()
	}
	return socket.Stats{}
}

func (s *pinnedWake) handleServer(ps []socket.Packet) {
	if ps = s.keep(ps); len(ps) > 0 {
		s.handle(ps)
	}
}

// Serve implements socket.Server.
func (s *pinnedWake) Serve(handle func([]socket.Packet)) error {
	s.handle = handle
	return s.below.Serve(s.filter)
}

// ServeOnce implements socket.InlineSocket.
func (s *pinnedWake) ServeOnce(handle func([]socket.Packet)) error {
	s.handle = handle
	return s.below.ServeOnce(s.filter)
}

// SetReadDeadline implements socket.InlineSocket.
func (s *pinnedWake) SetReadDeadline(t time.Time) error { return s.below.SetReadDeadline(t) }

// WakeOnPacket implements socket.WakeSocket.
func (s *pinnedWake) WakeOnPacket(w socket.Sleeper) error { return s.below.WakeOnPacket(w) }

// WriteBatch sends to the server.
func (s *pinned) WriteBatch(ps []socket.Packet) (int, error) {
	s.address(ps)
	return s.Socket.WriteBatch(ps)
}

// WriteBatchBy implements socket.DeadlineSocket.
func (s *pinned) WriteBatchBy(ps []socket.Packet, d *deadline.Deadline) (int, error) {
	s.address(ps)
	if below, ok := s.Socket.(socket.DeadlineSocket); ok {
		return below.WriteBatchBy(ps, d)
	}
	return s.Socket.WriteBatch(ps)
}

func (s *pinned) address(ps []socket.Packet) {
	server := *s.server.Load()
	for i := range ps {
		ps[i].Addr = server
	}
}
