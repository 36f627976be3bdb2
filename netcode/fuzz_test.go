package netcode

import (
	"bytes"
	"net/netip"
	"testing"
	"time"

	"volley/internal/wire"
)

// fuzzSeeds returns one packet of every type, as a session sends them.
func fuzzSeeds(f *testing.F) [][]byte {
	s := newTestServer(nil)
	c, sess, rec := connectPair(f, s, testStart, clientAddr(1), issueAt(f, testStart, 1))
	seeds := append(rec.toServer, rec.toClient...)
	var out wire.Batch
	c.sendPayload(testStart, []byte("payload"), &out)
	sess.sendPayload(testStart, bytes.Repeat([]byte{1}, MaxMessageSize), &out)
	c.disconnect(testStart, &out)
	return append(append(seeds, take(&out)...), nil, []byte{0}, []byte{0x16})
}

// FuzzPacketHeader checks the reader's first checks against their text.
func FuzzPacketHeader(f *testing.F) {
	for _, b := range fuzzSeeds(f) {
		f.Add(b, uint8(serverTakes))
		f.Add(b, uint8(clientTakes))
	}
	f.Fuzz(func(t *testing.T, b []byte, takes uint8) {
		p, n, reason := parseHeader(b, packetSet(takes), true)
		if reason != dropNone {
			return
		}
		if n < 2 || n > 9 || len(b) < n+tagSize || !packetSet(takes).has(p.typ) || p.typ == packetRequest {
			t.Fatalf("parseHeader(%x) = %+v, %d", b, p, n)
		}
		var back [8]byte
		putSequence(back[:n-1], p.seq)
		if !bytes.Equal(back[:n-1], b[1:n]) {
			t.Errorf("sequence %x read as %d", b[1:n], p.seq)
		}
	})
}

// FuzzPacketRoundTrip seals and opens any body of any type.
func FuzzPacketRoundTrip(f *testing.F) {
	f.Add(uint8(5), uint64(0), []byte("hello"), uint16(3))
	f.Add(uint8(5), uint64(1<<63), []byte{}, uint16(0))
	f.Add(uint8(4), uint64(1<<64-1), make([]byte, 8), uint16(9))
	f.Fuzz(func(t *testing.T, typ uint8, seq uint64, body []byte, flip uint16) {
		pt := packetType(typ%6 + 1)
		key := Key{byte(seq)}
		c := newPacketCipher(&key, testProtocol)
		var out wire.Batch
		c.seal(&out, pt, seq, body)
		sealed := bytes.Clone(out.At(0))
		w := newReplayWindow(referenceWindow)
		if flip != 0 {
			bad := bytes.Clone(sealed)
			bad[int(flip)%len(bad)] ^= byte(flip>>8) | 1
			if p, reason := c.open(bad, clientTakes|serverTakes, &w); reason == dropNone || w.seen != nil {
				t.Fatalf("changed packet %x opens as %+v", bad, p)
			}
		}
		p, reason := c.open(sealed, clientTakes|serverTakes, &w)
		switch reason {
		case dropNone:
			if p.typ != pt || p.seq != seq || !bytes.Equal(p.body, body) {
				t.Errorf("packet = %+v, want %v %d %x", p, pt, seq, body)
			}
		case dropBodySize, dropPayloadSize:
			if pt.replayProtected() && w.newest != seq {
				t.Errorf("newest = %d after an authentic packet %d", w.newest, seq)
			}
		default:
			t.Errorf("a genuine packet is refused: %v", reason)
		}
	})
}

// FuzzToken reads a token and writes it again.
func FuzzToken(f *testing.F) {
	is := testIssuer()
	is.Servers = append(is.Servers, netip.MustParseAddrPort("[2001:db8::1]:5"))
	tok, _ := is.Issue(1, nil)
	b, _ := tok.MarshalBinary()
	f.Add(b)
	f.Add(b[:100])
	f.Fuzz(func(t *testing.T, b []byte) {
		tok, err := parseToken(b)
		if err != nil {
			return
		}
		if _, err := tok.Claims(testKey); err == nil && !bytes.Equal(tok.nonce[:], b[tokenNonce:tokenPrivate]) {
			t.Error("nonce misread")
		}
		_, _, _ = tok.String(), tok.Info(), tok.lifetime()
		again, _ := tok.MarshalBinary()
		back, err := parseToken(again)
		if err != nil {
			t.Fatalf("what was written cannot be read: %v", err)
		}
		twice, _ := back.MarshalBinary()
		if !bytes.Equal(again, twice) || !bytes.Equal(again[:tokenServers+4], b[:tokenServers+4]) {
			t.Error("token changed by reading and writing")
		}
	})
}

// FuzzTokenText reads tokens as they stand in JSON.
func FuzzTokenText(f *testing.F) {
	tok, _ := testIssuer().Issue(1, nil)
	b, _ := tok.MarshalText()
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		var tok Token
		if tok.UnmarshalText(b) == nil {
			tok.MarshalText()
		}
	})
}

// FuzzPrivateToken reads a plain private part and writes it again.
func FuzzPrivateToken(f *testing.F) {
	p := privateToken{clientID: 1, timeout: 5, numServers: 2}
	p.servers[0], p.servers[1] = testServerAddr, netip.MustParseAddrPort("[::1]:7")
	var b [privateTokenSize]byte
	p.put(&b)
	f.Add(b[:])
	for i := range maxServers {
		p.servers[i] = netip.AddrPortFrom(netip.IPv6LinkLocalAllNodes(), uint16(i))
	}
	p.numServers = maxServers
	p.put(&b)
	f.Add(b[:])
	f.Fuzz(func(t *testing.T, b []byte) {
		var p, back privateToken
		if p.parse(b) != dropNone {
			return
		}
		var again [privateTokenSize]byte
		p.put(&again)
		if back.parse(again[:]) != dropNone || !bytes.Equal(again[:16], b[:16]) {
			t.Fatal("private part changed by reading and writing")
		}
		clear(p.servers[p.numServers:])
		if back != p {
			t.Errorf("read %+v, then %+v", p, back)
		}
	})
}

// FuzzChallengeToken opens any bytes as a challenge token.
func FuzzChallengeToken(f *testing.F) {
	key := Key{9}
	c := newChallengeCipher(&key)
	b := make([]byte, challengeTokenSize)
	c.seal(b, 7, &challengeToken{clientID: 5})
	f.Add(b, uint64(7))
	f.Fuzz(func(t *testing.T, b []byte, seq uint64) {
		if len(b) != challengeTokenSize {
			return
		}
		in := bytes.Clone(b)
		var tok challengeToken
		if !c.open(b, seq, &tok) {
			return
		}
		c.seal(b, seq, &tok)
		if !bytes.Equal(in, b) && tok.clientID != 5 {
			t.Error("challenge token changed by opening and sealing")
		}
	})
}

// FuzzAddress reads addresses in both forms and writes them again.
func FuzzAddress(f *testing.F) {
	f.Add([]byte{1, 127, 0, 0, 1, 1, 0}, "127.0.0.1:5")
	f.Add(appendAddr(nil, netip.MustParseAddrPort("[::1]:7")), "[fe80::1]:5")
	f.Add([]byte{2}, "[::1")
	f.Add([]byte{}, "fe80::1%eth0")
	f.Fuzz(func(t *testing.T, b []byte, s string) {
		if ap, n := consumeAddr(b); n >= 0 {
			if again := appendAddr(nil, ap); !bytes.Equal(again, b[:n]) {
				t.Errorf("%x read and written = %x", b[:n], again)
			}
		}
		ap, err := parseAddr(s)
		if err != nil {
			return
		}
		w := appendAddr(nil, ap)
		if back, n := consumeAddr(w); back != ap || n != len(w) {
			t.Errorf("%q written and read = %v", s, back)
		}
	})
}

// FuzzServer gives any datagram to a server with a session, a handshake and
// strangers: no panic, no session, and no answer larger than the question.
func FuzzServer(f *testing.F) {
	for _, b := range fuzzSeeds(f) {
		f.Add(b, uint8(0))
		f.Add(b, uint8(1))
		f.Add(b, uint8(2))
	}
	s := newTestServer(nil)
	_, sess, _ := connectPair(f, s, testStart, clientAddr(0), issueAt(f, testStart, 0))
	req := clientSends(newTestClient(testStart, issueAt(f, testStart, 1)), testStart)[0]
	serverHandles(s, testStart, clientAddr(1), req)
	f.Fuzz(func(t *testing.T, b []byte, who uint8) {
		now := testStart.Add(time.Second)
		if who%3 == 0 {
			if _, reason := sess.receive(now, b); reason == dropNone {
				t.Fatal("a datagram out of nowhere was accepted")
			}
			return
		}
		accepted, out := serverHandles(s, now, clientAddr(int(who%3)), b)
		n := 0
		for _, d := range out { // the seeds hold a genuine request
			n += len(d)
		}
		if accepted != nil || n*100 > len(b)*35 {
			t.Fatalf("a datagram out of nowhere got a session or %d bytes", n)
		}
	})
}

// FuzzClient gives any datagram to a client in each state.
func FuzzClient(f *testing.F) {
	for _, b := range fuzzSeeds(f) {
		f.Add(b, uint8(1))
		f.Add(b, uint8(2))
		f.Add(b, uint8(3))
	}
	tok := issueAt(f, testStart, 1)
	f.Fuzz(func(t *testing.T, b []byte, n uint8) {
		c := newTestClient(testStart, tok)
		c.state = state(n%3 + 1)
		before := c.state
		if c.receive(testStart, testServerAddr, b) != nil || c.state != before || c.leaving || c.recv.window.seen != nil {
			t.Fatal("a datagram out of nowhere was accepted")
		}
	})
}

// FuzzRequest gives a server requests whose private part anybody could have
// sealed, since the key is known here.
func FuzzRequest(f *testing.F) {
	p := privateToken{clientID: 1, timeout: 5, numServers: 1}
	p.servers[0] = testServerAddr
	var plain [privateTokenSize]byte
	p.put(&plain)
	f.Add(plain[:], uint64(testStart.Unix()+40))
	f.Add(make([]byte, 16), uint64(0))
	f.Fuzz(func(t *testing.T, plain []byte, expires uint64) {
		s := newTestServer(nil)
		tok := &Token{protocolID: testProtocol, expires: expires}
		copy(tok.private[:], plain)
		d := newPrivateData(version, testProtocol, expires)
		sealPrivate(newAEADX(&testKey), &tok.nonce, &d, &tok.private)
		req := make([]byte, requestSize)
		putRequest(req, tok)
		sess, out := serverHandles(s, testStart, clientAddr(1), req)
		if sess != nil || len(out) > 1 || len(out) == 1 && len(out[0])*100 > 35*requestSize {
			t.Errorf("a request was answered with %x", out)
		}
	})
}
