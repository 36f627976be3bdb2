package core

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A wake is what becomes of the first 300 ms of a bulk transfer after something
// else, and of the four seconds from its start.
type wake struct {
	lost    float64 // share of the frames
	goodput float64 // Mbit/s
}

// wakeAfter sends in bulk, does something else, changes the rate of the link,
// and sends in bulk again.
func wakeAfter(t *testing.T, kind ControllerKind, between func(s *sim), rate float64) (w wake) {
	cfg := simConfig()
	cfg.Controller = kind
	s := newSim(1, cfg, cfg, theLink(0))
	s.connect(t)
	s.a.quiet()
	s.b.quiet()
	if between != nil {
		pushFor(s, 6*time.Second)
		s.until(t, time.Minute, s.a.p.Flushed)
		between(s)
		s.until(t, time.Minute, s.a.p.Flushed)
	}
	s.a.link.rate, s.a.link.queue = rate, int(rate/20)
	sent, lost, bytes := s.a.link.sent, s.a.link.lost, 0
	s.b.onPacket = func(_ int, p []byte) { bytes += len(p) }
	pushFor(s, 300*time.Millisecond)
	w.lost = float64(s.a.link.lost-lost) / float64(s.a.link.sent-sent)
	pushFor(s, 3700*time.Millisecond)
	w.goodput = float64(bytes) * 8e-6 / 4
	return w
}

// pushFor sends in bulk for a duration.
func pushFor(s *sim, d time.Duration) {
	msg := make([]byte, 16<<10)
	for end := s.now + d; s.now < end; s.run(10 * time.Millisecond) {
		for {
			if _, ok := s.a.p.Send(s.now, 0, msg, Reliable, 0); !ok || s.a.p.send.queued > 1<<20 {
				break
			}
		}
		s.a.transmit()
	}
}

// beats sends small messages at 60 Hz for a minute.
func beats(s *sim) {
	for range 60 * 60 {
		s.a.p.Send(s.now, 0, make([]byte, 200), Reliable, 0)
		s.a.transmit()
		s.run(time.Second / 60)
	}
}

func silence(s *sim) { s.run(time.Minute) }

func pause(s *sim) { s.run(800 * time.Millisecond) }

// After a minute in which next to nothing was sent the window says little about
// the path: where that has become slower, no more is lost than by a new
// connection, and where it has not, the transfer is soon as fast as it was. A
// pause of less than a second changes nothing.
func TestWake(t *testing.T) {
	const fast, slow = 20e6 / 8, 1e6 / 8
	for _, kind := range []ControllerKind{Cubic, Tolerant} {
		fresh := wakeAfter(t, kind, nil, slow)
		for name, between := range map[string]func(s *sim){"silence": silence, "beats": beats} {
			w := wakeAfter(t, kind, between, slow)
			require.LessOrEqual(t, w.lost, fresh.lost+0.2, "controller %d after %s: %+v, and a new one %+v", kind, name, w, fresh)
			require.GreaterOrEqual(t, w.goodput, 0.6, "controller %d after %s", kind, name)
			w = wakeAfter(t, kind, between, fast)
			require.Zero(t, w.lost, "controller %d after %s", kind, name)
			require.GreaterOrEqual(t, w.goodput, 18.0, "controller %d after %s", kind, name)
		}
		w := wakeAfter(t, kind, pause, fast)
		require.Zero(t, w.lost, "controller %d", kind)
		require.GreaterOrEqual(t, w.goodput, 19.0, "controller %d", kind)
	}
}

// Half of what the window has beyond what was used goes, down to the first
// window, and slow start comes back to three quarters.
func TestCubicIdle(t *testing.T) {
	c := newCubicFrom(MTU0, 2*initialWindow(MTU0))
	c.window, c.threshold, c.most = 1_000_000, 100_000, 2_000_000
	require.True(t, c.Reduced())
	c.HandleIdle(500_000)
	require.Equal(t, 1_000_000, c.Window(), "half of it was used")
	c.running, c.undo, c.slow.careful = true, &c.undone, 1
	c.HandleIdle(400_000)
	require.Equal(t, 700_000, c.Window())
	require.Equal(t, 750_000, c.threshold)
	require.False(t, c.running)
	require.Nil(t, c.undo)
	require.Zero(t, c.slow)
	require.False(t, c.Reduced(), "no loss has made it so")
	c.HandleIdle(0)
	require.Equal(t, 350_000, c.Window())
	require.Equal(t, 750_000, c.threshold, "of the window that there was")
	for range 10 {
		c.HandleIdle(0)
	}
	require.Equal(t, 2*initialWindow(MTU0), c.Window(), "the first one")
	c.window = 3 * MTU0
	c.HandleIdle(0)
	require.Equal(t, 3*MTU0, c.Window(), "what losses have left does not grow")
	for _, lose := range []func(){
		func() { c.HandleLoss(ms(1), Loss{Bytes: 1, Frames: 1, SentAt: ms(1)}) },
		func() { c.HandleTimeout(ms(1)) },
	} {
		c.window, c.most = 100_000, 200_000
		c.HandleIdle(0)
		require.False(t, c.Reduced())
		lose()
		require.True(t, c.Reduced())
	}
}

// The same of the loss-tolerant controller, and of its rate, which it then finds
// anew, up to what it was.
func TestTolerantIdle(t *testing.T) {
	c := newTolerant(MTU0, 3)
	c.SetRTT(ms(50), NoBandwidthLimit)
	c.delay.least = ms(50)
	c.window, c.state = 200_000, probing
	c.rates[1], c.rates[2] = 2e6, 100_000
	c.HandleIdle(50_000)
	require.Equal(t, 200_000, c.Window(), "half of the product was used")
	require.Equal(t, probing, c.state)
	c.full, c.fullCount = 2e6, 2
	c.HandleIdle(40_000)
	require.Equal(t, 120_000, c.Window())
	require.Equal(t, 1e6, c.estimate())
	require.Equal(t, 100_000.0, c.rates[2], "less than the first window in a round trip")
	require.Equal(t, starting, c.state)
	require.Zero(t, c.full)
	require.Zero(t, c.fullCount)
	require.Equal(t, 2e6, c.Rate(), "no more than there was")
	for range 10 {
		c.HandleIdle(0)
	}
	require.Equal(t, initialWindow(MTU0), c.Window())
	require.InDelta(t, float64(initialWindow(MTU0))/0.05, c.estimate(), 1)
	require.InDelta(t, startGain*c.estimate(), c.Rate(), 1)
	c.rates[3] = 3e6
	require.Equal(t, 3e6, c.Rate(), "what is known now is no less")
	c.HandleTimeout(0)
	require.Zero(t, c.before)
}

// An idler notes what it is told of idleness.
type idler struct {
	fixedController
	told []int
}

func (c *idler) HandleIdle(used int) { c.told = append(c.told, used) }

// Each second that passes, or timeout if that is longer, is told once, with the
// most that was in flight during it.
func TestIdleSpans(t *testing.T) {
	s := newSim(1, simConfig(), simConfig(), theLink(0))
	s.connect(t)
	c := &idler{fixedController: fixedController{window: 1 << 20}}
	s.a.p.send.control = c
	s.a.quiet()
	s.b.quiet()
	send := func(n int) {
		s.a.p.Send(s.now, 0, make([]byte, n), Reliable, 0)
		s.a.transmit()
	}
	s.run(s.a.p.send.usedAt - s.now)
	send(1)
	s.run(100 * time.Millisecond)
	c.told = nil
	send(1000)
	s.run(100 * time.Millisecond)
	send(10_000)
	s.run(100 * time.Millisecond)
	send(500)
	require.Empty(t, c.told, "not over")
	s.run(700 * time.Millisecond)
	send(1)
	require.Len(t, c.told, 1)
	require.InDelta(t, 10_000, c.told[0], 300)
	s.run(3 * time.Second)
	send(1)
	require.Len(t, c.told, 4)
	require.Less(t, c.told[1], 30)
	require.Equal(t, []int{0, 0}, c.told[2:])
	s.now += time.Hour
	s.a.transmit()
	require.Equal(t, 4+idleSpans, len(c.told))
	require.Equal(t, s.now+idleSpan, s.a.p.send.usedAt)

	c.told, s.a.p.send.rtt.avg, s.a.p.send.rtt.dev = nil, 5*time.Second, time.Second
	s.a.p.send.usedAt = s.now
	s.a.transmit()
	require.Len(t, c.told, 1)
	require.Equal(t, s.now+s.a.p.send.rtt.rto(), s.a.p.send.usedAt, "a long timeout")
}
