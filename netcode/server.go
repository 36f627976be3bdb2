package netcode

import (
	"crypto/rand"
	"encoding/binary"
	"net/netip"
	"slices"
	"time"

	"volley/internal/wire"
)

// serverConfig holds the settings of a server core, without defaults.
type serverConfig struct {
	protocolID uint64
	privateKey Key              // zero: every request is refused; not kept
	addresses  []netip.AddrPort // of this server, as tokens list them
	maxClients int
	lifetime   time.Duration // of tokens, for the restart rule; not positive: off
	interval   time.Duration // of keep alives
	window     int           // size of replay windows
	// ask, if not nil, tells of a token's user data whether a session goes on with it, and
	// whether that is refused, or too early.
	ask func(now time.Time, userData []byte) (moves, refused, early bool)
}

// A server is the core of a server: handshakes and a list of sessions. It has no I/O and no
// lock. A session's packets touch only the session.
type server struct {
	cfg        serverConfig
	requests   requestReader
	challenges challengeCipher
	// Sequences of the next challenge token, and of the next packet to a client
	// without a session, see nextGlobal.
	challengeSeq, globalSeq uint64
	// wall returns the time that tokens are checked against, in unix seconds.
	wall func(now time.Time) uint64
	// clock measures the work on requests, which requestTime limits. As it is made, a server
	// has none, and looks at all.
	clock       func() time.Duration
	requestTime allowance
	unbound     bool // accept challenges without a token's identity, as recorded from other servers
	fromZero    bool // sessions count from 0 with any token, as recorded from other servers

	sessions   map[netip.AddrPort]*session
	ids        map[uint64]*session
	slots      slotList
	handshakes handshakes
	history    history
	counts     handshakeCounts

	// Kept, so that refusing a datagram does not allocate.
	req  request
	body [challengeBodySize]byte
}

// handshakeCounts are the figures of a server's handshakes.
type handshakeCounts struct {
	requests   uint64 // datagrams that claim to be requests
	responses  uint64 // datagrams that claim to be responses
	challenges uint64 // sent
	denied     uint64 // sent
	accepted   uint64 // sessions
	drops      dropCounts
}

// Capacities as multiples of the number of clients, not below the reference's with 256
// clients, because even a few slots can serve many clients in turn.
const (
	handshakesPerClient = 4
	tokensPerClient     = 8
	minHandshakes       = 1024
	minTokens           = 2048
)

// newServer starts a server at the given time. Its challenge key and the start of
// its global sequence are random, because tokens may be older than the server.
func newServer(now time.Time, cfg serverConfig) *server {
	s := &server{
		cfg:        cfg,
		globalSeq:  randomUint64() >> (64 - globalShareBits + 1),
		wall:       unixSeconds,
		clock:      func() time.Duration { return 0 },
		sessions:   make(map[netip.AddrPort]*session),
		ids:        make(map[uint64]*session),
		handshakes: newHandshakes(max(minHandshakes, handshakesPerClient*cfg.maxClients)),
		history:    newHistory(now, max(minTokens, tokensPerClient*cfg.maxClients), max(lastingAfter, 2*cfg.lifetime)),
	}
	key := GenerateKey()
	s.challenges = newChallengeCipher(&key)
	s.requests.protocolID = cfg.protocolID
	s.requests.keys = ringOf(&cfg.privateKey)
	s.history.keys = &s.requests.keys
	s.cfg.privateKey = Key{}
	if cfg.lifetime > 0 {
		s.requests.minExpires = unixSeconds(now) + s.lifetime()
	}
	return s
}

// lifetime returns the seconds that the restart rule looks ahead.
func (s *server) lifetime() uint64 { return uint64(wholeSeconds(s.cfg.lifetime, 0)) }

// lasts reports whether a server that starts later may admit a token that we have seen.
func (s *server) lasts(wall, expires uint64) bool {
	return s.cfg.lifetime <= 0 || expires-wall > s.lifetime()
}

func randomUint64() uint64 {
	var b [8]byte
	rand.Read(b[:])
	return binary.LittleEndian.Uint64(b[:])
}

func unixSeconds(now time.Time) uint64 { return uint64(max(now.Unix(), 0)) }

// receive handles a datagram without a session and appends a smaller answer, if any. If the
// client has proved its address, it returns the session, and the answer is its first packet.
func (s *server) receive(now time.Time, from netip.AddrPort, b []byte, out *wire.Batch) (*session, dropReason) {
	sess, reason := s.handle(now, from, b, out)
	if reason != dropNone {
		s.counts.drops[reason]++
	}
	return sess, reason
}

func (s *server) handle(now time.Time, from netip.AddrPort, b []byte, out *wire.Batch) (*session, dropReason) {
	if len(b) == 0 {
		return nil, dropTooSmall
	}
	if b[0] == byte(packetRequest) {
		s.counts.requests++
		return nil, s.handleRequest(now, from, b, out)
	}
	wall := s.wall(now)
	h := s.handshakes.get(now, wall, from)
	if h == nil {
		return nil, dropNoHandshake
	}
	if packetType(b[0]&0xf) != packetResponse {
		return nil, dropState
	}
	s.counts.responses++
	return s.handleResponse(now, from, h, b, out)
}

// A token's servers share its keys, so each needs its own nonces: sessions start at
// different sequences. Packets without a session have the highest bit set, and the server's
// place below.
const (
	sessionShareBits  = 40
	anywhereShareBits = 57
	globalShareBits   = 58
)

// nextGlobal returns the sequence for a packet to a client without a session, from
// a server at the given place in the list of the token.
func (s *server) nextGlobal(place int) uint64 {
	s.globalSeq++
	return globalSequenceStart + uint64(place)<<globalShareBits + s.globalSeq - 1
}

// deny tells the holder of a valid token that no slot is free.
func (s *server) deny(key *Key, place int, out *wire.Batch) {
	c := newPacketCipher(key, s.cfg.protocolID)
	defer c.wipe()
	c.seal(out, packetDenied, s.nextGlobal(place), nil)
	s.counts.denied++
}

func (s *server) remove(sess *session) {
	if s.sessions[sess.addr] != sess {
		return
	}
	delete(s.sessions, sess.addr)
	delete(s.ids, sess.id)
	s.slots.put(sess.index)
}

// tick forgets expired tokens and handshakes.
func (s *server) tick(now time.Time) {
	wall := s.wall(now)
	s.handshakes.sweep(now, wall)
	s.history.sweep(wall)
}

func (s *server) idle() bool { return len(s.handshakes.entries) == 0 && len(s.history.entries) == 0 }

// tickInterval is the time between two calls of tick.
const tickInterval = 5 * time.Second

// stop ends all handshakes and forgets keys and history. Sessions are the caller's to end.
func (s *server) stop() {
	wipeCipher(s.challenges.aead)
	s.requests.keys.wipe()
	s.challenges = challengeCipher{}
	s.requests = requestReader{}
	s.handshakes.wipe()
	s.history = newHistory(time.Time{}, 0, 0)
	s.req = request{}
	s.body = [challengeBodySize]byte{}
}

// place returns which server of a token's list this is, -1: none. A loopback address
// counts only if no other address is this server's.
func (s *server) place(p *privateToken) int {
	place := -1
	for i, ap := range p.servers[:p.numServers] {
		ap = unmap(ap)
		if !slices.Contains(s.cfg.addresses, ap) {
			continue
		}
		if !ap.Addr().IsLoopback() {
			return i
		}
		if place < 0 {
			place = i
		}
	}
	return place
}
