package reliable

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// How long is waited before a packet is presumed lost, or a probe asks for it, goes
// by round-trip times of which there may be few.

// The margin by which a later packet must have been sent is 9/8 of the round-trip
// time, with what that varies by, and with half of it where there is no sample:
// less with each that comes.
func TestLossMargin(t *testing.T) {
	e, err := newEndpoint(connConfig(), testTime(0), nil)
	require.NoError(t, err)
	e.meter.stats.RTT = 80
	p := &e.talking().prober
	for samples, want := range map[uint8]int64{0: 90 + 40, 1: 90 + 20, 3: 90 + 10, 7: 90 + 5} {
		p.samples = samples
		require.Equal(t, want*1e6, e.lossMargin(), "%d samples", samples)
	}
	p.samples, p.vary = 3, 7e6
	require.EqualValues(t, 107e6, e.lossMargin(), "the samples vary by 7 ms")
	p.recent = 160e6
	require.EqualValues(t, 180e6+20e6+7e6, e.lossMargin(), "the last one was longer")
	e.out.scale = scaleUnit
	require.EqualValues(t, 2*(180e6+20e6+7e6), e.lossMargin(), "it was wrong before")
	e.out.scale, p.vary, p.recent, e.meter.stats.RTT = 0, 0, 0, 1
	require.EqualValues(t, 5e6, e.lossMargin(), "5 ms at least")
}

// A probe leaves when acknowledgements take longer than they usually do, and at
// the latest after twice the time of a round trip with the delay of the other side.
func TestProbeWaits(t *testing.T) {
	e, fates := sending(t, connConfig(), 2)
	e.Receive(testTime(0), AppendHeader(nil, Header{0, 0, 1}))
	require.Equal(t, []uint64{0}, fates.delivered)
	e.meter.stats.RTT = 80
	p := &e.talking().prober
	for _, test := range []struct{ usual, recent, want int64 }{
		{0, 40, 90},      // a round trip and half of the delay of 20 ms
		{120, 40, 120},   // what is usual
		{5000, 40, 200},  // twice 100 ms
		{16000, 40, 200}, // the same
		{120, 160, 170},  // the last round trip was longer
	} {
		p.usual, p.recent = test.usual*1e6, test.recent*1e6
		at, ok := e.probeDue()
		require.True(t, ok)
		require.Equal(t, e.acks.talk.latest+test.want*1e6*9/8+2e6, at, "%d ms are usual", test.usual)
	}
}

// What has left the window is not waited for: the time of the next loss is that of
// the oldest packet in it.
func TestLossDueInWindow(t *testing.T) {
	cfg := connConfig()
	cfg.MaxWindow = 256
	e, fates := sending(t, cfg, 1)
	wait, pending := e.Inner().LossDue(testTime(0))
	require.True(t, pending)
	require.Equal(t, 10*time.Second, wait)
	var out Batch
	for i := range cfg.MaxWindow {
		out.Reset()
		mustSend(t, e, testTime(1+float64(i)/256), []byte("hello"), &out)
	}
	require.Equal(t, []uint64{0}, fates.lost, "pushed out")
	wait, pending = e.Inner().LossDue(testTime(2))
	require.True(t, pending)
	require.Equal(t, 9*time.Second, wait, "of the packet of one second ago")
}

// An acknowledgement after all takes a loss out of the figure.
func TestLateAckIsNoLoss(t *testing.T) {
	cfg := &Config{MaxWindow: 1024, LossSmoothing: 1}
	e, fates := sending(t, cfg, 200)
	e.Receive(testTime(0.1), AppendHeader(nil, Header{0, 79, 0xffffffff}))
	require.Len(t, fates.lost, 16) // 0 to 15
	e.Update(testTime(0.1))
	require.InDelta(t, 100*16./48, e.Stats().PacketLoss, 1e-4)
	e.Receive(testTime(0.1), AppendHeader(nil, Header{1, 7, 0xff}))
	e.Update(testTime(0.1))
	require.InDelta(t, 100*8./48, e.Stats().PacketLoss, 1e-4)
}

// lossMargin returns the margin as it is now.
func (e *Endpoint) lossMargin() int64 { return e.out.margin(e.acks.variation(e.meter.roundTrip())) }

// talking returns the talk, which it makes if there is none.
func (e *Endpoint) talking() *talk { return e.acks.open(&e.env, e.in.newest()) }

// probeDue returns when the next probe is due.
func (e *Endpoint) probeDue() (at int64, ok bool) {
	t := e.acks.talk
	return t.due(t.latest, e.meter.roundTrip(), int64(e.cfg.AckDelay))
}

// ackDue returns when the next acknowledgement is due.
func (e *Endpoint) ackDue() (at int64, ok bool) {
	return e.acks.due(&e.env, e.view(), e.meter.stats.RTT)
}

// A header that names no packet tells no news, though the packets before its ack wait
// for an acknowledgement: the window does not begin again with it.
func TestNoBitsAreNoNews(t *testing.T) {
	for _, ackBits := range []uint32{0, 1} {
		e, err := newEndpoint(&Config{MaxWindow: 64, JumpGuard: true, MidStream: true}, testTime(0), nil)
		require.NoError(t, err)
		var out Batch
		for range 40 {
			mustSend(t, e, testTime(0), []byte{1}, &out)
		}
		require.Equal(t, Delivered, e.Receive(testTime(1), AppendHeader(nil, Header{1000, 65535, 0})))
		want := map[uint32]Verdict{0: stale, 1: Delivered}[ackBits]
		require.Equal(t, want, e.Receive(testTime(2), AppendHeader(nil, Header{5, 39, ackBits})), "bits %b", ackBits)
	}
}

// An acknowledgement that says to be prompt measures, also when it names a packet once
// more, up to a usual round trip after it was acknowledged.
func TestPromptNamedAgain(t *testing.T) {
	e, _ := sending(t, connConfig(), 1)
	e.Receive(testTime(0.04), AppendHeader(nil, Header{0, 0, 1}))
	for _, test := range []struct {
		at time.Duration
		ok bool
	}{{80 * time.Millisecond, true}, {80*time.Millisecond + 1, false}} {
		e.advance(testTime(0).Add(test.at))
		rtt, ok := e.out.prompt(&e.env, 0, int64(40*time.Millisecond))
		require.Equal(t, test.ok, ok, "named again after %v", test.at)
		if ok {
			require.EqualValues(t, test.at, rtt)
		}
	}
}
