package netcode

import (
	"net/netip"
	"time"

	"volley/internal/wire"
)

// A session is a connected client, at the server. Its two halves are
// independent: methods say which of them they touch.
type session struct {
	addr       netip.AddrPort
	id         uint64
	index      uint32 // the slot
	maxClients uint32
	timeout    time.Duration // zero: none
	interval   time.Duration // of keep alives
	userData   [UserDataSize]byte

	send sender
	// confirmed: the client knows its index, for a packet of a connected
	// client has come. It belongs to the sending half.
	confirmed bool

	recv receiver
}

// receive handles a datagram from the client; the receiving half. ok means
// that the packet was authentic and of use: a keep alive, a payload, or a
// disconnect, after which the session is over.
func (s *session) receive(now time.Time, b []byte) (p packet, ok bool) {
	if reason := s.handshakeEcho(b); reason != DropNone {
		s.recv.drops[reason]++
		return packet{}, false
	}
	p, ok = s.recv.open(b, sessionTakes)
	if ok && p.typ != packetDisconnect {
		s.recv.last = now
	}
	return p, ok
}

// handshakeEcho recognizes the packets of a handshake that is over, without
// any cryptography.
func (s *session) handshakeEcho(b []byte) DropReason {
	switch {
	case len(b) == 0:
		return DropTooSmall
	case b[0] == byte(packetRequest):
		return DropAddressConnected
	case packetType(b[0]&0xf) == packetResponse:
		return DropState
	}
	return DropNone
}

// confirm notes that the client knows its index; the sending half.
func (s *session) confirm() { s.confirmed = true }

// sendPayload seals a payload of 1 to 1200 bytes; the sending half. Until the
// client is known to have its index, a keep alive tells it once more.
func (s *session) sendPayload(now time.Time, payload []byte, out *wire.Batch) {
	if !s.confirmed {
		s.send.keepAlive(now, s.index, s.maxClients, out)
	}
	s.send.send(now, packetPayload, payload, out)
}

// keepAlive sends a keep alive if it is due and returns when the next one
// will be; the sending half.
func (s *session) keepAlive(now time.Time, out *wire.Batch) (next time.Time) {
	if !now.Before(s.send.last.Add(s.interval)) {
		s.send.keepAlive(now, s.index, s.maxClients, out)
	}
	return s.send.last.Add(s.interval)
}

// deadline returns when the session times out unless something arrives, the
// zero time for never; the receiving half.
func (s *session) deadline() time.Time {
	if s.timeout <= 0 {
		return time.Time{}
	}
	return s.recv.last.Add(s.timeout)
}

// timedOut reports whether the client has been silent too long; the receiving
// half.
func (s *session) timedOut(now time.Time) bool {
	return s.timeout > 0 && !now.Before(s.deadline())
}
