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
	below  socket.Features
	server atomic.Pointer[netip.AddrPort]

	// These belong to who reads.
	handle func([]socket.Packet) // of ReadLoop or ReadStep
	filter func([]socket.Packet) // made once
}

// newPinned returns the socket, and what pins it to a server.
func newPinned(pc net.PacketConn, set *settings) (sock socket.Socket, pin func(netip.AddrPort), err error) {
	below, err := newSocket(pc, set)
	if err != nil {
		return nil, nil, err
	}
	s := &pinned{Socket: below, below: below.Features()}
	s.filter = s.handleServer
	return s, func(server netip.AddrPort) { s.server.Store(&server) }, nil
}

// Features are those of the socket below.
func (s *pinned) Features() socket.Features {
	f := s.below
	if f.Loop != nil {
		f.Loop = s
	}
	if f.Steps != nil {
		f.Steps = s
	}
	if f.Late != nil {
		f.Late = s
	}
	return f
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

func (s *pinned) handleServer(ps []socket.Packet) {
	if ps = s.keep(ps); len(ps) > 0 {
		s.handle(ps)
	}
}

// ReadLoop implements socket.Looper.
func (s *pinned) ReadLoop(handle func([]socket.Packet)) error {
	s.handle = handle
	return s.below.Loop.ReadLoop(s.filter)
}

// ReadStep implements socket.Stepper.
func (s *pinned) ReadStep(handle func([]socket.Packet)) error {
	s.handle = handle
	return s.below.Steps.ReadStep(s.filter)
}

// SetReadDeadline implements socket.Stepper.
func (s *pinned) SetReadDeadline(t time.Time) error { return s.below.Steps.SetReadDeadline(t) }

// WriteBatch sends to the server.
func (s *pinned) WriteBatch(ps []socket.Packet) (int, error) {
	s.address(ps)
	return s.Socket.WriteBatch(ps)
}

// WriteBatchBy implements socket.DeadlineWriter.
func (s *pinned) WriteBatchBy(ps []socket.Packet, d *deadline.Deadline) (int, error) {
	s.address(ps)
	return s.below.Late.WriteBatchBy(ps, d)
}

func (s *pinned) address(ps []socket.Packet) {
	server := *s.server.Load()
	for i := range ps {
		ps[i].Addr = server
	}
}
