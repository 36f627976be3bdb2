package reliable

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"volley/internal/wire"
)

// What is decided exactly at a bound is told here, where a simulated link hardly
// ever stands still.

// fateList notes which packets were delivered, and which were lost.
type fateList struct{ delivered, lost []uint64 }

func (f *fateList) HandleMessage(uint16, []byte) bool { return true }

func (f *fateList) HandleFate(id uint64, fate Fate, _ time.Duration) {
	if fate == FateLost {
		f.lost = append(f.lost, id)
	} else {
		f.delivered = append(f.delivered, id)
	}
}

// sending returns an endpoint that has sent n messages.
func sending(t *testing.T, cfg *Config, n int) (*Endpoint, *fateList) {
	t.Helper()
	fates := new(fateList)
	e, err := newEndpoint(cfg, testTime(0), fates)
	require.NoError(t, err)
	var out Batch
	for range n {
		mustSend(t, e, testTime(0), []byte("hello"), &out)
	}
	return e, fates
}

// Without a measure of time, a packet is lost when the peer's ack is 64 sequences
// further on, and not one before.
func TestLostByDistance(t *testing.T) {
	for name, cfg := range map[string]*Config{"fixed": {}, "growing": {MaxWindow: 1024}} {
		t.Run(name, func(t *testing.T) {
			e, fates := sending(t, cfg, 200)
			e.Receive(testTime(0.1), AppendHeader(nil, Header{0, 63, 1}))
			require.Empty(t, fates.lost)
			e.Receive(testTime(0.1), AppendHeader(nil, Header{1, 64, 1}))
			require.Equal(t, []uint64{0}, fates.lost)
			e.Receive(testTime(0.1), AppendHeader(nil, Header{2, 100, 1}))
			require.Len(t, fates.lost, 37) // 0 to 36
			require.Equal(t, []uint64{63, 64, 100}, fates.delivered)
		})
	}
}

// With one, and nothing else to go by, those more than 1024 sequences behind the
// newest that was named are lost.
func TestLostByNumber(t *testing.T) {
	e, fates := sending(t, connConfig(), 2000)
	e.Receive(testTime(0.001), AppendHeader(nil, Header{0, 1023, 1}))
	require.Empty(t, fates.lost)
	e.Receive(testTime(0.001), AppendHeader(nil, Header{1, 1024, 1}))
	require.Equal(t, []uint64{0}, fates.lost)
}

// In idleness, what the peer's ack has passed is lost. A packet that it has only
// come to, as it does while fragments are missing, is not.
func TestCompactLosesWhatWasPassed(t *testing.T) {
	e, fates := sending(t, &Config{MaxWindow: 1024}, 8)
	e.Receive(testTime(0.1), AppendHeader(nil, Header{0, 5, 0}))
	require.Equal(t, 8, e.InFlight())
	e.Compact(testTime(5))
	require.Equal(t, []uint64{0, 1, 2, 3, 4}, fates.lost)
	require.Equal(t, 3, e.InFlight())
}

// CarriesMessage takes what an endpoint takes, to the byte.
func TestCarriesMessage(t *testing.T) {
	e, err := newEndpoint(nil, testTime(0), nil)
	require.NoError(t, err)
	var out Batch
	mustSend(t, e, testTime(0), nil, &out)
	mustSend(t, e, testTime(0), []byte("h"), &out)
	mustSend(t, e, testTime(0), make([]byte, 3000), &out)
	require.Equal(t, 5, out.Len())
	require.False(t, CarriesMessage(nil, nil))
	require.False(t, CarriesMessage(nil, out.At(0)), "only acknowledges")
	for i := 1; i < out.Len(); i++ {
		require.True(t, CarriesMessage(nil, out.At(i)))
	}
	require.False(t, CarriesMessage(nil, out.At(2)[:500]), "a part of a fragment")
	require.False(t, CarriesMessage(nil, out.At(1)[:3]))
	small := &Config{MaxPacketSize: 1000, FragmentAbove: 1000}
	header := out.At(0)
	require.True(t, CarriesMessage(small, append(slices.Clone(header), make([]byte, 1000)...)))
	require.False(t, CarriesMessage(small, append(slices.Clone(header), make([]byte, 1001)...)))
	require.False(t, CarriesMessage(&Config{FragmentSize: 512}, out.At(2)))

	s, ok := OpeningMessage(nil, out.At(1))
	require.True(t, ok)
	require.Equal(t, uint16(1), s)
	s, ok = OpeningMessage(nil, out.At(2))
	require.True(t, ok)
	require.Equal(t, uint16(2), s)
	for _, d := range [][]byte{out.At(0), out.At(3), nil} {
		_, ok = OpeningMessage(nil, d)
		require.False(t, ok)
	}
}

// What a datagram is can be told from its first bytes.
func TestPeek(t *testing.T) {
	e, err := newEndpoint(nil, testTime(0), nil)
	require.NoError(t, err)
	var out Batch
	mustSend(t, e, testTime(0), []byte("h"), &out)
	mustSend(t, e, testTime(0), make([]byte, 3000), &out)
	for i, want := range []struct{ fragment, starts, opens bool }{
		{false, true, true}, {true, true, true}, {true, false, true}, {true, false, true},
	} {
		d := out.At(i)
		require.Equal(t, want.fragment, wire.IsFragment(d), i)
		require.Equal(t, want.starts, wire.StartsPacket(d), i)
		require.Equal(t, want.opens, wire.MayOpen(d), i)
	}
	require.False(t, wire.IsFragment(nil))
	require.False(t, wire.StartsPacket(out.At(1)[:3]))
	require.False(t, wire.MayOpen(nil))
	require.False(t, wire.MayOpen(AppendHeader(nil, Header{7, 0, 1<<32 - 1})), "it has heard 32 packets")
}

// A jump gives up the packets that are incomplete: their fragments belong to
// another time.
func TestJumpStartsOver(t *testing.T) {
	var got []uint16
	to, err := newEndpoint(connConfig(), testTime(0), HandlerFunc(func(s uint16, _ []byte) bool { got = append(got, s); return true }))
	require.NoError(t, err)
	from, err := newEndpoint(nil, testTime(0), nil)
	require.NoError(t, err)
	var parts Batch
	mustSend(t, from, testTime(0), make([]byte, 3000), &parts)
	to.Receive(testTime(0), parts.At(0))
	require.Positive(t, to.parts.open)
	packet := func(s uint16) []byte { return append(AppendHeader(nil, Header{s, 65535, 0}), 1) }
	require.Equal(t, parked, to.Receive(testTime(0), packet(20000)))
	require.Equal(t, Delivered, to.Receive(testTime(0), packet(20001)))
	require.Zero(t, to.parts.open, "incomplete packets")
	require.Equal(t, []uint16{20001}, got)
}

// The peer hears at once of a jump back, which is believed after a silence, although
// a lower sequence looks as if it had been acknowledged long since.
func TestJumpBackIsAcknowledgedAtOnce(t *testing.T) {
	d := newDialogue(t)
	d.e.cfg.JumpGuard = true
	next, at := uint16(0), 0.0
	for ; next < 60; next++ { // until a message is nothing that asks for an answer
		d.receive(at, next, 1)
		if wait, due := d.e.ControlDue(ms(at)); due && wait == 0 {
			d.e.SendControl(ms(at), &d.out)
		}
		at += 20
	}
	d.receive(at, next, 1)
	wait, due := d.e.ControlDue(ms(at))
	require.True(t, due)
	require.Positive(t, wait, "before the jump")
	at += 200
	d.e.SendControl(ms(at), &d.out)
	for _, s := range []uint16{45_000, 20_000} {
		at += 12_000
		require.Equal(t, parked, d.e.Receive(ms(at), packet(Header{s, 65535, 0})))
		require.Equal(t, Delivered, d.e.Receive(ms(at), packet(Header{s + 1, 65535, 0})))
		d.due(at, at)
		d.e.SendControl(ms(at), &d.out)
	}
}

// The fragments of a packet agree about how many they are, whatever is in them. All but
// the last one are full, which may be empty.
func TestFragmentCount(t *testing.T) {
	for count := 2; count <= 5; count++ {
		var got []byte
		e, err := newEndpoint(nil, testTime(0), HandlerFunc(func(_ uint16, p []byte) bool { got = slices.Clone(p); return true }))
		require.NoError(t, err)
		fragment := func(id, count int, data []byte) []byte {
			d := AppendFragmentHeader(nil, FragmentHeader{7, uint8(id), count})
			if id == 0 {
				d = AppendHeader(d, Header{7, 65535, 0})
			}
			return append(d, data...)
		}
		for id := range count - 1 {
			for _, other := range []int{count - 1, count + 1} {
				if id > 0 && id < other {
					data := slices.Repeat([]byte{byte(count - 1)}, 1024)
					require.Equal(t, Invalid, e.Receive(testTime(0), fragment(id, other, data)), "fragment %d of %d is of %d", id, count, other)
				}
			}
			for _, size := range []int{0, 1, 1023, 1025} {
				require.Equal(t, Invalid, e.Receive(testTime(0), fragment(id, count, noise[:size])), "fragment %d of %d has %d bytes", id, count, size)
			}
			require.Equal(t, fragmentStored, e.Receive(testTime(0), fragment(id, count, noise[1024*id:1024*(id+1)])))
		}
		require.Equal(t, Delivered, e.Receive(testTime(0), fragment(count-1, count, nil)))
		require.Equal(t, noise[:1024*(count-1)], got)
	}
}

// Ten seconds are too long for a least round-trip time, as in the reference.
func TestRTTMinOfLongRoundTrips(t *testing.T) {
	for _, test := range []struct{ took, least float32 }{{9999, 9999}, {10_000, 0}, {10_001, 0}} {
		e, _ := sending(t, &Config{}, 1)
		now := ms(float64(test.took))
		require.Equal(t, Delivered, e.Receive(now, AppendHeader(nil, Header{0, 0, 1})))
		e.Update(now)
		require.Equal(t, test.least, e.Stats().RTTMin)
		require.Equal(t, test.took, e.Stats().RTTMax)
	}
}

// A packet that the other side has named is not overdue, also while there is no room
// for its acknowledgement.
func TestNamedIsNotOverdue(t *testing.T) {
	e, fates := sending(t, &Config{MaxWindow: 64, AckDelay: time.Second, AckBuffer: 1}, 2)
	e.Receive(testTime(0.1), AppendHeader(nil, Header{0, 0, 0b1}))
	e.Receive(testTime(0.1), AppendHeader(nil, Header{1, 1, 0b11}))
	require.Equal(t, []uint64{0}, fates.delivered)
	e.Update(testTime(3))
	require.Zero(t, e.Stats().PacketLoss)
	e.ClearAcks()
	e.Receive(testTime(3), AppendHeader(nil, Header{2, 1, 0b11}))
	require.Equal(t, []uint64{0, 1}, fates.delivered)
}

// Reset ends the doubt about what a predecessor has sent.
func TestResetBelievesAcks(t *testing.T) {
	e, fates := sending(t, &Config{AckGuard: true}, 0)
	e.Receive(testTime(0), AppendHeader(nil, Header{0, 20, 1}))
	require.EqualValues(t, 1, e.Counters().AcksInvalid)
	e.Reset()
	var out Batch
	mustSend(t, e, testTime(0), []byte("hello"), &out)
	e.Receive(testTime(0), AppendHeader(nil, Header{0, 0, 1}))
	require.Zero(t, e.Counters().AcksInvalid)
	require.Len(t, fates.delivered, 1)
}

// The other side hears at once of a window that begins with what it has sent, whatever
// was acknowledged before: also if that is a part of a message.
func TestBeginIsAcknowledgedAtOnce(t *testing.T) {
	for _, s := range []uint16{100, 20_000, 33_000, 50_000, 65_535} {
		for name, first := range map[string][]byte{
			"message":  packet(Header{s, 65535, 0}),
			"fragment": append(AppendHeader(AppendFragmentHeader(nil, FragmentHeader{s, 0, 2}), Header{s, 65535, 0}), noise[:1024]...),
		} {
			d := repeatingDialogue(t, func(cfg *Config) { cfg.MidStream, cfg.JumpGuard = true, true })
			d.send(0)
			d.receive(0, 40_000, 1)
			d.e.Inner().Renew()
			require.True(t, d.e.Receive(ms(10), first).Live())
			wait, due := d.e.ControlDue(ms(10))
			require.True(t, due)
			require.Zero(t, wait, "%s %d", name, s)
		}
	}
}

// A side that has acknowledged nothing is owed an acknowledgement of the first thing
// that it has sent, also of a part of a message, which may wait; as it may after idleness,
// and when the other side is known.
func TestIntroduction(t *testing.T) {
	first := append(AppendHeader(AppendFragmentHeader(nil, FragmentHeader{1, 0, 2}), Header{1, 65535, 0}), noise[:1024]...)
	for sent := range 4 {
		for _, idle := range []bool{false, true} {
			e, fates := sending(t, &Config{AckDelay: time.Second, MaxWindow: 64}, sent)
			e.Receive(testTime(0), AppendHeader(nil, Header{0, uint16(sent - 1), 1<<sent - 1}))
			require.Len(t, fates.delivered, sent)
			if idle {
				e.Compact(testTime(0))
				require.Nil(t, e.acks.talk)
			}
			require.Equal(t, fragmentStored, e.Receive(testTime(0), first))
			wait, due := e.ControlDue(testTime(0))
			require.True(t, due)
			require.Equal(t, time.Second/2, wait, "%d sent, idle: %v", sent, idle)
		}
	}
}

// Figures follow changes that are larger than 0.00001, and take the value of what is
// nearer, as in the reference.
func TestSmooth(t *testing.T) {
	const step = float32(0.00001)
	for _, test := range []struct{ from, to, want float32 }{
		{step, 0, 0}, {0, step, step}, {-step, 0, 0}, {2 * step, 0, step}, {0, 2 * step, step}, {100, 50, 75}, {50, 100, 75},
	} {
		v := test.from
		smooth(&v, test.to, 0.5)
		require.Equal(t, test.want, v, "from %v to %v", test.from, test.to)
	}
}

// A window of sent packets grows to 16 in any case, and further only for packets that
// have no answer.
func TestWindowOfAnswered(t *testing.T) {
	for _, answered := range []bool{true, false} {
		e, _ := sending(t, &Config{MaxWindow: 64}, 0)
		var out Batch
		for s := range uint16(100) {
			mustSend(t, e, testTime(0), []byte{1}, &out)
			if answered {
				e.Receive(testTime(0), AppendHeader(nil, Header{s, s, 1}))
			}
		}
		want := 64
		if answered {
			want = 16
		}
		require.Len(t, e.out.ring, want)
	}
}

// With a JumpGuard, what is in the window is believed to the oldest sequence of it.
func TestGuardedWindow(t *testing.T) {
	e, err := newEndpoint(&Config{JumpGuard: true, ReceivedBuffer: 64}, testTime(0), nil)
	require.NoError(t, err)
	for s := range uint16(101) {
		if s != 36 && s != 37 {
			require.Equal(t, Delivered, e.Receive(testTime(0), packet(Header{s, 65535, 0})))
		}
	}
	require.Equal(t, stale, e.Receive(testTime(0), packet(Header{36, 65535, 0})))
	require.Equal(t, Delivered, e.Receive(testTime(0), packet(Header{37, 65535, 0})))
}
