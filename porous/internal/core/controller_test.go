package core

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// rounds gives a controller acknowledgements of n round trips, with the window
// always full.
func rounds(c Controller, now *Clock, n int, rtt time.Duration) {
	for range n {
		const parts = 10
		w := c.Window()
		for i := range parts {
			c.HandleAck(Ack{
				Now: *now + rtt*Clock(i+1)/parts, SentAt: max(0, *now+rtt*Clock(i+1)/parts-rtt), RTT: rtt,
				Bytes: w / parts, Frames: max(1, w/parts/MTU0), InFlight: w, Limited: true,
				Rate: float64(w) / rtt.Seconds(),
			})
		}
		*now += rtt
	}
}

// The curve of RFC 9438: after a back-off the window comes back to where the
// loss was after K seconds, is flat there, and grows faster and faster beyond.
func TestCubicCurve(t *testing.T) {
	const segments = 1000
	c := newCubic(MTU0)
	now := ms(1)
	rtt := 100 * time.Millisecond
	c.SetRTT(rtt, NoBandwidthLimit)
	rounds(c, &now, 1, rtt)
	c.window, c.threshold = segments*MTU0, 1
	c.delay.lastSample = 2 * rtt // a queue
	c.HandleLoss(now, Loss{Bytes: 1, Frames: 1, SentAt: now})
	require.InDelta(t, segments*MTU0*7/10, c.Window(), 1)
	require.True(t, c.Reduced())
	// K = cbrt(1000 * 0.3 / 0.4) = 9.09 s
	rounds(c, &now, 50, rtt)
	require.InDelta(t, 1000-0.4*4.1*4.1*4.1, c.window/MTU0, 4)
	rounds(c, &now, 41, rtt)
	require.InDelta(t, segments, c.window/MTU0, 2)
	rounds(c, &now, 30, rtt)
	require.InDelta(t, 1000+0.4*3*3*3, c.window/MTU0, 3)
	require.False(t, c.Reduced())
}

// A loss without a queue takes less of the window, and none of a thin
// stream's.
func TestCubicLossWithoutAQueue(t *testing.T) {
	c := newCubic(MTU0)
	now := ms(1)
	rounds(c, &now, 3, ms(100))
	w := c.Window()
	c.HandleLoss(now, Loss{Bytes: 1, Frames: 1, SentAt: now})
	require.Equal(t, int(float64(w)*noQueueBeta), c.Window())

	c = newCubic(MTU0)
	now = ms(1)
	rounds(c, &now, 1, ms(100))
	c.window = initialWindow(MTU0)
	c.HandleLoss(now, Loss{Bytes: 1, Frames: 1, SentAt: now, Thin: true})
	require.Equal(t, initialWindow(MTU0), c.Window())
	c.delay.lastSample = ms(200)
	c.HandleLoss(now+1, Loss{Bytes: 1, Frames: 1, SentAt: now + 1, Thin: true})
	require.Less(t, c.Window(), initialWindow(MTU0))
}

// Slow start ends when the round-trip time has grown for some rounds, without
// any loss.
func TestSlowStartEndsBeforeTheQueueIsFull(t *testing.T) {
	c := newCubic(MTU0)
	now := ms(1)
	rounds(c, &now, 3, ms(50))
	before := c.Window()
	require.GreaterOrEqual(t, before, 7*initialWindow(MTU0))
	for range 8 {
		rounds(c, &now, 1, ms(60))
	}
	require.Less(t, c.threshold, unlimited)
	require.Less(t, c.Window(), 6*before, "a quarter of the growth, and then avoidance")

	c = newCubic(MTU0)
	now = ms(1)
	rounds(c, &now, 3, ms(50))
	rounds(c, &now, 1, ms(60))
	rounds(c, &now, 4, ms(50))
	require.Equal(t, unlimited, c.threshold, "it was jitter")
}

// The loss-tolerant controller keeps twice the product of rate and delay in
// flight whatever is lost, and less when losses come with a queue.
func TestTolerantWindow(t *testing.T) {
	c := newTolerant(MTU0, 3)
	now := ms(1)
	step := func(n int, rtt time.Duration) {
		for range n {
			now += ms(10)
			c.HandleAck(Ack{Now: now, SentAt: now - rtt, RTT: rtt, Bytes: 20_000, Frames: 14,
				InFlight: 100_000, Limited: true, Rate: 2e6})
		}
	}
	step(200, ms(50))
	require.Equal(t, probing, c.state)
	require.InDelta(t, 2*100_000, c.Window(), 4*MTU0)
	for range 100 {
		c.HandleLoss(now, Loss{Bytes: 2000, Frames: 2, SentAt: now - ms(50), InFlight: 200_000})
		step(1, ms(50))
	}
	require.InDelta(t, 2*100_000, c.Window(), 4*MTU0, "losses without a queue")
	require.InDelta(t, 1.0/11, c.share, 0.01)
	step(1, ms(90))
	c.HandleLoss(now, Loss{Bytes: 2000, Frames: 2, SentAt: now - ms(90), InFlight: 200_000})
	require.Equal(t, 140_000, c.Window(), "losses with one")
	c.HandleLoss(now, Loss{Bytes: 2000, Frames: 2, SentAt: now - ms(90), InFlight: 140_000})
	require.Equal(t, 140_000, c.Window(), "once a round")
	require.True(t, c.Reduced())
	step(500, ms(50))
	require.Greater(t, c.Window(), 190_000, "it comes back")

	// It drops what it knows when nothing is acknowledged any more.
	c.HandleTimeout(now)
	require.Equal(t, minTolerant*MTU0, c.Window())
	require.Equal(t, starting, c.state)
}

// A rate of next to nothing, measured behind a queue of seconds, does not stop
// the connection.
func TestTolerantDoesNotStall(t *testing.T) {
	cfg := simConfig()
	cfg.Controller = Tolerant
	s := newSim(1, cfg, cfg, simLink{delay: 25 * time.Millisecond, rate: 8000, queue: 1 << 30})
	s.connect(t)
	s.run(time.Second)
	for range 10 { // that the least round-trip time is of an empty path
		s.a.p.Send(s.now, 0, make([]byte, 1000), Reliable, 0)
		s.a.transmit()
		s.run(time.Second)
	}
	newFlow(s.a, s.b)
	for range 12 {
		before := s.b.p.Stats().Accepted
		s.run(10 * time.Second)
		require.Greater(t, s.b.p.Stats().Accepted-before, uint64(15))
		require.GreaterOrEqual(t, s.a.p.Stats().PacingRate, 2.0*MTU0)
	}
}
