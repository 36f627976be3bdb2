package reliable

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
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
	e, err := New(cfg, testTime(0), fates)
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
	e, err := New(nil, testTime(0), nil)
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
	e, err := New(nil, testTime(0), nil)
	require.NoError(t, err)
	var out Batch
	mustSend(t, e, testTime(0), []byte("h"), &out)
	mustSend(t, e, testTime(0), make([]byte, 3000), &out)
	for i, want := range []struct{ fragment, starts, opens bool }{
		{false, true, true}, {true, true, true}, {true, false, true}, {true, false, true},
	} {
		d := out.At(i)
		require.Equal(t, want.fragment, IsFragment(d), i)
		require.Equal(t, want.starts, StartsPacket(d), i)
		require.Equal(t, want.opens, MayOpen(d), i)
	}
	require.False(t, IsFragment(nil))
	require.False(t, StartsPacket(out.At(1)[:3]))
	require.False(t, MayOpen(nil))
	require.False(t, MayOpen(AppendHeader(nil, Header{7, 0, 1<<32 - 1})), "it has heard 32 packets")
}

// A jump gives up the packets that are incomplete: their fragments belong to
// another time.
func TestJumpStartsOver(t *testing.T) {
	var got []uint16
	to, err := New(connConfig(), testTime(0), HandlerFunc(func(s uint16, _ []byte) bool { got = append(got, s); return true }))
	require.NoError(t, err)
	from, err := New(nil, testTime(0), nil)
	require.NoError(t, err)
	var parts Batch
	mustSend(t, from, testTime(0), make([]byte, 3000), &parts)
	to.Receive(testTime(0), parts.At(0))
	require.Positive(t, to.parts.open)
	packet := func(s uint16) []byte { return append(AppendHeader(nil, Header{s, 65535, 0}), 1) }
	require.Equal(t, Parked, to.Receive(testTime(0), packet(20000)))
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
	at += 12_000
	packet := func(s uint16) []byte { return append(AppendHeader(nil, Header{s, 65535, 0}), 1) }
	require.Equal(t, Parked, d.e.Receive(ms(at), packet(45_000)))
	require.Equal(t, Delivered, d.e.Receive(ms(at), packet(45_001)))
	d.due(at, at)
}
