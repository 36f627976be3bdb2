package netcode

import (
	"encoding/binary"
	"net/netip"
	"time"

	"volley/internal/wire"
)

// handleRequest answers a request that every rule admits with a challenge.
func (s *server) handleRequest(now time.Time, from netip.AddrPort, b []byte, out *wire.Batch) dropReason {
	wall := s.wall(now)
	r := &s.req
	key, reason := s.requests.check(b, wall, r)
	if reason != dropNone {
		return reason
	}
	begin := s.clock()
	if !s.requestTime.may(begin) {
		return dropFlood
	}
	defer func() { s.requestTime.took(s.clock() - begin) }()
	if reason := r.open(key, b); reason != dropNone {
		return reason
	}
	defer r.token.wipe()
	place := s.place(&r.token)
	if place < 0 {
		return dropNotListed
	}
	if s.sessions[from] != nil {
		return dropAddressConnected
	}
	if s.ids[r.token.clientID] != nil {
		return dropIDConnected
	}
	moves := false
	if s.cfg.ask != nil {
		var refused, early bool
		switch moves, refused, early = s.cfg.ask(now, r.token.userData[:]); {
		case refused:
			return dropTokenUsed
		case early:
			return dropNone // the client asks again
		}
	}
	spent := s.history.forgotten
	if r.fresh {
		spent = r.spent
	}
	shown, reason := s.history.admit(now, wall, r.id, from, r.expires, spent, s.reserve(moves, s.history.max))
	if reason != dropNone {
		return reason
	}
	if s.slots.full(s.most(moves)) {
		s.deny(&r.token.serverKey, place, out)
		return dropServerFull
	}
	h := newHandshake(now, shown, r, place)
	h.anywhere = !r.fresh && s.lasts(wall, r.expires) && !s.fromZero
	h.moves = moves
	if !s.handshakes.put(now, wall, from, h, s.reserve(moves, s.handshakes.max)) {
		return dropPendingFull
	}
	s.challenge(r, place, out)
	return dropNone
}

func newHandshake(now, shown time.Time, r *request, place int) *handshake {
	h := &handshake{
		clientKey: r.token.clientKey,
		serverKey: r.token.serverKey,
		id:        r.id,
		timeout:   r.token.idleTimeout(),
		expires:   r.expires,
		place:     uint8(place),
		last:      place == r.token.numServers-1,
		shown:     shown,
	}
	h.deadline = now.Add(h.timeout)
	return h
}

// challenge sends a challenge token to the address that the client claims.
func (s *server) challenge(r *request, place int, out *wire.Batch) {
	t := challengeToken{clientID: r.token.clientID, userData: r.token.userData}
	if !s.unbound {
		t.token = r.id
	}
	binary.LittleEndian.PutUint64(s.body[:], s.challengeSeq)
	s.challenges.seal(s.body[8:], s.challengeSeq, &t)
	s.challengeSeq++
	c := newPacketCipher(&r.token.serverKey, s.cfg.protocolID)
	defer c.wipe()
	c.seal(out, packetChallenge, s.nextGlobal(place), s.body[:])
	s.counts.challenges++
}

// handleResponse makes a session for an answered challenge, checking in the standard's order.
func (s *server) handleResponse(now time.Time, from netip.AddrPort, h *handshake, b []byte, out *wire.Batch) (sess *session, _ dropReason) {
	c := newPacketCipher(&h.clientKey, s.cfg.protocolID)
	defer func() {
		if sess == nil {
			c.wipe()
		}
	}()
	p, reason := c.open(b, setOf(packetResponse), nil)
	if reason != dropNone {
		return nil, reason
	}
	var t challengeToken
	if !s.challenges.open(p.body[8:], binary.LittleEndian.Uint64(p.body), &t) {
		return nil, dropChallenge
	}
	if !s.unbound && t.token != h.id {
		return nil, dropChallenge
	}
	if s.sessions[from] != nil {
		return nil, dropAddressConnected
	}
	if s.ids[t.clientID] != nil {
		return nil, dropIDConnected
	}
	if s.slots.full(s.most(h.moves)) {
		s.deny(&h.serverKey, int(h.place), out)
		return nil, dropServerFull
	}
	if s.cfg.ask != nil { // the session may have ended, or gone elsewhere, since the request
		if _, refused, _ := s.cfg.ask(now, t.userData[:]); refused {
			return nil, dropTokenUsed
		}
	}
	if h.moves { // from now on, Ask refuses the token
		s.history.release(h.id)
	} else {
		s.history.consume(h.id)
	}
	sess = s.accept(now, from, h, c, &t, out)
	s.handshakes.remove(from)
	return sess, dropNone
}

func (s *server) accept(now time.Time, from netip.AddrPort, h *handshake, c packetCipher, t *challengeToken, out *wire.Batch) *session {
	sess := &session{
		addr:       from,
		id:         t.clientID,
		index:      s.slots.take(),
		maxClients: uint32(s.cfg.maxClients),
		timeout:    h.timeout,
		interval:   s.cfg.interval,
		userData:   t.userData,
	}
	sess.send.cipher = newPacketCipher(&h.serverKey, s.cfg.protocolID)
	if h.anywhere {
		sess.send.startAnywhere(int(h.place), randomUint64())
	} else {
		sess.send.startAt(int(h.place), h.last)
	}
	sess.recv.cipher = c
	sess.recv.window = newReplayWindow(s.cfg.window)
	sess.recv.last = now
	s.sessions[from] = sess
	s.ids[sess.id] = sess
	s.counts.accepted++
	sess.sendKeepAlive(now, out)
	return sess
}

// reserve returns how many of a table's places are not for a token: where sessions can move,
// a quarter is for those that do.
func (s *server) reserve(moves bool, places int) int {
	if s.cfg.ask == nil || moves {
		return 0
	}
	return places / 4
}

// most returns how many slots there are for a token. A session that moves has two for a moment.
func (s *server) most(moves bool) uint32 {
	n := uint32(s.cfg.maxClients)
	if moves {
		n += max(1, n/4)
	}
	return n
}
