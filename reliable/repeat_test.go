package reliable

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// repeatingDialogue is with an Endpoint as a connection has it, but for what change
// says.
func repeatingDialogue(t *testing.T, change func(*Config)) *dialogue {
	cfg := Config{AckDelay: 100 * time.Millisecond, MaxWindow: 256, AckBuffer: -1, AckGuard: true}
	change(&cfg)
	e, err := newEndpoint(&cfg, testTime(0), nil)
	require.NoError(t, err)
	return &dialogue{t: t, e: e}
}

// In a flood most headers say what the one before has said. That is only to be
// skipped where it is the same for sure.

func TestRepeatedHeader(t *testing.T) {
	d := repeatingDialogue(t, func(*Config) {})
	for range 3 {
		d.send(0)
	}
	for s := range uint16(3) {
		d.hear(40, Header{s, 1, 0b11}, 'x')
		require.EqualValues(t, 2, d.e.Counters().PacketsAcked)
	}
	d.hear(41, Header{3, 1, 0b10}, 'x') // says less
	d.hear(42, Header{4, 2, 0b111}, 'x')
	require.EqualValues(t, 3, d.e.Counters().PacketsAcked)
	require.Zero(t, d.e.InFlight())
}

// Without AckGuard, an acknowledgement may be there before the packet.
func TestRepeatedHeaderAheadOfPackets(t *testing.T) {
	d := repeatingDialogue(t, func(cfg *Config) { cfg.AckGuard = false })
	for i := range uint16(4) {
		d.send(0)
		d.hear(40, Header{i, 3, 0b1111}, 'x')
		require.EqualValues(t, i+1, d.e.Counters().PacketsAcked)
	}
	d.e.Reset()
	d.send(50)
	d.hear(90, Header{0, 3, 0b1111}, 'x')
	require.EqualValues(t, 1, d.e.Counters().PacketsAcked, "after Reset")
}

// Those who are not believed are counted, each time.
func TestRepeatedHeaderNotCredible(t *testing.T) {
	d := repeatingDialogue(t, func(*Config) {})
	d.send(0)
	for i := range uint16(3) {
		d.hear(40, Header{i, 100, noBits}, 'x')
		require.EqualValues(t, i+1, d.e.Counters().AcksInvalid)
	}
	d.hear(40, Header{3, 0, 1}, 'x')
	d.hear(40, Header{4, 100, noBits}, 'x')
	d.hear(40, Header{5, 0, 1}, 'x')
	require.EqualValues(t, 4, d.e.Counters().AcksInvalid)
	require.EqualValues(t, 1, d.e.Counters().PacketsAcked)
}

// A header that acknowledges nothing new, but names one of our packets, shows that
// an earlier one that named later packets was wrong, also when it comes again.
func TestRepeatedHeaderAfterWrongOne(t *testing.T) {
	d := repeatingDialogue(t, func(*Config) {})
	d.send(0)
	d.hear(40, Header{0, 0, 0b10}, 'x')
	d.hear(40, Header{1, 100, noBits}, 'x')
	require.NotZero(t, d.e.out.claims.floor)
	d.hear(40, Header{2, 0, 0b10}, 'x')
	require.Zero(t, d.e.out.claims.floor)
}

// Without an AckDelay nobody counts arrivals.
func TestNoAckDelay(t *testing.T) {
	d := repeatingDialogue(t, func(cfg *Config) { cfg.AckDelay = 0 })
	for s := range uint16(40) {
		d.receive(0, s, 'x')
		d.due(0, -1)
		require.False(t, d.e.Inner().AckOwed())
		require.Nil(t, d.e.acks.talk)
	}

	// Nor does anybody introduce himself to whom all is refused.
	e, err := newEndpoint(&Config{AckRefused: true}, testTime(0), HandlerFunc(func(uint16, []byte) bool { return false }))
	require.NoError(t, err)
	require.Equal(t, Refused, e.Receive(testTime(0), packet(Header{0, 65535, 0})))
	require.Nil(t, e.acks.talk)
}

// A packet without payload says that it did not wait by bits that a message may
// have, too.
func TestRepeatedHeaderPrompt(t *testing.T) {
	d := repeatingDialogue(t, func(*Config) {})
	d.send(0)
	d.hear(50, Header{0, 0, 1})
	require.EqualValues(t, 50, d.e.Stats().RTT)
	d.send(100)
	d.hear(190, Header{1, 1, 0b11}, 'x')
	require.EqualValues(t, 50, d.e.Stats().RTT)
	d.hear(191, Header{2, 1, 0b11})
	require.InDelta(t, 50+(91-50)*defaultRTTSmoothing, d.e.Stats().RTT, 0.01)
}

// What found no room in the list of acks is listed later.
func TestRepeatedHeaderFullAckBuffer(t *testing.T) {
	d := repeatingDialogue(t, func(cfg *Config) { cfg.AckBuffer = 2 })
	for range 3 {
		d.send(0)
	}
	d.hear(40, Header{0, 2, 0b111}, 'x')
	require.Equal(t, []uint16{2, 1}, d.e.Acks())
	d.e.ClearAcks()
	d.hear(40, Header{1, 2, 0b111}, 'x')
	require.Equal(t, []uint16{0}, d.e.Acks())
}

// Time is what the endpoint was told last.
func TestTime(t *testing.T) {
	d := repeatingDialogue(t, func(*Config) {})
	require.Equal(t, testTime(0), d.e.Time())
	d.send(7)
	require.Equal(t, ms(7), d.e.Time())
	d.receive(9, 0, 'x')
	require.Equal(t, ms(9), d.e.Time())
}
