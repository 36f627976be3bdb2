package netcode

import (
	"net/netip"
	"time"

	"volley/internal/wire"
)

// A session is one side of a connection. Its halves are independent; methods name theirs.
type session struct {
	addr     netip.AddrPort // of the peer
	timeout  time.Duration  // zero: none
	interval time.Duration  // of keep alives; zero: see keepAliveAt
	// strict is a nanosecond at a client, which acts after a time has passed, and
	// zero at a server, which acts when it is reached.
	strict time.Duration

	client bool // this is the client's side

	// A server's figures of its client. A client sends zeros.
	id         uint64
	index      uint32 // the slot
	maxClients uint32
	userData   [UserDataSize]byte

	send sender
	// These belong to the sending half.
	confirmed bool // the client knows its index, because it has sent a packet as connected
	spoken    bool // a keep alive or payload has been sent

	recv receiver
}

// receive handles a datagram; the receiving half. Without a drop reason it is authentic.
func (s *session) receive(now time.Time, b []byte) (p packet, reason dropReason) {
	if p, reason = s.open(b); reason == dropNone {
		reason = s.accept(now, p)
	}
	if reason != dropNone {
		s.recv.drop(reason)
	}
	return p, reason
}

// open checks and decrypts a datagram; the receiving half.
func (s *session) open(b []byte) (packet, dropReason) {
	if s.client {
		return s.recv.cipher.open(b, clientTakes, &s.recv.window)
	}
	// Late packets of the handshake are known without cryptography.
	switch {
	case len(b) == 0:
		return packet{}, dropTooSmall
	case b[0] == byte(packetRequest):
		return packet{}, dropAddressConnected
	case packetType(b[0]&0xf) == packetResponse:
		return packet{}, dropState
	}
	return s.recv.cipher.open(b, sessionTakes, &s.recv.window)
}

// accept takes note of an authentic packet; the receiving half.
func (s *session) accept(now time.Time, p packet) dropReason {
	switch p.typ {
	case packetKeepAlive, packetPayload:
		s.recv.last = now
	case packetDisconnect:
	default:
		return dropState
	}
	return dropNone
}

// sendPayload seals 1 to 1200 bytes; the sending half. Keep alives go before it at first.
func (s *session) sendPayload(now time.Time, payload []byte, out *wire.Batch) {
	s.introduce(now, out)
	s.send.send(now, packetPayload, payload, out)
}

// sendBanded is sendPayload with a byte in front, for a payload of at most 1199 bytes.
func (s *session) sendBanded(now time.Time, band byte, payload []byte, out *wire.Batch) {
	s.introduce(now, out)
	s.send.sendBanded(now, band, payload, out)
}

func (s *session) introduce(now time.Time, out *wire.Batch) {
	if !s.confirmed {
		s.sendKeepAlive(now, out)
	}
	s.spoken = true
}

func (s *session) sendKeepAlive(now time.Time, out *wire.Batch) {
	s.spoken = true
	s.send.keepAlive(now, s.index, s.maxClients, out)
}

// keepAlive sends a keep alive if due, and returns the next time; of the sending half.
func (s *session) keepAlive(now time.Time, out *wire.Batch) (next time.Time) {
	if !now.Before(s.keepAliveAt()) {
		s.sendKeepAlive(now, out)
	}
	return s.keepAliveAt()
}

// keepAliveAt returns when the next one is due: soon at first, then by the timeout.
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

// deadline returns when the session times out, zero for never; of the receiving half.
func (s *session) deadline() time.Time {
	if s.timeout <= 0 {
		return time.Time{}
	}
	return s.recv.last.Add(s.timeout + s.strict)
}

// timedOut reports whether the peer has been silent too long; the receiving half.
func (s *session) timedOut(now time.Time) bool {
	return s.timeout > 0 && !now.Before(s.deadline())
}
