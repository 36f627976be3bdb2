package simnet

import (
	"encoding/binary"
	"math"
	"net/netip"
	"time"
)

// A fate is what chance does to a datagram: a pure function of link, flow and index,
// whichever goroutine runs. Only the burst model carries state from one index to the next.
type fate struct {
	lost   bool
	copies int // 1, or 2 if duplicated
	copy   [2]copyFate
}

// A copyFate is the part of a fate that each copy of a datagram has for itself.
type copyFate struct {
	delay   time.Duration
	held    bool // held back, to be overtaken
	corrupt bool
	bit     uint64 // which bit to flip, modulo the number of bits
}

// The draws of a datagram. Each has a slot of its own, so that turning one
// impairment on or off leaves the others as they were for the same seed.
const (
	drawLoss = iota
	drawBurstLoss
	drawBurstState
	drawDuplicate
	drawCopy // the first of drawsPerCopy slots for each copy
)

const (
	drawJitter = iota
	drawReorder
	drawCorrupt
	drawBit
	drawsPerCopy
)

// decide returns the fate of a datagram by its index and key, and moves the burst model on.
func (l *Link) decide(key, index uint64, bad *bool) fate {
	d := newDraws(key, index)
	f := fate{copies: 1}
	f.lost = d.chance(drawLoss, l.Loss)
	if l.Burst != nil && l.Burst.decide(d, bad) {
		f.lost = true
	}
	if d.chance(drawDuplicate, l.Duplicate) {
		f.copies = 2
	}
	for i := range f.copies {
		f.copy[i] = l.decideCopy(d, drawCopy+uint64(i)*drawsPerCopy)
	}
	return f
}

func (l *Link) decideCopy(d draws, slot uint64) copyFate {
	c := copyFate{
		delay:   l.Latency,
		held:    d.chance(slot+drawReorder, l.Reorder),
		corrupt: d.chance(slot+drawCorrupt, l.Corrupt),
		bit:     d.uint64(slot + drawBit),
	}
	c.delay += l.vary(d.float64(slot + drawJitter))
	c.delay = max(0, c.delay)
	if c.held {
		c.delay += l.reorderBy()
	}
	return c
}

// decide reports whether the model loses a datagram, and moves on to the next state.
func (g *GilbertElliott) decide(d draws, bad *bool) (lost bool) {
	loss, change := g.LossGood, g.GoodToBad
	if *bad {
		loss, change = g.lossBad(), g.BadToGood
	}
	if d.chance(drawBurstState, change) {
		*bad = !*bad
	}
	return d.chance(drawBurstLoss, loss)
}

// draws are a datagram's random numbers by slot: SplitMix64, seeded by key and index.
type draws uint64

const goldenGamma = 0x9e3779b97f4a7c15

func newDraws(key, index uint64) draws {
	return draws(mix(key ^ mix(index+goldenGamma)))
}

func (d draws) uint64(slot uint64) uint64 {
	return mix(uint64(d) + (slot+1)*goldenGamma)
}

// float64 returns a number in [0, 1).
func (d draws) float64(slot uint64) float64 {
	return float64(d.uint64(slot)>>11) / (1 << 53)
}

func (d draws) chance(slot uint64, p float64) bool {
	return p > 0 && d.float64(slot) < p
}

// mix is the output function of SplitMix64: every bit of x affects the whole result.
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// flowKey returns the generator's key for datagrams between two addresses and a seed.
func flowKey(seed uint64, from, to netip.AddrPort) uint64 {
	k := mix(seed + goldenGamma)
	for _, a := range [...]netip.AddrPort{from, to} {
		ip := a.Addr().As16()
		k = mix(k ^ binary.BigEndian.Uint64(ip[:8]))
		k = mix(k ^ binary.BigEndian.Uint64(ip[8:]))
		k = mix(k + goldenGamma + uint64(a.Port()))
	}
	return k
}

// distributions are the values of Link.Distribution.
var distributions = [...]string{"uniform", "normal", "long-tail"}

// longTail is the sigma of the distribution "long-tail", a log-normal one.
const longTail = 1.9

// vary returns what jitter adds to the latency, for a random u in [0, 1).
func (l *Link) vary(u float64) time.Duration {
	if l.Jitter <= 0 {
		return 0
	}
	factor := 0.0
	switch l.Distribution {
	case "", "uniform":
		factor = 2*u - 1
	case "normal":
		factor = gauss(u)
	case "long-tail":
		factor = math.Exp(longTail * min(gauss(u), 3))
	default:
		panic("simnet: unknown Link.Distribution " + l.Distribution)
	}
	return time.Duration(factor * float64(l.Jitter))
}

// gauss returns the quantile u of a standard normal distribution, limited to 4 either way.
func gauss(u float64) float64 {
	return max(-4, min(math.Sqrt2*math.Erfinv(2*u-1), 4))
}
