package netcode

import (
	"net/netip"
	"time"

	"volley/internal/wire"
)

// A session is one side of an established connection. Its two halves are
// independent: methods say which of them they touch.
type session struct {
	addr     netip.AddrPort // of the peer
	timeout  time.Duration  // zero: none
	interval time.Duration  // of keep alives; zero: see keepAliveAt
	// strict is a nanosecond at a client, whose times have to be exceeded,
	// and zero at a server, for which reaching them is enough.
	strict time.Duration

	// What a server knows of its client. A client sends zeros.
	client     bool // this is the client's side
	id         uint64
	index      uint32 // the slot
	maxClients uint32
	userData   [UserDataSize]byte

	send sender
	// confirmed: the client knows its index, for a packet of a connected
	// client has come. It belongs to the sending half.
	confirmed bool
	spoken    bool // a keep alive or payload has been sent; of the sending half

	recv receiver
}

// receive handles a datagram from the peer; the receiving half. Without a
// reason to drop it, the packet was authentic and of use: a keep alive, a
// payload, or a disconnect, after which the session is over.
func (s *session) receive(now time.Time, b []byte) (p packet, reason DropReason) {
	if p, reason = s.open(b); reason == DropNone {
		reason = s.accept(now, p)
	}
	if reason != DropNone {
		s.recv.drop(reason)
	}
	return p, reason
}

// open checks and decrypts a datagram; the receiving half.
func (s *session) open(b []byte) (packet, DropReason) {
	if s.client {
		return s.recv.open(b, clientTakes)
	}
	// What is left of the handshake is known without any cryptography.
	switch {
	case len(b) == 0:
		return packet{}, DropTooSmall
	case b[0] == byte(packetRequest):
		return packet{}, DropAddressConnected
	case packetType(b[0]&0xf) == packetResponse:
		return packet{}, DropState
	}
	return s.recv.open(b, sessionTakes)
}

// accept takes note of an authentic packet; the receiving half.
func (s *session) accept(now time.Time, p packet) DropReason {
	switch p.typ {
	case packetKeepAlive, packetPayload:
		s.recv.last = now
	case packetDisconnect:
	default:
		return DropState
	}
	return DropNone
}

// confirm notes that the client knows its index; the sending half.
func (s *session) confirm() { s.confirmed = true }

// sendPayload seals a payload of 1 to 1200 bytes; the sending half. Until a
// client is known to have its index, a keep alive tells it once more.
func (s *session) sendPayload(now time.Time, payload []byte, out *wire.Batch) {
	if !s.confirmed {
		s.sendKeepAlive(now, out)
	}
	s.spoken = true
	s.send.send(now, packetPayload, payload, out)
}

func (s *session) sendKeepAlive(now time.Time, out *wire.Batch) {
	s.spoken = true
	s.send.keepAlive(now, s.index, s.maxClients, out)
}

// keepAlive sends a keep alive if it is due and returns when the next one
// will be; the sending half.
func (s *session) keepAlive(now time.Time, out *wire.Batch) (next time.Time) {
	if !now.Before(s.keepAliveAt()) {
		s.sendKeepAlive(now, out)
	}
	return s.keepAliveAt()
}

// keepAliveAt returns when the next keep alive is due. Where no interval is
// configured, they are frequent until both sides know that there is a session,
// and then as rare as the timeout allows.
func (s *session) keepAliveAt() time.Time {
	interval := s.interval
	switch {
	case interval != 0:
	case !s.confirmed || !s.spoken:
		interval = sendInterval
	default:
		interval = quietInterval
		if s.timeout > 0 {
			interval = min(interval, s.timeout/10)
		}
	}
	return s.send.last.Add(interval + s.strict)
}

// deadline returns when the session times out unless something arrives, the
// zero time for never; the receiving half.
func (s *session) deadline() time.Time {
	if s.timeout <= 0 {
		return time.Time{}
	}
	return s.recv.last.Add(s.timeout + s.strict)
}

// timedOut reports whether the peer has been silent too long; the receiving
// half.
func (s *session) timedOut(now time.Time) bool {
	return s.timeout > 0 && !now.Before(s.deadline())
}
