package core

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A tcpCubic is the congestion control of RFC 9438, as TCP has it, without
// anything of ours: no pacing, the Reno-friendly region of section 4.3, fast
// convergence, the same back-off whatever the delay.
type tcpCubic struct {
	mtu                           float64
	window, threshold             float64
	most, k, origin, reno, before float64
	epoch, recovery               Clock
	running, backed               bool
	rtt                           time.Duration
}

func newTCPCubic() *tcpCubic {
	return &tcpCubic{mtu: MTU0, window: 10 * MTU0, threshold: math.Inf(1)}
}

func (c *tcpCubic) Window() int                        { return int(c.window) }
func (c *tcpCubic) Rate() float64                      { return 0 }
func (c *tcpCubic) Reduced() bool                      { return false }
func (c *tcpCubic) HandleSpurious(Clock, Clock)        {}
func (c *tcpCubic) HandleIdle(int)                     {}
func (c *tcpCubic) SetRTT(avg time.Duration, _ uint64) { c.rtt = avg }
func (c *tcpCubic) HandleAck(a Ack) {
	switch {
	case c.backed && a.SentAt < c.recovery || !a.Limited:
	case c.window < c.threshold:
		c.window += float64(a.Bytes)
	default:
		if !c.running {
			c.running, c.epoch, c.reno = true, a.Now, c.window
			c.origin = math.Max(c.most, c.window)
			c.k = math.Cbrt((c.origin - c.window) / (0.4 * c.mtu))
		}
		alpha := 3 * 0.3 / 1.7
		if c.reno >= c.before {
			alpha = 1
		}
		c.reno += alpha * c.mtu * float64(a.Bytes) / c.window
		t := (a.Now - c.epoch + c.rtt).Seconds() - c.k
		target := min(max(c.origin+0.4*c.mtu*t*t*t, c.window), 1.5*c.window)
		c.window += (target - c.window) * float64(a.Bytes) / c.window
		c.window = max(c.window, c.reno)
	}
}

func (c *tcpCubic) HandleLoss(now Clock, l Loss) {
	if c.backed && l.SentAt < c.recovery {
		return
	}
	c.before, c.most = c.window, c.window
	if c.most < c.origin {
		c.most *= 0.85
	}
	c.window = max(c.window*0.7, 2*c.mtu)
	c.threshold = c.window
	c.running, c.backed, c.recovery = false, true, now
}

func (c *tcpCubic) HandleTimeout(now Clock) {
	c.threshold = max(c.window*0.7, 2*c.mtu)
	c.window = 2 * c.mtu
	c.running, c.backed, c.recovery = false, true, now
}

// share runs two flows through one bottleneck, the second one from two seconds
// later, and returns their goodputs in Mbit/s over some time after they have
// settled.
func share(t testing.TB, seed uint64, one, two Controller, kind ControllerKind) (x, y float64) {
	return shareOf(t, seed, one, two, kind, theLink(0), 40*time.Second)
}

// shareOf is share of a bottleneck and for some time.
func shareOf(t testing.TB, seed uint64, one, two Controller, kind ControllerKind, link simLink, span time.Duration) (x, y float64) {
	cfg := simConfig()
	cfg.Controller = kind
	s := newSim(seed, cfg, cfg, link)
	there, back := link, link
	c, d := s.pair(cfg, cfg, link)
	s.a.link.shared, c.link.shared = &there, &there
	s.b.link.shared, d.link.shared = &back, &back
	s.connect(t)
	c.step()
	d.step()
	if one != nil {
		s.a.p.send.control = one
	}
	f := newFlow(s.a, s.b)
	s.run(2*time.Second + time.Duration(s.rand.IntN(100))*time.Millisecond)
	if two != nil {
		c.p.send.control = two
	}
	g := newFlow(c, d)
	s.run(10 * time.Second)
	n, m := f.bytes, g.bytes
	s.run(span)
	return f.rate(n, span), g.rate(m, span)
}

func jain(x, y float64) float64 { return (x + y) * (x + y) / (2 * (x*x + y*y)) }

// Two flows share a bottleneck, whoever came first.
func TestFairnessOfTwo(t *testing.T) {
	for _, kind := range []ControllerKind{Cubic, Tolerant} {
		for seed := range uint64(fewer()) {
			x, y := share(t, seed, nil, nil, kind)
			require.GreaterOrEqual(t, jain(x, y), 0.9, "controller %d: %.2f and %.2f Mbit/s", kind, x, y)
			require.Greater(t, x+y, 17.5, "and fill it")
		}
	}
}

// Beside a flow of TCP the default takes neither less than a third of its
// share nor more than three times as much as TCP, and the loss-tolerant one
// leaves it a quarter, in the median: single flows may fare a little worse.
func TestFairnessTowardsTCP(t *testing.T) {
	for _, kind := range []ControllerKind{Cubic, Tolerant} {
		var shares []float64
		took := func(ours, tcp float64) {
			t.Logf("controller %d: %.2f Mbit/s, TCP %.2f", kind, ours, tcp)
			shares = append(shares, tcp/(ours+tcp))
		}
		for seed := range uint64(fewer()) {
			x, y := share(t, seed, nil, newTCPCubic(), kind)
			took(x, y)
			y, x = share(t, seed, newTCPCubic(), nil, kind)
			took(x, y)
		}
		slices.Sort(shares)
		n := len(shares)
		median := (shares[n/2] + shares[(n-1)/2]) / 2
		require.Greater(t, median, 0.25, "controller %d leaves TCP a quarter", kind)
		require.Less(t, median, 0.75, "controller %d takes a quarter", kind)
		require.Greater(t, shares[0], 0.2, "controller %d leaves each flow of TCP a fifth", kind)
	}
}

// Why CUBIC is the default, as docs/porous.md says: beside TCP it is as fair over
// short queues. The loss-tolerant controller takes all, because losses come
// before a queue that shows in the round-trip time.
func TestFairnessOverShortQueues(t *testing.T) {
	const span = 20 * time.Second
	link := theLink(0)
	link.queue = 125_000 / 10
	x, y := shareOf(t, 1, nil, newTCPCubic(), Cubic, link, span)
	require.GreaterOrEqual(t, jain(x, y), 0.8, "%.2f Mbit/s, then TCP's %.2f", x, y)
	x, y = shareOf(t, 1, newTCPCubic(), nil, Cubic, link, span)
	require.GreaterOrEqual(t, jain(x, y), 0.8, "TCP's %.2f Mbit/s, then %.2f", x, y)
	link.queue = 125_000 / 4
	x, y = shareOf(t, 1, newTCPCubic(), nil, Tolerant, link, span)
	require.Less(t, jain(x, y), 0.6, "TCP's %.2f Mbit/s, then %.2f: has it become fair?", x, y)
}

// fewer returns how many seeds a long simulation has.
func fewer() int {
	if testing.Short() {
		return 1
	}
	return (*seeds + 1) / 2
}
