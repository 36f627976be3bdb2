package core

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A figure is measured over the link, and has a bound.
type figure struct {
	name  string
	bound float64
	least bool // the bound is from below
	f     func(seed uint64) float64
}

func bulkRate(t *testing.T, kind ControllerKind, loss float64) func(uint64) float64 {
	return func(seed uint64) float64 {
		cfg := simConfig()
		cfg.Controller = kind
		return bulk(t, seed, cfg, theLink(loss)).goodput
	}
}

func late(t *testing.T, kind ControllerKind, redundancy bool, link simLink) func(uint64) float64 {
	return func(seed uint64) float64 {
		cfg := simConfig()
		cfg.Controller, cfg.Redundancy = kind, redundancy
		return stream(t, seed, cfg, link).p99.Seconds() * 1e3
	}
}

// farLink loses a fifth, and takes 200 ms there and back.
func farLink() simLink {
	l := theLink(0.2)
	l.delay = 100 * time.Millisecond
	return l
}

func wireShare(t *testing.T, link simLink) func(uint64) float64 {
	return func(seed uint64) float64 {
		cfg := simConfig()
		without := stream(t, seed, cfg, link).bytes
		cfg.Redundancy = true
		return float64(stream(t, seed, cfg, link).bytes) / float64(without)
	}
}

// TestFigures holds the figures that docs/porous.md tells. With -seeds 20 -v it
// prints them.
func TestFigures(t *testing.T) {
	spurious := func(kind ControllerKind) func(uint64) float64 {
		return func(seed uint64) float64 {
			cfg := simConfig()
			cfg.Controller = kind
			return 100 * bulk(t, seed, cfg, theLink(0)).duplicates
		}
	}
	for _, x := range []figure{
		{"bulk, Mbit/s, 0 % loss, CUBIC", 18.5, true, bulkRate(t, Cubic, 0)},
		{"bulk, Mbit/s, 1 % loss, CUBIC", 3.5, true, bulkRate(t, Cubic, 0.01)},
		{"bulk, Mbit/s, 5 % loss, CUBIC", 0.95, true, bulkRate(t, Cubic, 0.05)},
		{"bulk, Mbit/s, 0 % loss, LossTolerant", 18.5, true, bulkRate(t, Tolerant, 0)},
		{"bulk, Mbit/s, 1 % loss, LossTolerant", 17, true, bulkRate(t, Tolerant, 0.01)},
		{"bulk, Mbit/s, 5 % loss, LossTolerant", 17, true, bulkRate(t, Tolerant, 0.05)},
		{"60 Hz, p99 in ms, 1 % loss", 90, false, late(t, Cubic, false, theLink(0.01))},
		{"60 Hz, p99 in ms, 5 % loss", 95, false, late(t, Cubic, false, theLink(0.05))},
		{"60 Hz, p99 in ms, 5 % loss, LossTolerant", 95, false, late(t, Tolerant, false, theLink(0.05))},
		{"60 Hz, p99 in ms, 1 % loss, redundancy", 50, false, late(t, Cubic, true, theLink(0.01))},
		{"60 Hz, p99 in ms, 5 % loss, redundancy", 50, false, late(t, Cubic, true, theLink(0.05))},
		{"60 Hz, p99 in ms, 20 % loss, 200 ms, redundancy", 200, false, late(t, Cubic, true, farLink())},
		{"60 Hz, p99 in ms, 20 % loss, 200 ms, redundancy, LossTolerant", 200, false, late(t, Tolerant, true, farLink())},
		{"redundancy, times the bytes, 0 % loss", 1.03, false, wireShare(t, theLink(0))},
		{"redundancy, times the bytes, 1 % loss", 2.5, false, wireShare(t, theLink(0.01))},
		{"redundancy, times the bytes, 5 % loss", 3.5, false, wireShare(t, theLink(0.05))},
		{"redundancy, times the bytes, 20 % loss, 200 ms", 4, false, wireShare(t, farLink())},
		{"frames sent in vain, %, 0 % loss, CUBIC", 0.2, false, spurious(Cubic)},
		{"frames sent in vain, %, 0 % loss, LossTolerant", 0.2, false, spurious(Tolerant)},
	} {
		got := median(*seeds, x.f)
		t.Logf("%-64s %8.2f", x.name, got)
		if x.least {
			require.GreaterOrEqual(t, got, x.bound, x.name)
		} else {
			require.LessOrEqual(t, got, x.bound, x.name)
		}
	}
}

// A connection that has been busy and then stops for a minute comes back with
// paced frames, not with its whole window at once.
func TestNoBurstAfterAPause(t *testing.T) {
	for _, kind := range []ControllerKind{Cubic, Tolerant} {
		cfg := simConfig()
		cfg.Controller = kind
		link := theLink(0)
		s := newSim(1, cfg, cfg, link)
		s.connect(t)
		s.a.quiet()
		s.b.quiet()
		fill := func() {
			for range 60 {
				s.a.p.Send(s.now, 0, make([]byte, 16<<10), Reliable, 0)
			}
			s.a.transmit()
		}
		for range 20 {
			fill()
			s.run(500 * time.Millisecond)
		}
		s.run(time.Minute)
		require.True(t, s.a.p.Flushed())
		sent := s.a.link.sent
		fill()
		require.LessOrEqual(t, s.a.link.sent-sent, burstFrames+1, "controller %d", kind)
		s.run(10 * time.Millisecond)
		paced := int(s.a.p.Stats().PacingRate/80) / cfg.MTU
		require.LessOrEqual(t, s.a.link.sent-sent, burstFrames+paced+2, "controller %d", kind)
		s.run(2 * time.Second)
		require.True(t, s.a.p.Flushed())
	}
}
