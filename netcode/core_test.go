package netcode

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"volley/internal/wire"
)

// Test support: a server core and clients of it, joined by function calls.

var (
	testKey        = Key{1, 2, 3}
	testServerAddr = netip.MustParseAddrPort("10.0.0.1:7777")
	testStart      = time.Unix(1_800_000_000, 0)
)

const testProtocol = 0x1122334455667788

func testServerConfig() serverConfig {
	return serverConfig{
		protocolID: testProtocol,
		privateKey: testKey,
		addresses:  []netip.AddrPort{testServerAddr},
		maxClients: 64,
		lifetime:   defaultTokenLifetime,
		interval:   sendInterval,
		window:     defaultWindow,
	}
}

func newTestServer(change func(*serverConfig)) *server {
	cfg := testServerConfig()
	if change != nil {
		change(&cfg)
	}
	return newServer(testStart, cfg)
}

func testIssuer() *Issuer {
	return &Issuer{PrivateKey: testKey, ProtocolID: testProtocol, Servers: []netip.AddrPort{testServerAddr}, Timeout: 5 * time.Second}
}

// issueAt returns a token issued at the given time.
func issueAt(tb testing.TB, now time.Time, id uint64) *Token {
	tb.Helper()
	tok, err := testIssuer().issue(now, id, nil, GenerateKey(), GenerateKey(), randomNonce())
	if err != nil {
		tb.Fatal(err)
	}
	return tok
}

// clientAddr returns an address for client number i.
func clientAddr(i int) netip.AddrPort {
	var a [4]byte
	binary.BigEndian.PutUint32(a[:], 0x0b000000+uint32(i))
	return netip.AddrPortFrom(netip.AddrFrom4(a), 5000)
}

func newTestClient(now time.Time, tok *Token) *client {
	c := newClient(clientConfig{interval: sendInterval, window: defaultWindow})
	c.connect(now, tok)
	return c
}

// take returns copies of the datagrams of b and empties it.
func take(b *wire.Batch) (ds [][]byte) {
	for i := range b.Len() {
		ds = append(ds, bytes.Clone(b.At(i)))
	}
	b.Reset()
	return ds
}

// clientSends returns what the client sends at this time.
func clientSends(c *client, now time.Time) [][]byte {
	var out wire.Batch
	c.advance(now, &out)
	return take(&out)
}

// serverHandles gives a datagram to the server, as from an address without a
// session.
func serverHandles(s *server, now time.Time, from netip.AddrPort, b []byte) (*session, [][]byte) {
	var out wire.Batch
	sess, _ := s.receive(now, from, bytes.Clone(b), &out)
	return sess, take(&out)
}

// A recording is what went over the wire in a session.
type recording struct {
	toServer, toClient [][]byte
}

// handshake connects a client and records the datagrams.
func connectPair(tb testing.TB, s *server, now time.Time, from netip.AddrPort, tok *Token) (*client, *session, *recording) {
	tb.Helper()
	c, rec := newTestClient(now, tok), new(recording)
	var sess *session
	for range 2 { // request, response
		for _, b := range clientSends(c, now) {
			rec.toServer = append(rec.toServer, b)
			accepted, answers := serverHandles(s, now, from, b)
			if accepted != nil {
				sess = accepted
			}
			for _, a := range answers {
				rec.toClient = append(rec.toClient, a)
				c.receive(now, testServerAddr, bytes.Clone(a))
			}
		}
	}
	if c.state != stateConnected || sess == nil {
		tb.Fatalf("client is %v, session %v; drops %v", c.state, sess, s.counts.drops.labeled())
	}
	return c, sess, rec
}

func (t packetType) String() string {
	return [...]string{"request", "denied", "challenge", "response", "keep_alive", "payload", "disconnect", "invalid"}[t]
}

func (s state) String() string {
	if s < stateTokenExpired || s > stateConnected {
		return fmt.Sprintf("State(%d)", int(s))
	}
	return [...]string{
		"token expired", "invalid token", "timed out", "response timed out", "request timed out",
		"denied", "disconnected", "requesting", "responding", "connected",
	}[s-stateTokenExpired]
}

// dropped returns how many datagrams were dropped.
func (r *receiver) dropped() (d dropCounts) {
	if r.drops != nil {
		d = *r.drops
	}
	return d
}

func parseToken(b []byte) (*Token, error) {
	t := new(Token)
	return t, t.UnmarshalBinary(b)
}

// tick calls s.tick and returns the time of the next call, zero for never.
func tick(s *server, now time.Time) (next time.Time) {
	s.tick(now)
	if s.idle() {
		return time.Time{}
	}
	return now.Add(tickInterval)
}

func sealed(f func(out *wire.Batch)) []byte {
	var out wire.Batch
	f(&out)
	return bytes.Clone(out.At(out.Len() - 1))
}

func TestHandshake(t *testing.T) {
	s := newTestServer(nil)
	tok, err := testIssuer().issue(testStart, 42, []byte("hello"), GenerateKey(), GenerateKey(), randomNonce())
	if err != nil {
		t.Fatal(err)
	}
	c, sess, _ := connectPair(t, s, testStart, clientAddr(1), tok)
	if sess.id != 42 || string(sess.userData[:5]) != "hello" || sess.addr != clientAddr(1) {
		t.Errorf("session of %d at %v with %q", sess.id, sess.addr, sess.userData[:5])
	}
	if c.slot != 0 || c.slots != 64 {
		t.Errorf("index, slots = %d, %d, want 0, 64", c.slot, c.slots)
	}
	now := testStart.Add(time.Millisecond)
	b := sealed(func(out *wire.Batch) { c.sendPayload(now, []byte("ping"), out) })
	if p, reason := sess.receive(now, b); reason != dropNone || string(p.body) != "ping" {
		t.Errorf("server received %q, %v", p.body, reason)
	}
	b = sealed(func(out *wire.Batch) { sess.sendPayload(now, []byte("pong"), out) })
	if p := c.receive(now, testServerAddr, b); string(p) != "pong" {
		t.Errorf("client received %q", p)
	}
	b = sealed(func(out *wire.Batch) { c.disconnect(now, out) })
	if p, reason := sess.receive(now, b); reason != dropNone || p.typ != packetDisconnect {
		t.Errorf("server received %v, %v, want a disconnect", p.typ, reason)
	}
	if c.state != stateDisconnected {
		t.Errorf("client is %v after disconnecting", c.state)
	}
}

// TestIdleClientStaysConnected runs an hour of keep alives in both directions.
func TestIdleClientStaysConnected(t *testing.T) {
	s := newTestServer(nil)
	now := testStart
	c, sess, _ := connectPair(t, s, now, clientAddr(1), issueAt(t, now, 1))
	var out wire.Batch
	for now.Sub(testStart) < time.Hour {
		next := c.advance(now, &out)
		for _, b := range take(&out) {
			if _, reason := sess.receive(now, b); reason == dropNone {
				sess.confirmed = true
			}
		}
		next = earlier(next, sess.keepAlive(now, &out))
		for _, b := range take(&out) {
			c.receive(now, testServerAddr, b)
		}
		if c.state != stateConnected || sess.timedOut(now) {
			t.Fatalf("after %v: client %v, server timed out: %v", now.Sub(testStart), c.state, sess.timedOut(now))
		}
		if !next.After(now) {
			t.Fatalf("next call at %v, now is %v", next, now)
		}
		now = next
	}
	if n := c.send.seq; n < 35_000 || n > 36_100 {
		t.Errorf("the client sent %d packets in an hour, want about 36,000", n)
	}
	if sess.recv.drops != nil || c.recv.drops != nil {
		t.Errorf("drops: %v, %v", sess.recv.drops.labeled(), c.recv.drops.labeled())
	}
}

func TestClientFallsThroughServers(t *testing.T) {
	is := testIssuer()
	for i := range 3 {
		is.Servers = append(is.Servers, netip.AddrPortFrom(testServerAddr.Addr(), uint16(8000+i)))
	}
	tok, err := is.issue(testStart, 1, nil, GenerateKey(), GenerateKey(), randomNonce())
	if err != nil {
		t.Fatal(err)
	}
	c := newTestClient(testStart, tok)
	var out wire.Batch
	sent := make(map[netip.AddrPort]int)
	now := testStart
	for !now.IsZero() && now.Sub(testStart) < time.Minute {
		to := c.serverAddr()
		next := c.advance(now, &out)
		sent[to] += len(take(&out))
		if next.IsZero() {
			break
		}
		now = next
	}
	if c.state != stateRequestTimedOut || len(c.attempts) != 4 {
		t.Fatalf("state %v after %d attempts, want request timed out after 4", c.state, len(c.attempts))
	}
	for i, a := range c.attempts {
		if a.server != tok.servers[i] || a.state != stateRequestTimedOut || sent[a.server] < 50 {
			t.Errorf("attempt %d = %+v with %d packets, want %v", i, a, sent[a.server], tok.servers[i])
		}
	}
	if d := now.Sub(testStart); d < 20*time.Second || d > 21*time.Second {
		t.Errorf("four servers took %v, want 20 s", d)
	}
}

// The servers of a token share its keys, and those of the reference all count from 0:
// what the first one has sent is no replay of the second one's.
func TestNextServerCountsAnew(t *testing.T) {
	is := testIssuer()
	is.Servers = append(is.Servers, netip.AddrPortFrom(testServerAddr.Addr(), 8000))
	tok, err := is.issue(testStart, 1, nil, GenerateKey(), GenerateKey(), randomNonce())
	if err != nil {
		t.Fatal(err)
	}
	c := newTestClient(testStart, tok)
	now := testStart
	for i, first := range []uint64{5000, 0} {
		clientSends(c, now)
		s := sender{cipher: newPacketCipher(&tok.serverKey, tok.protocolID), seq: first}
		receive := func(f func(out *wire.Batch)) { c.receive(now, tok.servers[i], sealed(f)) }
		receive(func(out *wire.Batch) { s.send(now, packetChallenge, make([]byte, challengeBodySize), out) })
		if c.state != stateResponding {
			t.Fatalf("server %d: state %v after the challenge", i, c.state)
		}
		if i == 0 { // its keep alive is lost, what it sends after that is not, and then it is silent
			receive(func(out *wire.Batch) { s.send(now, packetPayload, []byte("hello"), out) })
			now = now.Add(6 * time.Second)
			continue
		}
		receive(func(out *wire.Batch) { s.keepAlive(now, 3, 10, out) })
	}
	if c.state != stateConnected || c.slot != 3 {
		t.Errorf("state %v, slot %d, want connected in slot 3; drops %v", c.state, c.slot, c.recv.drops.labeled())
	}
}

func TestTokenLifetimeCountsOverAllServers(t *testing.T) {
	is := testIssuer()
	is.Lifetime = 8 * time.Second
	for i := range 2 {
		is.Servers = append(is.Servers, netip.AddrPortFrom(testServerAddr.Addr(), uint16(8000+i)))
	}
	tok, _ := is.issue(testStart, 1, nil, GenerateKey(), GenerateKey(), randomNonce())
	c := newTestClient(testStart, tok)
	var out wire.Batch
	now := testStart
	for next := now; !next.IsZero(); {
		now = next
		next = c.advance(now, &out)
	}
	if c.state != stateTokenExpired || now.Sub(testStart) != 8*time.Second {
		t.Errorf("state %v after %v, want token expired after 8 s", c.state, now.Sub(testStart))
	}
}

// TestReuseAfterLeaving checks that a slot freed by a client is given out
// again, lowest first, with nothing of the former session in it.
func TestReuseAfterLeaving(t *testing.T) {
	s := newTestServer(func(c *serverConfig) { c.maxClients = 3 })
	var sessions [3]*session
	for i := range sessions {
		_, sessions[i], _ = connectPair(t, s, testStart, clientAddr(i), issueAt(t, testStart, uint64(i)))
		if sessions[i].index != uint32(i) {
			t.Errorf("session %d has index %d", i, sessions[i].index)
		}
	}
	c := newTestClient(testStart, issueAt(t, testStart, 9))
	_, answers := serverHandles(s, testStart, clientAddr(9), clientSends(c, testStart)[0])
	c.receive(testStart, testServerAddr, answers[0])
	clientSends(c, testStart)
	if c.state != stateDenied {
		t.Errorf("client of a full server is %v, want denied", c.state)
	}
	s.remove(sessions[2])
	s.remove(sessions[0])
	s.remove(sessions[0]) // once more: no effect
	for i, want := range []uint32{0, 2} {
		_, sess, _ := connectPair(t, s, testStart, clientAddr(20+i), issueAt(t, testStart, uint64(20+i)))
		if sess.index != want || sess.recv.window.newest != 0 || sess.send.seq != 1 {
			t.Errorf("new session has index %d, newest %d, sequence %d", sess.index, sess.recv.window.newest, sess.send.seq)
		}
	}
}

func TestHistoryFull(t *testing.T) {
	s := newTestServer(func(c *serverConfig) { c.maxClients = 2 })
	const capacity = minTokens // more than eight for each of two clients
	for i := range capacity {
		tok := issueAt(t, testStart, uint64(i))
		req := clientSends(newTestClient(testStart, tok), testStart)[0]
		serverHandles(s, testStart, clientAddr(i), req)
		s.handshakes = newHandshakes(8) // those are not what this is about
	}
	now := testStart.Add(time.Second)
	tok := issueAt(t, now, 5000)
	req := clientSends(newTestClient(now, tok), now)[0]
	if _, out := serverHandles(s, now, clientAddr(5000), req); len(out) > 0 || s.counts.drops[dropHistoryFull] != 1 {
		t.Fatalf("with a full history: %d answers, drops %v", len(out), s.counts.drops.labeled())
	}
	if len(s.history.entries) != capacity {
		t.Errorf("history has %d entries, want %d", len(s.history.entries), capacity)
	}
	now = testStart.Add(30 * time.Second) // all but the refused one have expired
	if _, out := serverHandles(s, now, clientAddr(5000), req); len(out) != 1 {
		t.Errorf("after the expiry of all: %d answers, drops %v", len(out), s.counts.drops.labeled())
	}
	if len(s.history.entries) != 1 {
		t.Errorf("history has %d entries, want 1", len(s.history.entries))
	}
}

func TestHandshakesFull(t *testing.T) {
	s := newTestServer(func(c *serverConfig) { c.maxClients = 2 })
	request := func(now time.Time, i int) int {
		req := clientSends(newTestClient(now, issueAt(t, now, uint64(i))), now)[0]
		_, out := serverHandles(s, now, clientAddr(i), req)
		return len(out)
	}
	for i := range minHandshakes { // more than four for each of two clients
		if request(testStart, i) != 1 {
			t.Fatalf("request %d got no challenge", i)
		}
	}
	if request(testStart, 5000) != 0 || s.counts.drops[dropPendingFull] != 1 {
		t.Errorf("with a full table: drops %v", s.counts.drops.labeled())
	}
	if request(testStart.Add(5*time.Second+1), 5001) != 1 {
		t.Errorf("after the others' timeout: drops %v", s.counts.drops.labeled())
	}
}

func TestServerForgetsWhatExpired(t *testing.T) {
	s := newTestServer(nil)
	now := testStart
	for i := range 20 {
		req := clientSends(newTestClient(now, issueAt(t, now, uint64(i))), now)[0]
		serverHandles(s, now, clientAddr(i), req)
	}
	for next := now; !next.IsZero(); {
		now = next
		next = tick(s, now)
	}
	if len(s.handshakes.entries)+len(s.history.entries) != 0 || now.Sub(testStart) > 35*time.Second {
		t.Errorf("%d handshakes, %d tokens after %v", len(s.handshakes.entries), len(s.history.entries), now.Sub(testStart))
	}
}

// TestForeignChallenge checks that a client with two tokens cannot answer the
// challenge of one in the session of the other.
func TestForeignChallenge(t *testing.T) {
	s := newTestServer(nil)
	var cs [2]*client
	for i := range cs {
		cs[i] = newTestClient(testStart, issueAt(t, testStart, uint64(i)))
		_, out := serverHandles(s, testStart, clientAddr(i), clientSends(cs[i], testStart)[0])
		cs[i].receive(testStart, testServerAddr, out[0])
	}
	cs[0].challenge = cs[1].challenge
	sess, _ := serverHandles(s, testStart, clientAddr(0), clientSends(cs[0], testStart)[0])
	if sess != nil || s.counts.drops[dropChallenge] != 1 {
		t.Errorf("session %v, drops %v", sess, s.counts.drops.labeled())
	}
}

// TestForgedThenGenuine: a forged packet does not spend its sequence number.
func TestForgedThenGenuine(t *testing.T) {
	s := newTestServer(nil)
	c, sess, _ := connectPair(t, s, testStart, clientAddr(1), issueAt(t, testStart, 1))
	genuine := sealed(func(out *wire.Batch) { c.sendPayload(testStart, []byte("x"), out) })
	for i := 1; i < len(genuine); i++ { // the prefix would make it another packet
		forged := bytes.Clone(genuine)
		forged[i] ^= 0x80
		if _, reason := sess.receive(testStart, forged); reason == dropNone {
			t.Fatalf("changed byte %d: accepted", i)
		}
	}
	if _, reason := sess.receive(testStart, genuine); reason != dropNone {
		t.Errorf("genuine packet dropped: %v", sess.recv.drops.labeled())
	}
}

// TestLargestPacket: 1200 bytes go through at every sequence width.
func TestLargestPacket(t *testing.T) {
	s := newTestServer(nil)
	c, sess, _ := connectPair(t, s, testStart, clientAddr(1), issueAt(t, testStart, 1))
	payload := bytes.Repeat([]byte{7}, MaxMessageSize)
	for w := 1; w <= maxSequenceSize; w++ {
		c.send.seq = 1<<(8*w) - 2
		if w == maxSequenceSize {
			c.send.seq = 1<<64 - 2
		}
		b := sealed(func(out *wire.Batch) { c.sendPayload(testStart, payload, out) })
		if len(b) != 1+w+MaxMessageSize+tagSize || len(b) > maxPacketSize {
			t.Errorf("packet of %d bytes at width %d", len(b), w)
		}
		if p, reason := sess.receive(testStart, b); reason != dropNone || !bytes.Equal(p.body, payload) {
			t.Errorf("width %d: dropped for %v", w, sess.recv.drops.labeled())
		}
	}
}

func TestServerStop(t *testing.T) {
	s := newTestServer(nil)
	req := clientSends(newTestClient(testStart, issueAt(t, testStart, 1)), testStart)[0]
	serverHandles(s, testStart, clientAddr(1), req)
	s.stop()
	if _, out := serverHandles(s, testStart, clientAddr(1), req); len(out) > 0 {
		t.Error("a stopped server answers")
	}
	if len(s.history.entries)+len(s.handshakes.entries) > 0 || s.requests.keys != nil || s.challenges.aead != nil {
		t.Error("a stopped server still has keys or tokens")
	}
	if s.req != (request{}) || s.body != [challengeBodySize]byte{} {
		t.Error("a stopped server still has what it last read or wrote")
	}
}

// TestTimeoutZero: a token with timeout 0 has no timeouts.
func TestTimeoutZero(t *testing.T) {
	tok := issueAt(t, testStart, 1)
	p := privateToken{clientID: 1, numServers: 1, clientKey: tok.clientKey, serverKey: tok.serverKey}
	p.servers[0] = testServerAddr
	tok.timeout = 0
	tok.sealPrivate(&p, &testKey)
	s := newTestServer(nil)
	c, sess, _ := connectPair(t, s, testStart, clientAddr(1), tok)
	later := testStart.Add(1000 * time.Hour)
	clientSends(c, later)
	if c.state != stateConnected || sess.timedOut(later) {
		t.Errorf("client is %v, server timed out: %v", c.state, sess.timedOut(later))
	}
}

func TestSlotList(t *testing.T) {
	var l slotList
	for want := range uint32(4) {
		if got := l.take(); got != want {
			t.Fatalf("take() = %d, want %d", got, want)
		}
	}
	if !l.full(4) || l.full(5) {
		t.Error("full is wrong with four taken")
	}
	for _, i := range []uint32{3, 1, 2} {
		l.put(i)
	}
	for _, want := range []uint32{1, 2, 3} {
		if got := l.take(); got != want {
			t.Errorf("take() = %d, want %d", got, want)
		}
	}
	for i := range uint32(4) {
		l.put(i)
	}
	if l.next != 0 || cap(l.free) != 0 {
		t.Errorf("an empty list keeps %d indexes", cap(l.free))
	}
}
