package reliable

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"volley/internal/vectors"
)

// addSeeds gives the datagrams of a file of vectors to f.
func addSeeds(f *testing.F, file string, add func([]byte)) {
	for _, line := range splitLines(vectors.Files(f, "reliable")[file]) {
		var v struct{ Hex hexBytes }
		if err := json.Unmarshal(line, &v); err != nil {
			f.Fatal(err)
		}
		add(v.Hex)
	}
}

func FuzzHeader(f *testing.F) {
	addSeeds(f, "packet_header_decode.jsonl", func(b []byte) { f.Add(b) })
	addSeeds(f, "conformance_headers.jsonl", func(b []byte) { f.Add(b) })
	f.Fuzz(func(t *testing.T, b []byte) {
		h, n, err := ParseHeader(b)
		if err != nil {
			if h != (Header{}) || n != 0 {
				t.Fatalf("ParseHeader(%x) = %+v, %d, %v", b, h, n, err)
			}
			return
		}
		if n < 4 || n > MaxHeaderSize || n > len(b) {
			t.Fatalf("ParseHeader(%x) takes %d bytes", b, n)
		}
		again := AppendHeader(nil, h)
		if len(again) > n || len(again) != h.size() {
			t.Fatalf("%x has a longer encoding, %x", b[:n], again)
		}
		got, m, err := ParseHeader(again)
		if got != h || m != len(again) || err != nil {
			t.Fatalf("ParseHeader(%x) = %+v, %d, %v, want %+v", again, got, m, err, h)
		}
		if len(again) == n && b[0]&0xc0 == 0 && b[0] == again[0] && !bytes.Equal(again, b[:n]) {
			t.Fatalf("%x encodes to %x", b[:n], again)
		}
	})
}

func FuzzFragment(f *testing.F) {
	addSeeds(f, "fragment_header_decode.jsonl", func(b []byte) { f.Add(b, uint8(15), uint16(8)) })
	f.Fuzz(func(t *testing.T, b []byte, last uint8, size uint16) {
		maxFragments, fragmentSize := int(last)+1, int(size)+1
		g, err := ParseFragment(b, maxFragments, fragmentSize)
		if err != nil {
			return
		}
		again := AppendFragmentHeader(nil, g.FragmentHeader)
		if g.ID == 0 {
			again = AppendHeader(again, g.Header)
		}
		if again = append(again, g.Data...); !bytes.Equal(again, b) {
			t.Fatalf("%x encodes to %x", b, again)
		}
		if g.Count > maxFragments || len(g.Data) > fragmentSize || int(g.ID) >= g.Count {
			t.Fatalf("ParseFragment(%x, %d, %d) = %+v", b, maxFragments, fragmentSize, g)
		}
	})
}

// FuzzReceive gives one endpoint the datagrams of a script, each with its
// length before it.
func FuzzReceive(f *testing.F) {
	for _, file := range []string{"trace_hostile.jsonl", "trace_mutated.jsonl"} {
		var script []byte
		addSeeds(f, file, func(b []byte) {
			script = append(append(script, byte(len(b))), b[:len(b)&255]...)
			if len(script) > 300 {
				f.Add(script, false)
				f.Add(script, true)
				script = nil
			}
		})
	}
	f.Fuzz(func(t *testing.T, script []byte, growing bool) {
		cfg := &Config{MaxPacketSize: 200, FragmentAbove: 64, MaxFragments: 8, FragmentSize: 32, ReassemblyBytes: 4096}
		if growing {
			cfg.MaxWindow, cfg.JumpGuard, cfg.AckGuard, cfg.AckRefused = 256, true, true, true
			cfg.AckDelay = 20 * time.Millisecond
		}
		e, err := newEndpoint(cfg, testTime(0), nil)
		if err != nil {
			t.Fatal(err)
		}
		var out Batch
		script = script[:min(len(script), 1500)]
		for i := 0; len(script) > 0; i++ {
			out.Reset()
			n := min(int(script[0]), len(script)-1)
			d := bytes.Clone(script[1 : 1+n])
			script = script[1+n:]
			ParseOpening(cfg, d)
			e.Receive(testTime(float64(i)/100), d)
			if i%3 == 0 {
				mustSend(t, e, testTime(float64(i)/100), d[:min(n, 200)], &out)
				e.Update(testTime(float64(i) / 100))
				e.ClearAcks()
			}
			if _, ok := e.ControlDue(testTime(float64(i) / 100)); ok && i%5 == 0 {
				e.SendControl(testTime(float64(i)/100), &out)
			}
			if e.parts.bytes > 4096 || e.MemoryUsage() > 32<<10 || e.MemoryUsage() != measure(e) {
				t.Fatalf("%d bytes held, %d of them for reassemblies; counted %d", e.MemoryUsage(), e.parts.bytes, measure(e))
			}
		}
	})
}

// FuzzEndpoint joins two endpoints by a network whose every act is a byte of
// the script: it loses, repeats, reorders and damages datagrams.
func FuzzEndpoint(f *testing.F) {
	f.Add([]byte("send some, receive some, and let the time pass"), uint8(0))
	f.Add([]byte(strings.Repeat("\x00\x01\x44\x45", 60)), uint8(1))
	f.Add([]byte(strings.Repeat("\x04\x09\x84\x45\xc2\x03", 40)), uint8(2))
	f.Add(bytes.Repeat([]byte{0x10, 0x21, 0x4a, 0x6b, 0xc0, 0xc1, 0xfe}, 50), uint8(3))
	f.Fuzz(func(t *testing.T, script []byte, mode uint8) {
		n := newFuzzNet(t, mode)
		for _, act := range script[:min(len(script), 1000)] {
			n.do(act)
		}
		n.finish()
	})
}

// A fuzzNet is two endpoints and what is under way between them.
type fuzzNet struct {
	t     *testing.T
	peers [2]*simPeer
	mail  [2][]fuzzMail // towards each
	now   time.Duration
	out   Batch
	dirty bool // a damaged datagram was delivered
}

type fuzzMail struct{ data []byte }

func newFuzzNet(t *testing.T, mode uint8) *fuzzNet {
	cfg := &Config{MaxPacketSize: 120, FragmentAbove: 30, FragmentSize: 16, MaxFragments: 8, ReassemblyBytes: 4000}
	switch mode % 4 {
	case 1:
		// An odd ReceivedBuffer would deliver duplicates around sequence 0.
		cfg.SentBuffer, cfg.ReceivedBuffer, cfg.ReassemblyBuffer = 33, 16, 7
	case 2:
		cfg.MaxWindow, cfg.JumpGuard, cfg.AckGuard, cfg.AckBuffer = 128, true, true, -1
		cfg.AckDelay = 20 * time.Millisecond
	case 3:
		cfg.MaxWindow, cfg.AckRefused, cfg.ReassemblyTimeout = 64, true, 50*time.Millisecond
	}
	n := &fuzzNet{t: t}
	for i := range n.peers {
		p := newSimPeer(t, cfg)
		n.peers[i] = p
		startAt(p.Endpoint, 65536-uint64(mode>>2))
	}
	for i, p := range n.peers {
		p.handler = fuzzHandler{n, n.peers[i]}
	}
	return n
}

// A fuzzHandler takes all messages where they may be wrong.
type fuzzHandler struct {
	n *fuzzNet
	*simPeer
}

func (h fuzzHandler) HandleMessage(s uint16, payload []byte) bool {
	return h.n.dirty || h.simPeer.HandleMessage(s, payload)
}

// startAt makes e one that has sent and seen all packets before id.
func startAt(e *Endpoint, id uint64) {
	e.out.nextID = id
	e.out.ensure(&e.env)
	for _, s := range []uint16{30000, 60000, uint16(id) - 1} {
		if e.out.odd != nil {
			e.out.odd.Forward(s)
		}
		e.in.seen.Forward(s)
		e.parts.forward(&e.env, s)
	}
}

// do performs one act: two bits of kind, five of detail, one of side.
func (n *fuzzNet) do(act byte) {
	side, detail := int(act&1), int(act>>1&31)
	p := n.peers[side]
	now := testTime(0).Add(n.now)
	switch act >> 6 {
	case 0:
		n.out.Reset()
		payload := p.message(8 + detail*3)
		if detail == 31 {
			payload = nil
		} else {
			p.messages++
		}
		mustSend(n.t, p.Endpoint, now, payload, &n.out)
		for i := range n.out.Len() {
			n.mail[side^1] = append(n.mail[side^1], fuzzMail{bytes.Clone(n.out.At(i))})
		}
	case 1, 2:
		n.deliver(side, detail, act>>6 == 2 && detail&3 == 3)
	default:
		n.idle(side, detail)
	}
	if p.MemoryUsage() != measure(p.Endpoint) || p.parts.bytes > 4000 {
		n.t.Fatalf("%d bytes held, counted %d", p.MemoryUsage(), measure(p.Endpoint))
	}
}

// deliver takes a datagram from the mail of a side: the one so far from the
// oldest, and now and then again, or damaged.
func (n *fuzzNet) deliver(side, detail int, damage bool) {
	mail := n.mail[side]
	if len(mail) == 0 {
		return
	}
	i := detail >> 2 % len(mail)
	d := mail[i].data
	if detail&3 != 2 {
		n.mail[side] = append(mail[:i:i], mail[i+1:]...)
	}
	if damage && len(d) > 0 {
		d = bytes.Clone(d)
		d[detail%len(d)] ^= byte(1 << (detail & 7))
		n.dirty = true
	}
	if detail != 1 { // which is lost
		n.peers[side].Receive(testTime(0).Add(n.now), d)
	}
}

// idle lets time pass, and whatever goes with that.
func (n *fuzzNet) idle(side, detail int) {
	n.now += time.Duration(detail) * time.Millisecond
	now, p := testTime(0).Add(n.now), n.peers[side]
	p.Update(now)
	p.ClearAcks()
	if wait, ok := p.ControlDue(now); ok && wait == 0 {
		n.out.Reset()
		p.SendControl(now, &n.out)
		for i := range n.out.Len() {
			n.mail[side^1] = append(n.mail[side^1], fuzzMail{bytes.Clone(n.out.At(i))})
		}
	}
	switch detail {
	case 7:
		p.Compact(now)
	case 30:
		n.now += 3 * time.Second
	}
}

func (n *fuzzNet) finish() {
	for i, p := range n.peers {
		p.Reset()
		if uint64(len(p.fates)) != p.messages || p.InFlight() != 0 {
			n.t.Fatalf("%d fates of %d messages, %d in flight", len(p.fates), p.messages, p.InFlight())
		}
		for id, fate := range p.fates {
			if fate == FateDelivered && !n.dirty && !n.peers[i^1].seen[id] {
				n.t.Fatalf("message %d is acknowledged, and was not delivered", id)
			}
		}
	}
}
