package reliable

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestConfigErrors(t *testing.T) {
	for _, test := range []struct {
		field string
		limit string // must be in the text
		cfg   Config
	}{
		{"MaxPacketSize", "negative", Config{MaxPacketSize: -1}},
		{"MaxPacketSize", "16384", Config{MaxPacketSize: 16385}},
		{"MaxPacketSize", "8192", Config{MaxFragments: 8}},
		{"MaxPacketSize", "16769792", Config{MaxPacketSize: math.MaxInt}},
		{"FragmentAbove", "negative", Config{FragmentAbove: -1}},
		{"FragmentSize", "65507", Config{FragmentSize: 65508}},
		{"FragmentSize", "negative", Config{FragmentSize: math.MinInt}},
		{"MaxFragments", "256", Config{MaxFragments: 257}},
		{"SentBuffer", "32767", Config{SentBuffer: 32768}},
		{"ReceivedBuffer", "negative", Config{ReceivedBuffer: -5}},
		{"ReceivedBuffer", "power of two", Config{ReceivedBuffer: 100, JumpGuard: true}},
		{"AckBuffer", "1048576", Config{AckBuffer: math.MaxInt}},
		{"ReassemblyBuffer", "32767", Config{ReassemblyBuffer: 1 << 16}},
		{"RTTSmoothing", "0 to 1", Config{RTTSmoothing: 1.5}},
		{"LossSmoothing", "0 to 1", Config{LossSmoothing: float32(math.NaN())}},
		{"BandwidthSmoothing", "0 to 1", Config{BandwidthSmoothing: float32(math.Inf(1))}},
		{"RTTHistory", "negative", Config{RTTHistory: -1}},
		{"PacketHeaderSize", "65536", Config{PacketHeaderSize: 1 << 20}},
		{"MaxWindow", "16384", Config{MaxWindow: 100}},
		{"MaxWindow", "16384", Config{MaxWindow: 32}},
		{"MaxWindow", "16384", Config{MaxWindow: 32768}},
		{"MaxWindow", "16384", Config{MaxWindow: -256}},
		{"SmoothingInterval", "negative", Config{SmoothingInterval: -1}},
		{"ReassemblyTimeout", "negative", Config{ReassemblyTimeout: -1}},
		{"ReassemblyBytes", "negative", Config{ReassemblyBytes: -1}},
	} {
		_, err := newEndpoint(&test.cfg, testTime(0), nil)
		var ce *ConfigError
		if !errors.As(err, &ce) || ce.Field != test.field || !strings.Contains(err.Error(), test.field) ||
			!strings.Contains(ce.Reason, test.limit) {
			t.Errorf("newEndpoint(%+v) = %v, want a *ConfigError for %s that says %s", test.cfg, err, test.field, test.limit)
		}
	}
	written := DefaultConfig()
	for _, cfg := range []*Config{nil, {}, &written, connConfig(), {AckBuffer: -1, PacketHeaderSize: -1, RTTSmoothing: -1}} {
		if _, err := newEndpoint(cfg, testTime(0), nil); err != nil {
			t.Errorf("newEndpoint(%+v) = %v", cfg, err)
		}
	}
}

func TestPacketTooLarge(t *testing.T) {
	e, _ := newEndpoint(&Config{MaxPacketSize: 100}, testTime(0), nil)
	var out Batch
	_, err := e.Send(testTime(0), make([]byte, 101), &out)
	var tooLarge *MessageTooLargeError
	if !errors.As(err, &tooLarge) || *tooLarge != (MessageTooLargeError{101, 100}) {
		t.Errorf("Send = %v, want *MessageTooLargeError{101, 100}", err)
	}
	if out.Len() != 0 || e.NextID() != 0 {
		t.Error("something was sent")
	}
}

// TestBadDatagrams says what is counted for each.
func TestBadDatagrams(t *testing.T) {
	for _, test := range []struct {
		name     string
		datagram []byte
		want     Verdict
		counters Counters
	}{
		{"empty", []byte{}, Invalid, Counters{PacketsReceived: 1, PacketsInvalid: 1}},
		{"nil", nil, Invalid, Counters{PacketsReceived: 1, PacketsInvalid: 1}},
		{"one byte", []byte{0}, Invalid, Counters{PacketsReceived: 1, PacketsInvalid: 1}},
		{"one odd byte", []byte{1}, Invalid, Counters{FragmentsInvalid: 1}},
		{"odd prefix", []byte{3, 0, 0, 0, 0, 0}, Invalid, Counters{FragmentsInvalid: 1}},
		{"huge", make([]byte, 16384+15), TooLarge, Counters{PacketsTooLargeToReceive: 1}},
		{"large payload", append([]byte{0x20, 0, 0, 1}, make([]byte, 16385)...), TooLarge, Counters{PacketsReceived: 1, PacketsTooLargeToReceive: 1}},
		{"stale", []byte{0x20, 0, 0x90, 1}, stale, Counters{PacketsReceived: 1, PacketsStale: 1}},
	} {
		e, _ := newEndpoint(nil, testTime(0), nil)
		if v := e.Receive(testTime(0), test.datagram); v != test.want || e.Counters() != test.counters {
			t.Errorf("%s: %v, %+v, want %v, %+v", test.name, v, e.Counters(), test.want, test.counters)
		}
		if test.want.Valid() != (test.want == stale) || test.want.Live() {
			t.Errorf("%v: Valid = %v, Live = %v", test.want, test.want.Valid(), test.want.Live())
		}
	}
}

// A nested handler does to the endpoint what it is told.
type nested struct{ do func() bool }

func (n *nested) HandleMessage(uint16, []byte) bool      { return n.do() }
func (n *nested) HandleFate(uint64, Fate, time.Duration) { n.do() }

func TestReentry(t *testing.T) {
	n := new(nested)
	e, _ := newEndpoint(nil, testTime(0), n)
	from, _ := newEndpoint(nil, testTime(0), nil)
	var packets, out Batch
	mustSend(t, from, testTime(0), make([]byte, 3000), &packets)
	from.out.nextID += 100 // a packet that would drop the reassembly
	mustSend(t, from, testTime(0), []byte{1}, &packets)
	n.do = func() bool {
		before := e.Counters()
		if v := e.Receive(testTime(0), packets.At(3)); v != reentrant || e.Counters() != before {
			t.Errorf("Receive within a callback = %v, want reentrant and nothing counted", v)
		}
		mustSend(t, e, testTime(0), []byte("answer"), &out)
		return true
	}
	for i := range 3 {
		e.Receive(testTime(0), packets.At(i))
	}
	if h, _, err := ParseHeader(out.At(0)); err != nil || h.Ack != 0 || h.AckBits != 0 {
		t.Errorf("header sent from the callback: %+v, %v, want ack 0 and no bits", h, err)
	}
	from.out.nextID = 200
	out.Reset()
	mustSend(t, e, testTime(0), []byte("later"), &out)
	if h, _, _ := ParseHeader(out.At(0)); h.AckBits != 1 {
		t.Errorf("header sent later: %+v, want bit 0", h)
	}
	// From the callback of a fate too.
	out.Reset()
	ack := AppendHeader(nil, Header{1, 1, 3})
	if v := e.Receive(testTime(1), ack); v != Delivered || out.Len() != 3 {
		t.Errorf("Receive = %v, %d packets sent from callbacks, want Delivered, 3", v, out.Len())
	}
}

func TestRefused(t *testing.T) {
	for _, ackRefused := range []bool{false, true} {
		n := &nested{do: func() bool { return false }}
		e, _ := newEndpoint(&Config{AckRefused: ackRefused}, testTime(0), HandlerFunc(n.HandleMessage))
		var out Batch
		mustSend(t, e, testTime(0), []byte{1}, &out)
		d := AppendHeader(nil, Header{0, 0, 1})
		if v := e.Receive(testTime(0), d); v != Refused || !v.Live() {
			t.Errorf("Receive = %v, want Refused", v)
		}
		if got := len(e.Acks()) == 1; got != ackRefused {
			t.Errorf("AckRefused %v: acks %v", ackRefused, e.Acks())
		}
		if e.in.seen.Next() != 0 {
			t.Error("a refused packet moved the window")
		}
		n.do = func() bool { return true }
		if v := e.Receive(testTime(0), d); v != Delivered {
			t.Errorf("the packet again = %v, want Delivered", v)
		}
	}
}

// TestReset: every open fate is told, ids go on, sequences start again.
func TestReset(t *testing.T) {
	for name, cfg := range map[string]*Config{"reference": nil, "odd": {SentBuffer: 100}, "growing": connConfig()} {
		p := newSimPeer(t, cfg)
		var out Batch
		p.Receive(testTime(0), AppendHeader(nil, Header{0, 65535, 0}))
		for range 300 {
			mustSend(t, p.Endpoint, testTime(0), p.message(8), &out)
			mustSend(t, p.Endpoint, testTime(0), nil, &out)
		}
		p.Receive(testTime(0.1), AppendHeader(nil, Header{1, 599, 0xf0}))
		p.Update(testTime(0.2))
		stats := p.Stats()
		p.Reset()
		if len(p.fates) != 300 || p.InFlight() != 0 {
			t.Errorf("%s: %d fates after Reset, want 300", name, len(p.fates))
		}
		if uint16(p.NextID()) != 0 || p.NextID() != 65536 || p.Counters() != (Counters{}) || len(p.Acks()) != 0 {
			t.Errorf("%s: after Reset: id %d, %+v, acks %v", name, p.NextID(), p.Counters(), p.Acks())
		}
		if p.Stats() != stats || stats.RTT == 0 {
			t.Errorf("%s: figures %+v, want %+v", name, p.Stats(), stats)
		}
		if v := p.Receive(testTime(0.1), AppendHeader(nil, Header{0, 65535, 0})); v != Delivered {
			t.Errorf("%s: first packet after Reset: %v", name, v)
		}
		p.resetAll(testTime(1))
		if p.Stats() != (Stats{}) || p.NextID() != 65536 {
			t.Errorf("%s: after ResetAll: %+v, id %d", name, p.Stats(), p.NextID())
		}
	}
}

// TestFateOfFixedWindows: with and without a power of two, exactly one each.
func TestFateOfFixedWindows(t *testing.T) {
	for _, n := range []int{1, 2, 3, 16, 100, 256, 1000} {
		s := newSim(t, &Config{SentBuffer: n}, simLink{delay: 30 * time.Millisecond, jitter: 5 * time.Millisecond, loss: 0.1})
		for range 70_000 {
			s.send(0, s.peers[0].message(8))
			s.advance(3 * time.Millisecond)
			s.peers[0].ClearAcks()
			s.peers[1].ClearAcks()
		}
		for _, p := range s.peers {
			p.Reset()
		}
		s.check()
	}
}

// TestSentFates arms receipts late.
func TestSentFates(t *testing.T) {
	s := newSim(t, connConfig(), simLink{delay: 60 * time.Millisecond, loss: 0.2})
	for range 2000 {
		s.send(0, s.peers[0].message(8))
		s.advance(5 * time.Millisecond)
	}
	p := s.peers[0]
	var last uint64
	n := 0
	p.Inner().SentFates(func(id uint64, fate uint8, rtt time.Duration) {
		if p.fates[id] != Fate(fate) || id <= last && n > 0 || (Fate(fate) == FateDelivered) != (rtt > 0) {
			t.Errorf("SentFates: %d, %v, %v after %d, want %v", id, fate, rtt, last, p.fates[id])
		}
		last = id
		n++
	})
	if n < 50 {
		t.Errorf("SentFates told of %d packets", n)
	}
}

func TestTimeBackwards(t *testing.T) {
	e, _ := newEndpoint(nil, testTime(10), nil)
	var out Batch
	mustSend(t, e, testTime(11), []byte{1}, &out)
	e.Receive(testTime(5), AppendHeader(nil, Header{0, 0, 1}))
	e.Update(testTime(2))
	if s := e.Stats(); s.RTT != 0 || s.RTTMin != 0 {
		t.Errorf("Stats = %+v, want no round-trip time", s)
	}
}

func TestSmoothingInterval(t *testing.T) {
	var figures []float32
	for _, step := range []float64{1. / 240, 1. / 60, 1. / 10} {
		e, _ := newEndpoint(&Config{SmoothingInterval: time.Second / 60, SentBuffer: 16}, testTime(0), nil)
		var out Batch
		for range 64 {
			mustSend(t, e, testTime(0), []byte{1}, &out)
		}
		for now := step; now < 0.2001; now += step {
			e.Update(testTime(now))
		}
		figures = append(figures, e.Stats().PacketLoss)
	}
	for _, f := range figures {
		if math.Abs(float64(f-figures[0])) > 0.01 || f < 50 {
			t.Errorf("loss figures after 0.2 s at different rates: %v, want the same", figures)
		}
	}
}

func TestParseOpening(t *testing.T) {
	e, _ := newEndpoint(nil, testTime(0), nil)
	var whole, parts, later Batch
	mustSend(t, e, testTime(0), nil, &whole)
	mustSend(t, e, testTime(0), []byte("hello"), &whole)
	mustSend(t, e, testTime(0), make([]byte, 3000), &parts)
	e.Receive(testTime(0), AppendHeader(nil, Header{0, 65535, 0}))
	mustSend(t, e, testTime(0), []byte("hello"), &later)
	check := func(name string, d []byte, want bool) {
		t.Helper()
		if got := ParseOpening(nil, d); got != want {
			t.Errorf("%s: ParseOpening = %v, want %v", name, got, want)
		}
	}
	check("ack-only", whole.At(0), true)
	check("packet", whole.At(1), true)
	check("fragment 0", parts.At(0), true)
	check("fragment 1", parts.At(1), false)
	check("part of fragment 0", parts.At(0)[:1000], false)
	check("mid-stream", later.At(0), false)
	check("empty", nil, false)
	check("garbage", []byte{1, 2, 3, 4, 5, 6, 7, 8}, false)
	check("truncated", whole.At(1)[:7], false)
	check("huge", append(whole.At(0), make([]byte, 16385)...), false)
	if ParseOpening(&Config{FragmentSize: 512, MaxFragments: 32}, parts.At(0)) {
		t.Error("ParseOpening accepts a fragment of another size")
	}
}

func TestParseSequence(t *testing.T) {
	e, _ := newEndpoint(nil, testTime(0), nil)
	var out Batch
	for range 300 {
		mustSend(t, e, testTime(0), nil, &out)
	}
	out.Reset()
	mustSend(t, e, testTime(0), []byte("hello"), &out)
	mustSend(t, e, testTime(0), make([]byte, 3000), &out)
	check := func(name string, d []byte, want uint16, wantOK bool) {
		t.Helper()
		if got, ok := ParseSequence(nil, d); ok != wantOK || ok && got != want {
			t.Errorf("%s: ParseSequence = %d, %v, want %d, %v", name, got, ok, want, wantOK)
		}
	}
	check("packet", out.At(0), 300, true)
	for i := 1; i < out.Len(); i++ {
		check("fragment", out.At(i), 301, true)
	}
	check("part of a fragment", out.At(2)[:900], 0, false)
	check("truncated", out.At(0)[:4], 0, false)
	check("huge", append(out.At(0), make([]byte, 16385)...), 0, false)
	check("another first byte", append([]byte{3}, out.At(2)[1:]...), 0, false)
	check("empty", nil, 0, false)
}

func TestUnacknowledged(t *testing.T) {
	for _, cfg := range []*Config{nil, {MaxWindow: 256}, {SentBuffer: 100}} {
		e, err := newEndpoint(cfg, testTime(0), nil)
		if err != nil {
			t.Fatal(err)
		}
		check := func(s uint16, want bool) {
			t.Helper()
			if got := e.Inner().Unacknowledged(s); got != want {
				t.Errorf("%+v: Unacknowledged(%d) = %v, want %v", cfg, s, got, want)
			}
		}
		check(0, false)
		var out Batch
		for range 10 {
			mustSend(t, e, testTime(0), []byte("hello"), &out)
		}
		for s := range uint16(10) {
			check(s, true)
		}
		check(10, false)
		check(65535, false)
		e.Receive(testTime(0), AppendHeader(nil, Header{0, 5, 0b101}))
		for s := range uint16(10) {
			check(s, s != 5 && s != 3)
		}
	}
}

func TestStrings(t *testing.T) {
	for v := Delivered; v <= reentrant; v++ {
		if s := v.String(); s == "" || strings.Contains(s, "(") {
			t.Errorf("Verdict %d has no name", v)
		}
	}
	for _, s := range []string{Verdict(99).String(), Fate(0).String()} {
		if !strings.Contains(s, "(") {
			t.Errorf("%q, want a number in brackets", s)
		}
	}
	if FateDelivered.String() != "Delivered" || FateLost.String() != "Lost" {
		t.Error("the fates have other names")
	}
	if s := errFragmentSize.Error(); s != "reliable: fragment is not the last and not full" {
		t.Error(s)
	}
	if !errFragmentSize.OtherSize() || !errFragmentLong.OtherSize() || !errFragmentCount.OtherSize() || errFragmentID.OtherSize() {
		t.Error("errors that say that the sizes differ are others")
	}
	if s := (&MessageTooLargeError{9, 8}).Error(); s != "reliable: packet of 9 bytes exceeds the maximum of 8" {
		t.Error(s)
	}
}

// A window of odd size keeps some sequences that it has left behind when it moves
// across 65535. Fragments of such a packet are dropped as those of one received,
// as the reference does.
func TestFragmentsOfPacketKeptAcrossWrap(t *testing.T) {
	for _, begun := range []bool{false, true} {
		cfg := DefaultConfig()
		cfg.ReceivedBuffer, cfg.ReassemblyBuffer = 100, 611
		e, _ := newEndpoint(&cfg, testTime(0), nil)
		packet := func(s uint16) {
			require.Equal(t, Delivered, e.Receive(testTime(0), AppendHeader(nil, Header{Sequence: s})), "packet %d", s)
		}
		packet(30_000)
		packet(60_000)
		fragment := func(id uint8) []byte {
			d := AppendFragmentHeader(nil, FragmentHeader{Sequence: 65_472, ID: id, Count: 4})
			if id == 0 {
				d = AppendHeader(d, Header{Sequence: 65_472})
			}
			return append(d, make([]byte, cfg.FragmentSize)...)
		}
		for id := range uint8(3) {
			if begun { // the last one then has room in the buffer
				require.Equal(t, fragmentStored, e.Receive(testTime(0), fragment(id)))
			}
		}
		packet(65_472)
		packet(10)
		packet(52)
		before := e.Counters()
		require.Equal(t, Duplicate, e.Receive(testTime(0), fragment(3)), "begun: %t", begun)
		require.Equal(t, before, e.Counters(), "begun: %t", begun)
	}
}
