package netcode

import (
	"bytes"
	"fmt"
	"runtime"
	"testing"

	"volley/internal/testenv"
	"volley/internal/wire"
)

// sizes are those of the figures in docs/netcode.md.
var sizes = []int{64, 256, 1200}

// BenchmarkBareAEAD is what BenchmarkSealOpen compares with: the calls of
// x/crypto alone, with 22 bytes of associated data.
func BenchmarkBareAEAD(b *testing.B) {
	for _, n := range sizes {
		b.Run(fmt.Sprintf("%dB", n), func(b *testing.B) {
			key := Key{1}
			aead := newAEAD(&key)
			nonce, data := make([]byte, 12), make([]byte, 22)
			plain, buf := make([]byte, n), make([]byte, n+tagSize)
			b.SetBytes(int64(n))
			b.ReportAllocs()
			for b.Loop() {
				nonce[4]++
				aead.Seal(buf[:0], nonce, plain, data)
				if _, err := aead.Open(buf[:0], nonce, buf, data); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkSealOpen sends a payload through a session: framing, seal, header
// checks, replay window, open.
func BenchmarkSealOpen(b *testing.B) {
	for _, n := range sizes {
		b.Run(fmt.Sprintf("%dB", n), func(b *testing.B) {
			s := newTestServer(nil)
			c, sess, _ := connectPair(b, s, testStart, clientAddr(1), issueAt(b, testStart, 1))
			payload := make([]byte, n)
			var out wire.Batch
			b.SetBytes(int64(n))
			b.ReportAllocs()
			for b.Loop() {
				out.Reset()
				c.sendPayload(testStart, payload, &out)
				if _, reason := sess.receive(testStart, out.At(0)); reason != dropNone {
					b.Fatal("dropped")
				}
			}
		})
	}
}

// BenchmarkBatch is what stacked messages of 256 bytes go through here: a batch
// of the layer above is sealed into that of the layer below, and opened in
// place on the other side. An operation is one packet.
func BenchmarkBatch(b *testing.B) {
	const packets, size = 64, 256 + 9 // with the header of a message
	x, y := Pipe(1, nil)
	defer closeAll(x, y)
	var from, out wire.Batch
	for range packets {
		from.Extend(size)
	}
	var bufs [packets][]byte
	b.SetBytes(size)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if i%packets != 0 {
			continue // it has been done with those before
		}
		out.Reset()
		x.sendMu.Lock()
		err := x.sealBatchLocked(testStart, &from, &out)
		x.sendMu.Unlock()
		if err != nil {
			b.Fatal(err)
		}
		for j := range bufs {
			bufs[j] = out.At(j)
		}
		y.recvMu.Lock()
		payloads, _ := y.openLocked(testStart, bufs[:])
		y.recvMu.Unlock()
		if len(payloads) != packets {
			b.Fatalf("%d of %d packets were opened", len(payloads), packets)
		}
	}
}

func TestNoAllocations(t *testing.T) {
	if testenv.Race {
		t.Skip("allocations are not counted under the race detector")
	}
	s := newTestServer(nil)
	c, sess, _ := connectPair(t, s, testStart, clientAddr(1), issueAt(t, testStart, 1))
	payload := make([]byte, 256)
	var out wire.Batch
	var garbage [200]byte
	garbage[0] = 0x15
	request := make([]byte, requestSize)
	putRequest(request, issueAt(t, testStart, 2))
	request[100] ^= 1
	for _, test := range []struct {
		name string
		f    func()
	}{
		{"client to server", func() {
			c.sendPayload(testStart, payload, &out)
			if _, reason := sess.receive(testStart, out.At(0)); reason != dropNone {
				t.Fatal("dropped")
			}
		}},
		{"server to client", func() {
			sess.confirmed = true
			sess.sendPayload(testStart, payload, &out)
			if c.receive(testStart, testServerAddr, out.At(0)) == nil {
				t.Fatal("dropped")
			}
		}},
		{"keep alives", func() {
			c.send.keepAlive(testStart, 0, 0, &out)
			sess.send.keepAlive(testStart, 1, 2, &out)
			if _, reason := sess.receive(testStart, out.At(0)); reason != dropNone {
				t.Fatal("dropped")
			}
		}},
		{"garbage from a stranger", func() { s.receive(testStart, clientAddr(9), garbage[:], &out) }},
		{"garbage from a client", func() { sess.receive(testStart, garbage[:]) }},
		{"foreign protocol id", func() {
			request[20] ^= 1
			s.receive(testStart, clientAddr(9), request, &out)
			request[20] ^= 1
		}},
	} {
		run := func() { out.Reset(); test.f() }
		if n := testing.AllocsPerRun(200, run); n != 0 {
			t.Errorf("%s: %v allocations a packet, want 0", test.name, n)
		}
	}
}

// BenchmarkHandshake is a connect, both sides of it: the server opens a
// request, seals a challenge, opens the response, makes the session and sends
// its first packet, and the session ends.
func BenchmarkHandshake(b *testing.B) {
	s := newTestServer(nil)
	c := newTestClient(testStart, issueAt(b, testStart, 1))
	request := clientSends(c, testStart)[0]
	in := make([]byte, requestSize)
	var out wire.Batch
	b.ReportAllocs()
	for b.Loop() {
		// The same token again: as good as another for the cost.
		clear(s.history.entries)
		c.send.seq, c.state = 1, stateRequesting
		out.Reset()
		s.receive(testStart, clientAddr(1), in[:copy(in, request)], &out)
		c.receive(testStart, testServerAddr, out.At(0))
		out.Reset()
		c.send.send(testStart, packetResponse, c.challenge[:], &out)
		response := in[:copy(in, out.At(0))]
		out.Reset()
		sess, _ := s.receive(testStart, clientAddr(1), response, &out)
		s.remove(sess)
	}
}

// BenchmarkGarbage is the cost of datagrams that lead nowhere.
func BenchmarkGarbage(b *testing.B) {
	s := newTestServer(nil)
	forged := make([]byte, requestSize)
	putRequest(forged, issueAt(b, testStart, 1))
	forged[500] ^= 1
	junk := bytes.Repeat([]byte{0x15}, 100)
	for _, bb := range []struct {
		name string
		data []byte
	}{{"junk", junk}, {"forged request", forged}} {
		b.Run(bb.name, func(b *testing.B) {
			in := make([]byte, len(bb.data))
			var out wire.Batch
			b.ReportAllocs()
			for b.Loop() {
				s.receive(testStart, clientAddr(1), in[:copy(in, bb.data)], &out)
			}
		})
	}
}

// TestSessionMemory measures what a session costs the core of a server, its
// place in the history included.
func TestSessionMemory(t *testing.T) {
	const n = 10_000
	s := newTestServer(func(c *serverConfig) { c.maxClients = n })
	tokens := make([]*Token, n)
	for i := range tokens {
		tokens[i] = issueAt(t, testStart, uint64(i))
	}
	clients := make([]*client, n)
	before := heapInUse()
	for i := range clients {
		c, sess, _ := connectPair(t, s, testStart, clientAddr(i), tokens[i])
		var out wire.Batch
		c.sendPayload(testStart, []byte("x"), &out)
		sess.receive(testStart, out.At(0))
	}
	per := (heapInUse() - before) / n
	t.Logf("%d bytes a session", per)
	if per > 2048 {
		t.Errorf("%d bytes a session, want at most 2048", per)
	}
	runtime.KeepAlive(s)
	runtime.KeepAlive(tokens)
}
