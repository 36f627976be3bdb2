package reliable

import (
	"encoding/binary"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"volley/internal/tape"
	"volley/internal/wire"
)

// The defaults are those that the fields' comments name.
func TestDefaults(t *testing.T) {
	require.Equal(t, Config{
		MaxPacketSize: 16384, FragmentAbove: 1024, FragmentSize: 1024, MaxFragments: 16,
		SentBuffer: 256, ReceivedBuffer: 256, AckBuffer: 256, ReassemblyBuffer: 64,
		RTTSmoothing: 0.0025, LossSmoothing: 0.1, BandwidthSmoothing: 0.1, RTTHistory: 512, PacketHeaderSize: 28,
	}, DefaultConfig())
}

// Every number of a Config has a least and a most value, and beyond them the error
// names the field and the value.
func TestConfigRanges(t *testing.T) {
	large := Config{MaxPacketSize: 1, MaxFragments: 256, FragmentSize: 65507}
	guarded := Config{JumpGuard: true}
	acking := Config{AckDelay: time.Second}
	growing := Config{AckDelay: time.Second, MaxWindow: 64, ReceivedBuffer: 100, SentBuffer: 100}
	for _, test := range []struct {
		field     string
		base      Config
		good, bad []int
	}{
		{"MaxPacketSize", large, []int{1, 256 * 65507}, []int{-1, 256*65507 + 1}},
		{"MaxPacketSize", Config{}, []int{1, 16384}, []int{16385}},
		{"MaxPacketSize", Config{MaxFragments: 3, FragmentSize: 100}, []int{300}, []int{301}},
		{"FragmentAbove", Config{}, []int{1, 256 * 65507}, []int{-1, 256*65507 + 1}},
		{"FragmentSize", Config{MaxPacketSize: 1}, []int{1, 65507}, []int{-1, 65508}},
		{"MaxFragments", Config{MaxPacketSize: 1}, []int{1, 256}, []int{-1, 257}},
		{"SentBuffer", Config{}, []int{1, 100, 32767}, []int{-1, 32768}},
		{"ReceivedBuffer", Config{}, []int{1, 100, 32767}, []int{-1, 32768}},
		{"ReceivedBuffer", guarded, []int{1, 2, 64, 16384}, []int{3, 100, 32767}},
		{"ReceivedBuffer", acking, []int{1, 2, 64, 16384}, []int{3, 100, 32767}},
		{"SentBuffer", acking, []int{1, 2, 64, 16384}, []int{3, 100, 32767}},
		{"SentBuffer", growing, []int{3}, nil},
		{"AckBuffer", Config{}, []int{math.MinInt, -1, 1, 1 << 20}, []int{1<<20 + 1}},
		{"ReassemblyBuffer", Config{}, []int{1, 100, 32767}, []int{-1, 32768}},
		{"RTTHistory", Config{}, []int{1, 1 << 20}, []int{-1, 1<<20 + 1}},
		{"PacketHeaderSize", Config{}, []int{math.MinInt, -1, 1, 1 << 16}, []int{1<<16 + 1}},
		{"ReassemblyBytes", Config{}, []int{1, math.MaxInt}, []int{-1}},
		{"MaxWindow", Config{}, []int{64, 128, 16384}, []int{-64, 1, 32, 63, 65, 100, 16385, 32768}},
		{"MaxWindow", growing, []int{64, 16384}, []int{32}},
		{"AckDelay", Config{}, []int{1, math.MaxInt}, []int{-1}},
		{"SmoothingInterval", Config{}, []int{1, math.MaxInt}, []int{-1}},
		{"ReassemblyTimeout", Config{}, []int{1, math.MaxInt}, []int{-1}},
		{"LostAfter", Config{}, []int{math.MinInt, -1, 1, math.MaxInt}, nil},
	} {
		check := func(value int, good bool) {
			t.Helper()
			cfg := test.base
			reflect.ValueOf(&cfg).Elem().FieldByName(test.field).SetInt(int64(value))
			err := cfg.Validate()
			if good {
				require.NoError(t, err, "%s = %d", test.field, value)
				return
			}
			var wrong *ConfigError
			require.ErrorAs(t, err, &wrong, "%s = %d", test.field, value)
			require.Equal(t, test.field, wrong.Field)
			told, _, _ := strings.Cut(wrong.Reason, " ")
			require.Contains(t, []string{fmt.Sprint(value), time.Duration(value).String()}, told, test.field)
		}
		for _, value := range test.good {
			check(value, true)
		}
		for _, value := range test.bad {
			check(value, false)
		}
	}
	for _, field := range []string{"RTTSmoothing", "LossSmoothing", "BandwidthSmoothing"} {
		for value, good := range map[float64]bool{-5: true, 1e-9: true, 1: true, 1.0001: false, math.Inf(1): false} {
			var cfg Config
			reflect.ValueOf(&cfg).Elem().FieldByName(field).SetFloat(value)
			var wrong *ConfigError
			if err := cfg.Validate(); good {
				require.NoError(t, err)
			} else {
				require.ErrorAs(t, err, &wrong)
				require.Equal(t, field, wrong.Field)
			}
		}
	}
	var wrong *ConfigError
	require.ErrorAs(t, (&Config{MidStream: true}).Validate(), &wrong)
	require.Equal(t, "MidStream", wrong.Field)
	require.NoError(t, (&Config{MidStream: true, JumpGuard: true}).Validate())
}

// spoil changes a few bytes of a datagram, or its length.
func spoil(r *tape.Rand, d []byte) []byte {
	d = slices.Clone(d)
	for range r.Between(0, 3) {
		if len(d) == 0 {
			break
		}
		i := r.Below(min(len(d), 15))
		switch r.Below(5) {
		case 0:
			d[i] ^= 1 << r.Below(8)
		case 1:
			d[i] = byte(r.Uint64())
		case 2:
			d = d[:r.Between(0, len(d))]
		case 3:
			d = append(d, noise[:r.Below(20)]...)
		case 4:
			d = d[:min(len(d), r.Below(12))]
		}
	}
	return d
}

// What can be told of a datagram without an endpoint is what a fresh endpoint makes
// of it: it is no packet if that finds it invalid or too large.
func TestToldWithoutEndpoint(t *testing.T) {
	r := tape.Rand(5)
	var samples [][]byte
	for _, cfg := range []*Config{nil, {MaxPacketSize: 300, FragmentSize: 100, MaxFragments: 3, FragmentAbove: 100}} {
		for _, heard := range []bool{false, true} {
			e, err := newEndpoint(cfg, testTime(0), nil)
			require.NoError(t, err)
			if heard {
				e.Receive(testTime(0), AppendHeader(nil, Header{3, 65535, 0}))
			}
			var out Batch
			for _, n := range []int{0, 1, 99, 100, 101, 200, 299, 300, 1000, 1025, 3000, 16384} {
				if n <= int(e.maxPacket) {
					mustSend(t, e, testTime(0), noise[:n], &out)
				}
			}
			for i := range out.Len() {
				samples = append(samples, slices.Clone(out.At(i)))
			}
		}
	}
	for _, n := range []int{299, 300, 301, 16383, 16384, 16385, 16393, 16394} {
		for _, h := range []Header{{0, 65535, 0}, {300, 3, 0}, {300, 299, noBits}} {
			samples = append(samples, append(AppendHeader(nil, h), noise[:n]...))
		}
	}
	full := &Config{MaxPacketSize: 1000, FragmentSize: 1000, MaxFragments: 2}
	for _, n := range []int{999, 1000, 1001} {
		for _, h := range []Header{{0, 65535, 0}, {300, 65535, 0}, {300, 3, noBits}} {
			d := AppendHeader(AppendFragmentHeader(nil, FragmentHeader{h.Sequence, 0, 2}), h)
			samples = append(samples, append(d, noise[:n]...))
		}
	}
	counts := make(map[string]int)
	for i := range 8000 {
		d := samples[i%len(samples)]
		if i >= len(samples) {
			d = spoil(&r, d)
		}
		for _, cfg := range []*Config{nil, {MaxPacketSize: 300, FragmentSize: 100, MaxFragments: 3}, {MaxFragments: 4, MaxPacketSize: 4000}, full} {
			told(t, cfg, d, counts)
		}
	}
	for _, what := range []string{"packet", "opening", "message", "fragment"} {
		require.Greater(t, counts[what], 50, what)
	}
}

func told(t *testing.T, cfg *Config, d []byte, counts map[string]int) {
	t.Helper()
	payload := -1
	e, err := newEndpoint(cfg, testTime(0), HandlerFunc(func(_ uint16, b []byte) bool { payload = len(b); return true }))
	require.NoError(t, err)
	v := e.Receive(testTime(0), d)
	packet := v.Valid() && v != TooLarge
	fragment := len(d) > 0 && d[0]&1 == 1
	s, ok := ParseSequence(cfg, d)
	if ok != packet || ok && s != binary.LittleEndian.Uint16(d[1:]) {
		t.Fatalf("ParseSequence(%.12x) of %d bytes = %d, %t, and the endpoint says %v", d, len(d), s, ok, v)
	}
	message := packet && (fragment || v == Delivered && payload > 0 || v == stale && carries(d))
	if got := CarriesMessage(cfg, d); got != message {
		t.Fatalf("CarriesMessage(%.12x) of %d bytes = %t, want %t", d, len(d), got, message)
	}
	opening := packet && nothingHeard(d)
	if got := ParseOpening(cfg, d); got != opening {
		t.Fatalf("ParseOpening(%.12x) of %d bytes = %t, want %t", d, len(d), got, opening)
	}
	first, ok := OpeningMessage(cfg, d)
	if ok != (opening && message) || ok && first != s {
		t.Fatalf("OpeningMessage(%.12x) of %d bytes = %d, %t, want %t", d, len(d), first, ok, opening && message)
	}
	if may := wire.MayOpen(d); opening && !may || may != (fragment || len(d) > 0 && d[0]&0x1e == 0x1e) {
		t.Fatalf("wire.MayOpen(%.12x) = %t", d, may)
	}
	if wire.IsFragment(d) != fragment || wire.StartsPacket(d) != (!fragment || len(d) > 3 && d[3] == 0) {
		t.Fatalf("wire.IsFragment(%.12x) = %t, StartsPacket = %t", d, wire.IsFragment(d), wire.StartsPacket(d))
	}
	for what, is := range map[string]bool{"packet": packet, "message": message, "opening": opening, "fragment": packet && fragment} {
		if is {
			counts[what]++
		}
	}
}

// carries reports whether a packet that is no fragment has a payload.
func carries(d []byte) bool {
	_, n, err := ParseHeader(d)
	return err == nil && n < len(d)
}

// nothingHeard reports whether the header in d, a packet or a first fragment, says
// that nothing was received.
func nothingHeard(d []byte) bool {
	if wire.IsFragment(d) {
		if d[3] != 0 {
			return false
		}
		d = d[FragmentHeaderSize:]
	}
	h, _, err := ParseHeader(d)
	return err == nil && h.Ack == 65535 && h.AckBits == 0
}

// The errors of ParseHeader and ParseFragment come with nothing else.
func TestParsedNothing(t *testing.T) {
	for _, d := range [][]byte{nil, {1}, {0, 1}, {0, 1, 2, 3}, {0x1e, 1, 2, 3, 4, 5}} {
		h, n, err := ParseHeader(d)
		require.Error(t, err)
		require.Zero(t, h)
		require.Zero(t, n)
		f, err := ParseFragment(d, 16, 1024)
		require.Error(t, err)
		require.Zero(t, f)
	}
	f, err := ParseFragment(append(AppendFragmentHeader(nil, FragmentHeader{700, 1, 2}), 'x'), 2, 1024)
	require.NoError(t, err)
	require.Equal(t, Fragment{FragmentHeader: FragmentHeader{700, 1, 2}, Data: []byte{'x'}}, f)
}

// A packet that is far ahead is confirmed by the next one only if it was refused
// itself, and nothing was accepted in between.
func TestNothingParked(t *testing.T) {
	fragment := func(s uint16, id uint8) []byte {
		d := AppendFragmentHeader(nil, FragmentHeader{s, id, 3})
		if id == 0 {
			d = AppendHeader(d, Header{s, 65535, 0})
		}
		return append(d, noise[:1024]...)
	}
	for name, begin := range map[string]func(e *Endpoint){
		"fresh":     func(*Endpoint) {},
		"reset":     func(e *Endpoint) { e.Reset() },
		"renewed":   func(e *Endpoint) { e.Inner().Renew() },
		"in order":  func(e *Endpoint) { e.Receive(testTime(0), packet(Header{0, 65535, 0})) },
		"a gap":     func(e *Endpoint) { e.Receive(testTime(0), packet(Header{1, 65535, 0})) },
		"fragment":  func(e *Endpoint) { e.Receive(testTime(0), fragment(0, 1)) },
		"fragments": func(e *Endpoint) { e.Receive(testTime(0), fragment(1, 1)) },
	} {
		for _, earlier := range []bool{false, true} {
			e, err := newEndpoint(&Config{JumpGuard: true, ReceivedBuffer: 4}, testTime(0), nil)
			require.NoError(t, err)
			if earlier {
				require.Equal(t, parked, e.Receive(testTime(0), packet(Header{8, 65535, 0})))
				if name == "fresh" {
					continue
				}
			}
			begin(e)
			require.Equal(t, parked, e.Receive(testTime(0), packet(Header{10, 65535, 0})), "%s, parked before: %t", name, earlier)
			require.Equal(t, Delivered, e.Receive(testTime(0), packet(Header{11, 65535, 0})), "%s, parked before: %t", name, earlier)
		}
	}
}

// A packet up to 4095 ahead is believed where the window is as long, and one that is
// further ahead has the window begin again once it is confirmed.
func TestJumpAhead(t *testing.T) {
	for _, test := range []struct {
		window       int
		first        uint16
		want, before Verdict // and of the one before the one that confirms
	}{
		{16384, 4095, Delivered, Delivered}, {16384, 4096, parked, Duplicate},
		{256, 255, Delivered, Delivered}, {256, 256, parked, Delivered},
		{256, 4080, parked, Delivered}, {256, 4081, parked, Duplicate},
	} {
		e, err := newEndpoint(&Config{JumpGuard: true, ReceivedBuffer: test.window}, testTime(0), nil)
		require.NoError(t, err)
		require.Equal(t, test.want, e.Receive(testTime(0), packet(Header{test.first, 65535, 0})), "%+v", test)
		confirms := test.first + 15
		require.Equal(t, Delivered, e.Receive(testTime(0), packet(Header{confirms, 65535, 0})), "%+v", test)
		require.Equal(t, test.before, e.Receive(testTime(0), packet(Header{confirms - 1, 65535, 0})), "%+v", test)
	}
}

// Fragments of packets whose sequences have much in common do not mix, even if each
// would be the next one of the other packet.
func TestFragmentsOfLikeSequences(t *testing.T) {
	var got [][]byte
	e, err := newEndpoint(&Config{ReassemblyBuffer: 32767, ReceivedBuffer: 32767}, testTime(0), HandlerFunc(func(_ uint16, b []byte) bool {
		got = append(got, slices.Clone(b))
		return true
	}))
	require.NoError(t, err)
	for _, pair := range [][2]uint16{{0, 1}, {2, 0x102}, {0x103, 0x203}, {0x200, 0x300}, {0x301, 0x302}, {0x1010, 0x1110}, {0x1111, 0x1112}} {
		var parts [2][][]byte
		for k, s := range pair {
			for id := range uint8(4) {
				d := AppendFragmentHeader(nil, FragmentHeader{s, id, 4})
				if id == 0 {
					d = AppendHeader(d, Header{s, 65535, 0})
				}
				at := 8192*k + 1024*int(id)
				parts[k] = append(parts[k], append(d, noise[at:at+1024]...))
			}
		}
		got = nil
		for id := range 4 {
			for k := range pair {
				require.True(t, e.Receive(testTime(0), parts[k][id]).Live(), "fragment %d of %d", id, pair[k])
			}
			require.False(t, id < 3 && len(got) > 0)
		}
		require.Equal(t, [][]byte{noise[:4096], noise[8192 : 8192+4096]}, got, "%d and %d", pair[0], pair[1])
	}
}

// Free gives all memory back.
func TestFree(t *testing.T) {
	for _, base := range []Config{{}, *connConfig(), {SentBuffer: 100, ReceivedBuffer: 100}} {
		cfg, reserved := base, 0
		cfg.Reserve = func(n int, _ bool) bool { reserved += n; return true }
		e, err := newEndpoint(&cfg, testTime(0), nil)
		require.NoError(t, err)
		var out Batch
		for i := range 300 {
			mustSend(t, e, testTime(float64(i)/1000), noise[:10], &out)
			s := uint16(i)
			e.Receive(testTime(float64(i)/1000), packet(Header{s, s, 1}))
			if i%2 == 0 {
				e.Receive(testTime(float64(i)/1000), append(AppendFragmentHeader(nil, FragmentHeader{s + 1, 1, 3}), noise[:1024]...))
			}
		}
		require.Positive(t, reserved)
		e.Free()
		require.Zero(t, reserved)
		require.Zero(t, e.MemoryUsage())
		require.Zero(t, measure(e))
	}
}

// What was parked is forgotten with a jump, also if the packet that confirmed it was
// refused.
func TestNothingParkedAfterRefusedJump(t *testing.T) {
	e, err := newEndpoint(&Config{JumpGuard: true}, testTime(0), HandlerFunc(func(s uint16, _ []byte) bool { return s != 50001 }))
	require.NoError(t, err)
	require.Equal(t, Delivered, e.Receive(testTime(0), packet(Header{0, 65535, 0})))
	require.Equal(t, parked, e.Receive(testTime(10), packet(Header{50000, 65535, 0})))
	require.Equal(t, Refused, e.Receive(testTime(10), packet(Header{50001, 65535, 0})))
	require.Equal(t, parked, e.Receive(testTime(10), packet(Header{50001 - 50000 + 4, 65535, 0})))
}

// A message of one byte is a message: it is acknowledged, and has a fate.
func TestMessageOfOneByte(t *testing.T) {
	e, fates := sending(t, connConfig(), 1)
	require.Equal(t, Delivered, e.Receive(testTime(1), packet(Header{0, 0, 1})))
	require.Equal(t, []uint64{0}, fates.delivered)
	require.True(t, e.Inner().AckOwed())
	_, ok := e.ControlDue(testTime(1))
	require.True(t, ok)
}

// An error of Send means that nothing has happened.
func TestSendNothing(t *testing.T) {
	e, err := newEndpoint(&Config{Reserve: func(int, bool) bool { return false }}, testTime(0), nil)
	require.NoError(t, err)
	var out Batch
	for _, n := range []int{16385, 0, 1, 3000} {
		id, err := e.Send(testTime(0), make([]byte, n), &out)
		require.Error(t, err)
		require.Zero(t, id)
		require.Zero(t, out.Len())
		require.Zero(t, e.NextID())
		require.Equal(t, n <= 16384, err == ErrNoMemory)
	}
	require.Equal(t, Counters{PacketsTooLargeToSend: 1}, e.Counters())
	_, ok := e.ControlDue(testTime(100))
	require.False(t, ok)
}

// The bits of a header whose ack is ahead of what was sent acknowledge packets that
// are in the window, and no others.
func TestAckAheadOfWindow(t *testing.T) {
	for _, window := range []int{1, 4, 32, 64} {
		for ahead := range uint16(40) {
			e, err := newEndpoint(&Config{SentBuffer: window}, testTime(0), nil)
			require.NoError(t, err)
			var out Batch
			for range 100 {
				mustSend(t, e, testTime(0), []byte{1}, &out)
			}
			require.Equal(t, Delivered, e.Receive(testTime(0), AppendHeader(nil, Header{0, 99 + ahead, noBits})))
			want := min(window, max(0, 32-int(ahead)))
			require.Len(t, e.Acks(), want, "a window of %d, an ack %d ahead", window, ahead)
			for i, s := range e.Acks() {
				require.Equal(t, 99-uint16(i), s)
			}
		}
	}
}

// The standard deviation of long round-trip times that hardly differ is as exact as
// that of short ones.
func TestJitterOfLongRoundTrips(t *testing.T) {
	r := tape.Rand(3)
	for _, n := range []int{32, 500, 512} {
		e, err := newEndpoint(&Config{SentBuffer: 512}, testTime(0), nil)
		require.NoError(t, err)
		var out Batch
		for i := range n {
			mustSend(t, e, ms(float64(i)), []byte{1}, &out)
		}
		var samples []float64
		for s := range uint16(n) {
			took := 9900*time.Millisecond + time.Duration(r.Below(4000))
			samples = append(samples, float64(float32(float64(took)/1e6)))
			e.Receive(ms(float64(s)).Add(took), AppendHeader(nil, Header{s, s, 1}))
			e.ClearAcks()
		}
		e.Update(testTime(11))
		var mean, squares float64
		for _, x := range samples {
			mean += (x - 9900) / float64(n)
		}
		for _, x := range samples {
			squares += (x - 9900 - mean) * (x - 9900 - mean)
		}
		require.InEpsilon(t, math.Sqrt(squares/float64(n)), e.Stats().JitterStddev, 1e-4, "%d samples", n)
	}
}

// Compact keeps the packets whose fate is open, wherever in the window they are, and
// no more room than they need in its newer half.
func TestCompactKeepsOpenPackets(t *testing.T) {
	for n := 1; n <= 20; n++ {
		for open := range n {
			e, fates := sending(t, &Config{MaxWindow: 256}, n)
			acks := uint32(1)<<n - 1
			e.Receive(testTime(1), AppendHeader(nil, Header{0, uint16(n - 1), acks &^ (1 << (n - 1 - open))}))
			e.Compact(testTime(1))
			require.Equal(t, 1, e.InFlight(), "packet %d of %d", open, n)
			want := minSentWindow
			for want < n-open {
				want *= 2
			}
			if want >= firstSentWindow {
				want *= 2
			}
			require.Len(t, e.out.ring, want, "packet %d of %d", open, n)
			fates.delivered = nil
			e.Receive(testTime(1), AppendHeader(nil, Header{1, uint16(n - 1), acks}))
			require.Equal(t, []uint64{uint64(open)}, fates.delivered)
			require.Empty(t, fates.lost)
		}
	}
}
