package reliable

import (
	"math"
	"time"
)

// An env is what the parts of an Endpoint share: its settings, the newest time
// that it was told, the account of its memory, and the counters.
type env struct {
	cfg  *Config
	base time.Time // time 0; constant after Init
	now  int64     // newest time heard of, in nanoseconds since base
	mem  int       // bytes held beyond the Endpoint

	// Settings that every packet needs, with the defaults filled in.
	maxPacket     int32
	fragmentAbove int32
	fragmentSize  int32
	headerSize    int32 // of the layers below
	maxFragments  uint16

	busy     bool // a callback is running
	doubted  bool // see Doubt
	fated    bool // the handler is a FateHandler
	answered bool // see Acked
	counters counters
}

func newEnv(cfg *Config, now time.Time) env {
	return env{
		cfg:           cfg,
		base:          now,
		maxPacket:     int32(or(cfg.MaxPacketSize, defaultMaxPacketSize)),
		fragmentAbove: int32(or(cfg.FragmentAbove, defaultFragmentAbove)),
		fragmentSize:  int32(or(cfg.FragmentSize, defaultFragmentSize)),
		maxFragments:  uint16(or(cfg.MaxFragments, defaultMaxFragments)),
		headerSize:    int32(orOff(cfg.PacketHeaderSize, defaultPacketHeaderSize)),
	}
}

// counters are those that count what is usual. Those of what is amiss are in the extra.
type counters struct {
	packetsSent, packetsReceived, packetsAcked uint64
	fragmentsSent, fragmentsReceived           uint64
}

// sent counts a packet that was sent, in fragments if there are any.
func (c *counters) sent(fragments int) {
	c.packetsSent++
	c.fragmentsSent += uint64(fragments)
}

func (c *counters) reset() { *c = counters{} }

func (c *counters) received() { c.packetsReceived++ }

func (c *counters) acked() { c.packetsAcked++ }

func (c *counters) stored() { c.fragmentsReceived++ }

// fatesFor notes whether a handler wants fates.
func (g *env) fatesFor(h Handler) { _, g.fated = h.(FateHandler) }

func (g *env) doubt(on bool) { g.doubted = on }

// advance moves the clock to now. It never runs backwards.
func (g *env) advance(now time.Time) { g.now = max(g.now, int64(now.Sub(g.base))) }

// enter notes that a callback begins, and leave that it ends; was is what enter returned.
func (g *env) enter() (was bool) {
	was, g.busy = g.busy, true
	return was
}

func (g *env) leave(was bool) { g.busy = was }

// Acked reports whether the other side has acknowledged a packet since New or Reset that was one
// of the latest 256 then.
func (g *env) Acked() bool { return g.answered }

// MemoryUsage returns the bytes held beyond the Endpoint itself.
func (g *env) MemoryUsage() int { return g.mem }

// take asks for n bytes and accounts for them.
func (g *env) take(n int) bool {
	if n > 0 && g.cfg.Reserve != nil && !g.cfg.Reserve(n, g.Acked() && !g.doubted) {
		return false
	}
	g.mem += n
	return true
}

// give accounts for n bytes that are no longer held.
func (g *env) give(n int) {
	if n > 0 && g.cfg.Reserve != nil {
		g.cfg.Reserve(-n, g.Acked() && !g.doubted)
	}
	g.mem -= n
}

// hold accounts for n bytes for which nobody is asked: every endpoint needs them.
func (g *env) hold(n int) { g.mem += n }

// grows reports whether the windows have no fixed size.
func (g *env) grows() bool { return g.cfg.MaxWindow > 0 }

// headered returns the bytes of a packet with the headers of the layers below.
func (g *env) headered(size int) uint32 { return uint32(g.headerSize) + uint32(size) }

// forever is more than any time since New, and added to one it does not overflow.
const forever = 1 << 61

// lostAfter returns the age in ns at which an unanswered packet is presumed lost.
func (g *env) lostAfter() int64 {
	switch d := g.cfg.LostAfter; {
	case d == 0:
		return int64(defaultLostAfter)
	case d < 0 || d > forever:
		return math.MaxInt64
	default:
		return int64(d)
	}
}
