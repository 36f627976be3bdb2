package netcode

import (
	"net/netip"
	"testing"
	"time"

	"volley/internal/tape"
	"volley/internal/wire"
)

// TestRecordedParts plays with the parts of the cores, each by itself.
func TestRecordedParts(t *testing.T) {
	p := tape.Open(t, "parts", "What the parts of the cores do in the scenes of TestRecordedParts.")
	recordWindows(p.Scene("replay windows"))
	recordSlots(p.Scene("slots"))
	recordHistory(p.Scene("history"))
	recordHandshakes(p.Scene("handshakes"))
	recordHeaders(p.Scene("headers"))
	recordPackets(p.Scene("packets"))
	recordTokens(p.Scene("private tokens"))
	recordRequests(p.Scene("requests"))
	recordSessions(p.Scene("times of sessions"))
	for i := stateTokenExpired - 1; i <= stateConnected+1; i++ {
		p.Scene("state %d", int(i)).Phase("name", "state", i)
	}
}

// Numbers that come in order, with gaps, late, again, from far away, and up to the
// largest.
func recordWindows(s *tape.Scene) {
	rng := tape.Rand(1)
	for _, size := range []int{0, 1, 64, 65, 256, 2048} {
		for _, stride := range []int{1, 5, 90, 700, 5000} {
			w := newReplayWindow(size)
			taken := 0
			at := uint64(rng.Below(100))
			for i := range 400 {
				at += uint64(rng.Below(stride + 1))
				if i == 300 {
					at = 1<<64 - 1 - uint64(stride*50)
				}
				x := at - min(at, uint64(rng.Below(2)*rng.Below(2*int(w.size)+3*stride)))
				ok := w.check(x)
				if s.Note(int64(x), tape.Truth(ok)); ok {
					taken++
					w.mark(x)
				}
				for _, near := range []uint64{w.size, w.size - 1, w.size + 1, 63, 64, 1} {
					s.Note(tape.Truth(w.check(w.newest - near)))
				}
			}
			s.Phase("numbers", "size", w.size, "stride", stride, "taken", taken, "newest", w.newest)
			w.reset()
			s.Note(int64(w.newest), tape.Truth(w.check(0)), tape.Truth(w.check(at)))
		}
	}
}

func recordSlots(s *tape.Scene) {
	rng := tape.Rand(2)
	var l slotList
	var used []uint32
	for i := range 2000 {
		if s.Note(tape.Truth(l.full(20))); !l.full(20) && rng.Chance(300+400*(i/200%2)) {
			used = append(used, l.take())
			s.Note(int64(used[len(used)-1]))
		} else if len(used) > 0 {
			j := rng.Below(len(used))
			l.put(used[j])
			used = append(used[:j], used[j+1:]...)
		}
		s.Note(int64(l.next), int64(len(l.free)))
	}
	s.Phase("slots", "used", len(used), "next", l.next)
}

func recordHistory(s *tape.Scene) {
	rng := tape.Rand(3)
	h := newHistory(testStart, 30, 100*time.Second)
	now := uint64(1000)
	for i := range 4000 {
		now += uint64(rng.Below(2) * rng.Below(1+40*(i/400%2)))
		if rng.Chance(5) {
			now -= 30 // the clock is set back
		}
		id := tokenID{byte(rng.Below(60)), byte(i / 500)}
		switch rng.Below(6) {
		case 0:
			h.consume(id)
		case 1:
			h.sweep(now)
		default:
			expires := now + 1 + uint64(rng.Below(30)*rng.Below(8))
			_, reason := h.admit(testStart, now, id, clientAddr(rng.Below(2)), expires, h.forgotten, 0)
			s.Note(int64(reason))
		}
		s.Note(int64(now), int64(len(h.entries)), int64(h.lasting), int64(h.forgotten), int64(h.earliest), tape.Truth(h.full(false, 0)), tape.Truth(h.full(true, 0)))
		if i%500 == 499 {
			s.Phase("tokens", "now", now, "entries", len(h.entries), "lasting", h.lasting, "forgotten", h.forgotten)
		}
	}
}

func recordHandshakes(s *tape.Scene) {
	rng := tape.Rand(4)
	t := newHandshakes(12)
	now := testStart
	for i := range 3000 {
		now = now.Add(time.Duration(rng.Below(120)) * time.Millisecond)
		wall := unixSeconds(now)
		addr := clientAddr(rng.Below(20))
		switch rng.Below(6) {
		case 0:
			t.remove(addr)
		case 1, 2:
			h := t.get(now, wall, addr)
			if s.Note(tape.Truth(h != nil)); h != nil {
				s.Data(h.clientKey[:])
			}
		case 3:
			if rng.Chance(50) {
				t.sweep(now, wall)
			}
		default:
			h := &handshake{clientKey: recordedKey(&rng), expires: wall + uint64(rng.Below(8)), timeout: time.Duration(rng.Below(4)) * time.Second, shown: now}
			h.deadline = now.Add(h.timeout)
			s.Note(tape.Truth(t.put(now, wall, addr, h, 0)))
		}
		s.Note(int64(len(t.entries)))
		if i%1000 == 999 {
			s.Phase("handshakes", "entries", len(t.entries))
		}
	}
	t.wipe()
	s.Phase("wiped", "entries", len(t.entries), "room", t.put(now, 0, clientAddr(1), new(handshake), 0))
}

// Headers of every first byte, and of every length up to 40.
func recordHeaders(s *tape.Scene) {
	rng := tape.Rand(5)
	for _, takes := range []packetSet{clientTakes, serverTakes, sessionTakes, 0} {
		read := 0
		for first := range 256 {
			for n := range 40 {
				b := make([]byte, n)
				rng.Bytes(b)
				if n > 0 {
					b[0] = byte(first)
				}
				p, size, reason := parseHeader(b, takes, !rng.Chance(20))
				if s.Note(int64(reason)); reason == dropNone {
					read++
					s.Note(int64(p.typ), int64(p.seq), int64(size))
				}
			}
		}
		s.Phase("headers", "takes", takes, "read", read)
	}
}

// Packets of every type and size, sealed and opened, by others too.
func recordPackets(s *tape.Scene) {
	rng := tape.Rand(6)
	key, other := recordedKey(&rng), recordedKey(&rng)
	c, o := newPacketCipher(&key, testProtocol), newPacketCipher(&other, testProtocol)
	w := newReplayWindow(64)
	for typ := range numPacketTypes + 1 {
		opened := 0
		for _, n := range []int{0, 1, 7, 8, 9, 307, 308, 309, 1199, 1200, 1201} {
			for shift := range 64 {
				seq := rng.Uint64() >> shift
				body := make([]byte, n)
				rng.Bytes(body)
				var out wire.Batch
				c.seal(&out, typ, seq, body)
				s.Note(int64(sequenceSize(seq)))
				s.Data(out.At(0))
				by := &c
				if rng.Chance(100) {
					by = &o
				}
				if rng.Chance(300) {
					w = newReplayWindow(64)
				}
				p, reason := by.open(out.At(0), setOf(typ), &w)
				if s.Note(int64(reason), int64(p.typ), int64(p.seq)); reason == dropNone {
					opened++
					s.Data(p.body)
				}
			}
		}
		s.Phase("packets", "type", typ, "opened", opened)
	}
	for i := range 200 {
		challenge := challengeToken{clientID: rng.Uint64()}
		rng.Bytes(challenge.userData[:])
		rng.Bytes(challenge.token[:])
		cc := newChallengeCipher(&key)
		b := make([]byte, challengeTokenSize)
		cc.seal(b, uint64(i), &challenge)
		s.Data(b)
		if rng.Chance(300) {
			b[rng.Below(len(b))]++
		}
		var back challengeToken
		ok := cc.open(b, uint64(i+rng.Below(2)), &back)
		s.Note(tape.Truth(ok), int64(back.clientID))
		s.Data(back.userData[:])
		s.Data(back.token[:])
	}
	s.Phase("challenges")
}

func recordTokens(s *tape.Scene) {
	rng := tape.Rand(7)
	key := recordedKey(&rng)
	for n := range maxServers + 1 {
		p := &privateToken{clientID: rng.Uint64(), timeout: int32(rng.Uint64()), numServers: n, clientKey: recordedKey(&rng), serverKey: recordedKey(&rng)}
		rng.Bytes(p.userData[:])
		for i := range n {
			var a [16]byte
			rng.Bytes(a[:])
			p.servers[i] = netip.AddrPortFrom(netip.AddrFrom16(a), uint16(rng.Uint64()))
			if rng.Chance(500) {
				p.servers[i] = clientAddr(rng.Below(1000))
			}
		}
		var b [privateTokenSize]byte
		rng.Bytes(b[:])
		p.put(&b)
		s.Data(b[:])
		for _, size := range []int{privateTokenSize, privateTokenSize - tagSize, privateTokenSize - tagSize - 1, 0} {
			var q privateToken
			reason := q.parse(b[:size])
			s.Note(int64(reason), int64(q.clientID), int64(q.timeout), int64(q.idleTimeout()), int64(q.numServers), tape.Truth(q == *p))
		}
		d := newPrivateData(version, testProtocol, uint64(n))
		var nonce [tokenNonceSize]byte
		rng.Bytes(nonce[:])
		aead := newAEADX(&key)
		sealPrivate(aead, &nonce, &d, &b)
		s.Data(b[:])
		s.Note(tape.Truth(openPrivate(aead, nonce[:], d[:], b[:])))
		s.Data(b[:])
		s.Note(tape.Truth(openPrivate(aead, nonce[:], d[:], b[:])))
	}
	s.Phase("tokens")
}

// Requests of every kind of error, each byte of the header wrong, at all times.
func recordRequests(s *tape.Scene) {
	rng := tape.Rand(8)
	w := &recordedWorld{now: testStart, rng: rng}
	tok := w.token(7, nil)
	rr := requestReader{keys: ringOf(&testKey), protocolID: testProtocol, minExpires: tok.expires - 5}
	b := make([]byte, requestSize)
	read := func(change func(b []byte) []byte, now uint64) {
		putRequest(b, tok)
		s.Data(b)
		x := append([]byte(nil), b...)
		if change != nil {
			x = change(x)
		}
		var r request
		reason := rr.read(x, now, &r)
		s.Note(int64(reason), int64(r.expires), int64(r.token.clientID))
		s.Data(x)
		s.Data(r.id[:])
	}
	for i := range requestSize {
		if i < 80 || i%37 == 0 || i > requestSize-20 {
			read(func(b []byte) []byte { b[i] ^= 0x41; return b }, tok.created)
		}
	}
	for n := requestSize - 2; n <= requestSize+2; n++ {
		read(func(b []byte) []byte { return append(b, 0, 0)[:n] }, tok.created)
	}
	for now := tok.expires - 2; now < tok.expires+2; now++ {
		read(nil, now)
	}
	for rr.minExpires = tok.expires - 1; rr.minExpires < tok.expires+2; rr.minExpires++ {
		read(nil, tok.created)
	}
	rr.keys = nil
	read(nil, tok.created)
	s.Phase("requests")
}

// When keep alives are due and silence is too long, for every kind of session.
func recordSessions(s *tape.Scene) {
	for _, interval := range []time.Duration{0, 50 * time.Millisecond, time.Second} {
		for _, timeout := range []time.Duration{-1, 0, time.Second, 5 * time.Second, time.Minute} {
			for bits := range 8 {
				x := session{interval: interval, timeout: timeout, confirmed: bits&1 > 0, spoken: bits&2 > 0, strict: time.Duration(bits >> 2)}
				x.send.last, x.recv.last = testStart, testStart.Add(3*time.Millisecond)
				key := Key{1}
				x.send.cipher = newPacketCipher(&key, 1)
				x.send.startAt(bits, bits%3 == 0)
				s.Note(int64(x.keepAliveAt().Sub(testStart)), tape.Truth(x.deadline().IsZero()), int64(x.deadline().Sub(testStart)),
					int64(x.send.start), int64(x.send.end), int64(x.send.packets()), tape.Truth(x.send.exhausted()))
				for _, at := range []time.Duration{-1, 0, 1} {
					s.Note(tape.Truth(x.timedOut(x.deadline().Add(at))))
				}
				for range 4 {
					var out wire.Batch
					next := x.keepAlive(x.keepAliveAt().Add(time.Duration(bits%3-1)), &out)
					s.Note(int64(next.Sub(testStart)), int64(out.Len()), int64(x.send.packets()))
				}
				for _, left := range []uint64{sequenceReserve + 1, sequenceReserve, sequenceReserve - 1, 2, 1, 0} {
					var out wire.Batch
					x.send.seq = x.send.end - left
					exhausted := x.send.exhausted()
					x.sendPayload(testStart, []byte{1}, &out)
					s.Note(tape.Truth(exhausted), int64(out.Len()), int64(x.send.seq-x.send.start))
				}
			}
		}
	}
	s.Phase("times")
}

// read makes all checks of a request that a server makes.
func (rr *requestReader) read(b []byte, now uint64, r *request) dropReason {
	key, reason := rr.check(b, now, r)
	if reason != dropNone {
		return reason
	}
	return r.open(key, b)
}
