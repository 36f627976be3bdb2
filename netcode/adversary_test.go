package netcode

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"runtime"
	"testing"
	"time"

	"volley/internal/testenv"
	"volley/internal/wire"
)

// scaled returns n, or a hundredth of it in short runs.
func scaled(n int) int {
	if testing.Short() {
		return n / 100
	}
	return testenv.Raced(n, n/10)
}

// TestRecordedSessionReplayed: all datagrams of a session, both directions,
// are shown again three times in random order, while it lives and after its
// end, from the client's address and from another. Nothing is delivered twice
// and nothing changes.
func TestRecordedSessionReplayed(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	s := newTestServer(nil)
	now := testStart
	addr := clientAddr(1)
	c, sess, rec := connectPair(t, s, now, addr, issueAt(t, now, 1))
	for i := range 200 {
		body := binary.LittleEndian.AppendUint32(nil, uint32(i))
		up := sealed(func(out *wire.Batch) { c.sendPayload(now, body, out) })
		down := sealed(func(out *wire.Batch) { sess.sendPayload(now, body, out) })
		rec.toServer, rec.toClient = append(rec.toServer, up), append(rec.toClient, down)
		if _, reason := sess.receive(now, bytes.Clone(up)); reason != dropNone || c.receive(now, testServerAddr, bytes.Clone(down)) == nil {
			t.Fatal("payload lost")
		}
	}
	replay := func(when string, deliver func(from netip.AddrPort, b []byte) bool) {
		for range 3 {
			for _, i := range rng.Perm(len(rec.toServer)) {
				for _, from := range []netip.AddrPort{addr, clientAddr(2)} {
					if deliver(from, bytes.Clone(rec.toServer[i])) {
						t.Fatalf("%s: datagram %d had an effect", when, i)
					}
				}
			}
			for _, i := range rng.Perm(len(rec.toClient)) {
				if c.receive(now, testServerAddr, bytes.Clone(rec.toClient[i])) != nil {
					t.Fatalf("%s: the client took datagram %d again", when, i)
				}
			}
		}
	}
	newest, last := sess.recv.window.newest, sess.recv.last
	now = now.Add(time.Second)
	replay("while it lives", func(from netip.AddrPort, b []byte) bool {
		if from == addr {
			_, reason := sess.receive(now, b)
			return reason == dropNone
		}
		accepted, out := serverHandles(s, now, from, b)
		return accepted != nil || len(out) > 0
	})
	if sess.recv.window.newest != newest || sess.recv.last != last || len(s.sessions) != 1 || c.state != stateConnected {
		t.Error("the replay has changed the session")
	}
	rec.toServer = append(rec.toServer, sealed(func(out *wire.Batch) { c.disconnect(now, out) }))
	s.remove(sess)
	replay("after its end", func(from netip.AddrPort, b []byte) bool {
		accepted, out := serverHandles(s, now, from, b)
		return accepted != nil || len(out) > 0
	})
	if len(s.sessions)+len(s.ids)+len(s.handshakes.entries) != 0 || len(s.history.entries) != 1 {
		t.Error("the replay has left something behind")
	}
}

// A garbler makes datagrams an attacker might send who knows the protocol,
// and has seen genuine packets, but has no token.
type garbler struct {
	rng   *rand.Rand
	seeds [][]byte
	buf   [maxPacketSize + 100]byte
}

func (g *garbler) next() []byte {
	seed := g.seeds[g.rng.IntN(len(g.seeds))]
	b := g.buf[:copy(g.buf[:], seed)]
	switch g.rng.IntN(8) {
	case 0: // noise
		b = g.buf[:g.rng.IntN(len(g.buf))]
		g.fill(b)
	case 1: // a plausible header, then noise
		b = g.buf[:minPacketSize+g.rng.IntN(400)]
		g.fill(b)
		b[0] = byte(1+g.rng.IntN(8))<<4 | byte(g.rng.IntN(7))
	case 2: // another length
		b = b[:g.rng.IntN(len(b)+1)]
	case 3:
		b = g.buf[:len(b)+g.rng.IntN(50)]
	default: // changed bytes
		for range 1 + g.rng.IntN(3) {
			if len(b) > 0 {
				b[g.rng.IntN(len(b))] ^= byte(1 + g.rng.IntN(255))
			}
		}
	}
	return b
}

func (g *garbler) fill(b []byte) {
	for i := range b {
		b[i] = byte(g.rng.Uint32())
	}
}

func newGarbler(tb testing.TB, seed uint64) *garbler {
	s := newTestServer(nil)
	c, sess, rec := connectPair(tb, s, testStart, clientAddr(1), issueAt(tb, testStart, 1))
	g := &garbler{rng: rand.New(rand.NewPCG(seed, 0)), seeds: append(rec.toServer, rec.toClient...)}
	var out wire.Batch
	c.sendPayload(testStart, []byte("payload"), &out)
	c.send.keepAlive(testStart, 0, 0, &out)
	sess.sendPayload(testStart, []byte("payload"), &out)
	s.deny(&Key{1}, 0, &out)
	c.disconnect(testStart, &out)
	g.seeds = append(g.seeds, take(&out)...)
	return g
}

func heapInUse() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// fewGoroutines returns how many goroutines there are, once there are no more than
// most. Those of timers, which come and go, have half a minute to end.
func fewGoroutines(most int) int {
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(time.Millisecond) {
		if n := testenv.Goroutines(); n <= most || time.Now().After(end) {
			return n
		}
	}
}

// TestGarbageFlood: 10^6 garbage datagrams from 10^5 addresses, those of the
// 1,000 live sessions among them, cost no memory, add no session, and end
// none.
func TestGarbageFlood(t *testing.T) {
	const live, sources = 1000, 100_000
	s := newTestServer(func(c *serverConfig) { c.maxClients = live })
	now := testStart
	var clients [live]*client
	var sessions [live]*session
	for i := range live {
		clients[i], sessions[i], _ = connectPair(t, s, now, clientAddr(i), issueAt(t, now, uint64(i)))
	}
	g := newGarbler(t, 3)
	var out wire.Batch
	before := heapInUse()
	goroutines := testenv.Goroutines()
	for i := range scaled(1_000_000) {
		n, b := g.rng.IntN(sources), g.next()
		if n < live {
			if _, reason := sessions[n].receive(now, b); reason == dropNone {
				t.Fatalf("session %d took garbage %x", n, b)
			}
		} else if sess, _ := s.receive(now, clientAddr(n), b, &out); sess != nil || out.Len() > 0 {
			t.Fatalf("garbage %d was answered", i)
		}
	}
	if after := heapInUse(); after > before+1<<20 {
		t.Errorf("the heap grew from %d to %d bytes", before, after)
	}
	if n := fewGoroutines(goroutines); n > goroutines || len(s.sessions) != live {
		t.Errorf("%d goroutines, %d sessions, want %d and %d", n, len(s.sessions), goroutines, live)
	}
	for i, c := range clients {
		up := sealed(func(out *wire.Batch) { c.sendPayload(now, []byte("up"), out) })
		down := sealed(func(out *wire.Batch) { sessions[i].sendPayload(now, []byte("down"), out) })
		if _, reason := sessions[i].receive(now, up); reason != dropNone || c.receive(now, testServerAddr, down) == nil {
			t.Fatalf("session %d is dead", i)
		}
	}
}

// TestAmplification: over every packet type and 10^6 mutations of packets,
// genuine ones among them, nobody who has not proved its address gets more
// than 0.35 of the bytes it sent.
func TestAmplification(t *testing.T) {
	s := newTestServer(func(c *serverConfig) { c.maxClients = 10 })
	now := testStart
	g := newGarbler(t, 4)
	// Attackers with tokens, too: for a server with room and for a full one.
	for i := range 40 {
		tok := issueAt(t, now, uint64(100+i))
		c := newTestClient(now, tok)
		g.seeds = append(g.seeds, clientSends(c, now)[0])
		c.state = stateResponding
		c.due = true
		g.seeds = append(g.seeds, clientSends(c, now)[0])
	}
	var out wire.Batch
	worst := 0.0
	for i := range scaled(1_000_000) {
		b := g.next()
		if g.rng.IntN(20) == 0 {
			b = g.buf[:copy(g.buf[:], g.seeds[g.rng.IntN(len(g.seeds))])]
		}
		if i == scaled(1_000_000)/2 {
			for n := range 10 {
				connectPair(t, s, now, clientAddr(1000+n), issueAt(t, now, uint64(n)))
			}
		}
		n := len(b)
		if sess, _ := s.receive(now, clientAddr(g.rng.IntN(100)), b, &out); sess != nil {
			t.Fatal("an attacker was admitted")
		}
		if out.Len() > 0 {
			worst = max(worst, float64(out.Size())/float64(n))
			out.Reset()
		}
	}
	t.Logf("worst factor %.3f; %d challenges, %d denials", worst, s.counts.challenges, s.counts.denied)
	if worst > 0.35 || worst == 0 || s.counts.denied == 0 {
		t.Errorf("worst amplification %.3f with %d denials, want at most 0.35 and some", worst, s.counts.denied)
	}
}

// TestForgedRepliesRaceHandshakes: 10^6 forged datagrams from the server's
// address, among the genuine ones of 1,000 handshakes, stop none of them.
func TestForgedRepliesRaceHandshakes(t *testing.T) {
	const handshakes = 1000
	s := newTestServer(func(c *serverConfig) { c.maxClients = handshakes })
	g := newGarbler(t, 5)
	now := testStart
	for i := range handshakes {
		now = now.Add(time.Millisecond)
		c := newTestClient(now, issueAt(t, now, uint64(i)))
		forge := func() {
			for range scaled(1_000_000) / handshakes / 4 {
				if c.receive(now, testServerAddr, g.next()) != nil {
					t.Fatal("a forged payload was delivered")
				}
			}
		}
		for range 2 {
			forge()
			for _, b := range clientSends(c, now) {
				_, answers := serverHandles(s, now, clientAddr(i), b)
				forge()
				for _, a := range answers {
					c.receive(now, testServerAddr, a)
				}
			}
		}
		if c.state != stateConnected {
			t.Fatalf("handshake %d ended as %v", i, c.state)
		}
	}
}

// A nonceLog checks that no nonce is used twice with one key. Within each of
// the two spaces of sequences a sender counts upwards, so remembering the last
// is enough.
type nonceLog struct {
	t       *testing.T
	packets int
	last    map[nonceSpace]uint64
}

type nonceSpace struct {
	key  Key
	high bool // the space of challenges and denials
}

func (l *nonceLog) add(key Key, out *wire.Batch) {
	for i := range out.Len() {
		b := out.At(i)
		if b[0] == byte(packetRequest) {
			continue
		}
		seq := sequence(b[1 : 1+b[0]>>4])
		sp := nonceSpace{key, seq >= globalSequenceStart}
		if last, ok := l.last[sp]; ok && seq <= last {
			l.t.Fatalf("sequence %d of %v after %d with one key", seq, packetType(b[0]&0xf), last)
		}
		l.last[sp] = seq
		l.packets++
	}
	out.Reset()
}

// TestNoncesNeverRepeat sends 10^7 packets over 10^3 restarts of the server,
// whose clients try their old tokens again after each.
func TestNoncesNeverRepeat(t *testing.T) {
	const restarts, perRun = 1000, 4
	packets := scaled(10_000_000) / restarts / perRun / 2
	l := &nonceLog{t: t, last: make(map[nonceSpace]uint64)}
	challengeKeys := make(map[string]bool)
	now := testStart
	var old []*Token
	var out wire.Batch
	for range restarts {
		now = now.Add(time.Second)
		s := newServer(now, testServerConfig())
		var probe [challengeTokenSize]byte
		s.challenges.seal(probe[:], 1<<60, &challengeToken{})
		if challengeKeys[string(probe[:])] {
			t.Fatal("a challenge key was used twice")
		}
		challengeKeys[string(probe[:])] = true
		for i, tok := range old {
			req := clientSends(newTestClient(now, tok), now)[0]
			s.receive(now, clientAddr(i), req, &out)
			l.add(tok.serverKey, &out)
		}
		old = old[:0]
		for i := range perRun {
			tok := issueAt(t, now, uint64(i))
			old = append(old, tok)
			c := newTestClient(now, tok)
			var sess *session
			for sess == nil {
				c.advance(now, &out)
				b := bytes.Clone(out.At(0))
				l.add(tok.clientKey, &out)
				sess, _ = s.receive(now, clientAddr(i), b, &out)
				c.receive(now, testServerAddr, bytes.Clone(out.At(0)))
				l.add(tok.serverKey, &out)
			}
			for range packets {
				c.sendPayload(now, []byte{1}, &out)
				l.add(tok.clientKey, &out)
				sess.sendPayload(now, []byte{1}, &out)
				l.add(tok.serverKey, &out)
				sess.confirmed = true
			}
			c.disconnect(now, &out)
			l.add(tok.clientKey, &out)
			sess.send.disconnect(now, &out)
			l.add(tok.serverKey, &out)
		}
	}
	t.Logf("%d packets", l.packets)
	if l.packets < scaled(10_000_000) {
		t.Errorf("%d packets, want %d", l.packets, scaled(10_000_000))
	}
}

// TestTokenUsedAgain: a token used twice, from two addresses, after its
// session closed, and after a restart of the server, admits nobody.
func TestTokenUsedAgain(t *testing.T) {
	s := newTestServer(nil)
	now := testStart.Add(time.Second)
	tok := issueAt(t, now, 1)
	_, sess, rec := connectPair(t, s, now, clientAddr(1), tok)
	try := func(s *server, now time.Time, from netip.AddrPort, want dropReason) {
		t.Helper()
		before := s.counts.drops[want]
		for _, b := range rec.toServer {
			if got, out := serverHandles(s, now, from, b); got != nil || len(out) > 0 {
				t.Errorf("%v at %v: session %v and %d datagrams, want silence", from, now.Sub(testStart), got, len(out))
			}
		}
		if s.counts.drops[want] == before {
			t.Errorf("%v: drops %v, want one for %v", from, s.counts.drops.labeled(), want)
		}
	}
	try(s, now, clientAddr(1), dropAddressConnected)
	try(s, now, clientAddr(2), dropIDConnected)
	s.remove(sess)
	try(s, now, clientAddr(1), dropTokenUsed)
	try(s, now, clientAddr(2), dropTokenUsed)
	try(s, now.Add(29*time.Second), clientAddr(1), dropTokenUsed)
	try(s, now.Add(30*time.Second), clientAddr(1), dropTokenExpired)
	restarted := newServer(now.Add(time.Second), testServerConfig())
	try(restarted, now.Add(time.Second), clientAddr(1), dropTokenTooOld)
	try(restarted, now.Add(29*time.Second), clientAddr(2), dropTokenTooOld)
	try(restarted, now.Add(30*time.Second), clientAddr(1), dropTokenExpired)
}

// TestOneTokenTwoAddresses: of two addresses that race with one token, the
// first to ask gets the session, and the other no answer at all.
func TestOneTokenTwoAddresses(t *testing.T) {
	s := newTestServer(nil)
	tok := issueAt(t, testStart, 1)
	a, b := newTestClient(testStart, tok), newTestClient(testStart, tok)
	reqA, reqB := clientSends(a, testStart)[0], clientSends(b, testStart)[0]
	_, out := serverHandles(s, testStart, clientAddr(1), reqA)
	if _, out := serverHandles(s, testStart, clientAddr(2), reqB); len(out) > 0 {
		t.Fatal("the second address got an answer")
	}
	a.receive(testStart, testServerAddr, bytes.Clone(out[0]))
	b.receive(testStart, testServerAddr, bytes.Clone(out[0])) // seen on the path
	if sess, _ := serverHandles(s, testStart, clientAddr(2), clientSends(b, testStart)[0]); sess != nil {
		t.Fatal("the second address got a session")
	}
	if sess, _ := serverHandles(s, testStart, clientAddr(1), clientSends(a, testStart)[0]); sess == nil {
		t.Error("the first address got no session")
	}
}
