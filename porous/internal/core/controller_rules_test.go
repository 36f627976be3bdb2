package core

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Slow start becomes careful when the least round-trip time of a round of eight
// samples is an eighth above that of the round before, but at least 4 and at most
// 16 ms. It ends after five such rounds.
func TestSlowStartThresholds(t *testing.T) {
	for _, test := range []struct{ last, rise time.Duration }{
		{ms(8), ms(4)}, {ms(32), ms(4)}, {ms(40), ms(5)}, {ms(80), ms(10)}, {ms(128), ms(16)}, {ms(400), ms(16)},
	} {
		var s slowStart
		d := delays{last: test.last, samples: 8}
		d.round = test.last + test.rise - 1
		n, done := s.grow(1000, false, &d)
		require.Equal(t, 1000, n)
		require.False(t, done)
		require.Zero(t, s.careful, "not yet: %v", test)
		d.round++
		d.samples = 7
		s.grow(1000, false, &d)
		require.Zero(t, s.careful, "too few samples")
		d.samples = 8
		n, done = s.grow(1000, false, &d)
		require.Equal(t, 1000, n)
		require.False(t, done)
		require.Equal(t, 5, s.careful, "%v", test)
		for range 4 {
			n, done = s.grow(1000, true, &d)
			require.Equal(t, 250, n)
			require.False(t, done)
			n, done = s.grow(1000, false, &d)
			require.Equal(t, 250, n)
			require.False(t, done)
		}
		n, done = s.grow(1000, true, &d)
		require.Zero(t, n)
		require.True(t, done)
	}
	s := slowStart{careful: 3, baseline: ms(50)}
	s.grow(1000, false, &delays{samples: 8, round: ms(50)})
	require.Equal(t, 3, s.careful)
	s.grow(1000, false, &delays{samples: 7, round: ms(49)})
	require.Equal(t, 3, s.careful)
	n, _ := s.grow(1000, false, &delays{samples: 8, round: ms(49)})
	require.Equal(t, 1000, n)
	require.Zero(t, s.careful, "it was jitter")
	s.grow(1000, false, &delays{samples: 8, round: ms(100)})
	require.Zero(t, s.careful, "there was no round before")
}

// T13: losses that go on for eight timeouts without an acknowledgement are a
// silence, after which the paper's controller starts anew; others halve the window
// once a round-trip time.
func TestT13PaperLosses(t *testing.T) {
	start := func() *paperController {
		c := newPaperController(1000)
		c.SetRTT(ms(100), NoBandwidthLimit)
		c.HandleAck(Ack{Bytes: 39_000, Frames: 39})
		require.Equal(t, 40_000, c.Window())
		return c
	}
	for _, test := range []struct {
		now, first Clock
		want       int
	}{
		{ms(2400), 0, 1000}, {ms(2399), 0, 20_000}, {ms(5000), ms(2600), 1000}, {ms(5000), ms(2601), 20_000},
	} {
		c := start()
		c.HandleLoss(test.now, Loss{Bytes: 1, First: test.first, RTO: ms(300)})
		require.Equal(t, test.want, c.Window(), "%+v", test)
		require.Equal(t, 20_000, c.threshold)
		require.True(t, c.Reduced())
	}
	c := start()
	c.HandleLoss(0, Loss{Bytes: 1})
	require.Equal(t, 20_000, c.Window(), "no time has passed, whatever the timeout")
	c.HandleLoss(ms(99), Loss{Bytes: 1, First: ms(99), RTO: ms(300)})
	require.Equal(t, 20_000, c.Window())
	c.HandleLoss(ms(100), Loss{Bytes: 1, First: ms(99), RTO: ms(300)})
	require.Equal(t, 10_000, c.Window())
}

// What a request can say at most is no limit.
func TestNoBandwidthLimitIsNone(t *testing.T) {
	for _, c := range []Controller{newCubic(9000), newTolerant(9000, 1)} {
		for range 100_000 {
			c.HandleAck(Ack{Bytes: 18_000, Frames: 1, Limited: true})
		}
		for _, bandwidth := range []uint64{NoBandwidthLimit, NoBandwidthLimit + 1} {
			c.SetRTT(ms(10), bandwidth)
			require.Greater(t, c.Rate(), 1e10)
		}
		c.SetRTT(ms(10), NoBandwidthLimit-1)
		require.Equal(t, float64(NoBandwidthLimit-1), c.Rate())
		c.SetRTT(ms(10), 12_345)
		require.Equal(t, 12_345.0, c.Rate())
	}
}

// A bandwidth that was agreed upon limits the window to twice its product with the
// round-trip time, and to ten frames at least.
func TestCubicWindowOfABandwidth(t *testing.T) {
	for _, test := range []struct {
		avg       time.Duration
		bandwidth uint64
		want      int
	}{
		{ms(100), 1_000_000, 200_000},
		{ms(1), 1_000_000, 14_720},
		{ms(7), 1_051_428, 14_720},
		{ms(1000), 1<<29 - 1, 1<<30 - 2},
		{ms(1000), 1<<29 + 1, 1 << 30},
		{ms(1000), 1 << 31, 1 << 30},
	} {
		c := newCubic(MTU0)
		c.SetRTT(test.avg, test.bandwidth)
		for range 5 {
			c.HandleAck(Ack{Bytes: 1 << 28, Frames: 1 << 18, Limited: true})
		}
		require.Equal(t, test.want, c.Window(), "%+v", test)
		c.SetRTT(ms(1), 1000)
		require.Equal(t, 14_720, c.Window(), "a path that has become shorter")
	}
}

// A tolerant controller rests only when the least round-trip time was not seen for
// ten seconds, in a connection that begins late, too.
func TestTolerantRestsAfterTenSeconds(t *testing.T) {
	for _, start := range []Clock{ms(1), time.Hour} {
		c := newTolerant(MTU0, 1)
		now := start
		ack := func(rtt time.Duration) {
			c.HandleAck(Ack{Now: now, SentAt: max(0, now-rtt), RTT: rtt, Bytes: 20_000, Frames: 14, InFlight: 100_000, Limited: true, Rate: 2e6})
			now += ms(10)
		}
		ack(ms(50))
		for c.state != resting {
			ack(ms(51))
			require.Less(t, now, start+11*time.Second)
		}
		require.Greater(t, now-start, restEvery)
		for c.state == resting {
			require.Equal(t, 50_000, c.Window(), "half of what fills the path")
			ack(ms(51))
			require.Less(t, now, start+12*time.Second)
		}
	}
}

// What slow start has queued is drained until no more is in flight than fills the
// path; where frames are lost without a queue for two round-trip times at most, since
// what seems to be in flight may be gone.
func TestTolerantDrains(t *testing.T) {
	drained := func(inFlight int, share float64, after Clock) bool {
		c := newTolerant(MTU0, 1)
		c.SetRTT(ms(50), NoBandwidthLimit)
		c.rates[0], c.delay.least, c.share = 1e6, 62500*time.Microsecond, share
		c.enter(draining, ms(100))
		c.move(Ack{Now: ms(100) + after, InFlight: inFlight}, false)
		return c.state == probing
	}
	require.True(t, drained(62_500, 0, 0))
	require.False(t, drained(62_501, 0, time.Hour))
	require.False(t, drained(62_501, 0.1, ms(100)))
	require.True(t, drained(62_501, 0.1, ms(100)+1))
}

// A phase of probing takes the least round-trip time, and a rest as long, but 200 ms
// at least.
func TestTolerantPhases(t *testing.T) {
	c := newTolerant(MTU0, 1)
	c.delay.least = ms(50)
	c.phase = 7
	c.enter(probing, ms(10_000))
	at := func(now Clock) tolerantState {
		c.move(Ack{Now: now}, false)
		return c.state
	}
	c.leastAt = ms(50)
	require.Equal(t, probing, at(ms(10_050)-1))
	require.Equal(t, 7, c.phase)
	require.Equal(t, probing, at(ms(10_050)), "ten seconds, and no more")
	require.Zero(t, c.phase)
	require.Equal(t, ms(10_050), c.since)
	c.phase, c.since = 7, ms(10_000)
	require.Equal(t, resting, at(ms(10_050)+1))

	for _, least := range []Clock{ms(50), ms(500)} {
		c.delay.least = least
		c.enter(resting, ms(20_000))
		end := ms(20_000) + max(ms(200), least)
		require.Equal(t, resting, at(end-1))
		require.Equal(t, probing, at(end))
		require.Equal(t, end, c.leastAt)
		require.Equal(t, end, c.since)
		require.Equal(t, 2, c.phase)
	}
}

// A sample of the rate is of the longer of the times in which frames were sent and
// acknowledged, and there is none over less than the least round-trip time.
func TestDeliveryRate(t *testing.T) {
	for _, test := range []struct {
		sent, acked, least Clock
		want               float64
	}{
		{ms(100), ms(50), ms(100), 10_000}, {ms(50), ms(100), ms(100), 10_000}, {ms(50), ms(200), ms(100), 5000},
		{ms(100) - 1, ms(100) - 1, ms(100), 0}, {ms(1), 0, 0, 1e6}, {0, 0, 0, 0},
	} {
		d := delivery{bytes: 3000, at: ms(500) + test.acked}
		s := snapshot{bytes: 2000, at: ms(500), sentAt: ms(400)}
		require.Equal(t, test.want, d.rate(s, ms(400)+test.sent, test.least), "%+v", test)
		require.Equal(t, ms(400)+test.sent, d.sentAt)
	}
}
