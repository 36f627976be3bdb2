package reliable

import (
	"math"
	"time"
)

const (
	rttFirst       = 4                       // samples of a growing history at first
	rttBlockLen    = 32                      // samples that share a summary, which a growing history reaches in any case
	rttGrowTurn    = int64(10 * time.Second) // a growing history doubles if it turns over faster
	rttNoMin       = 10000                   // milliseconds above which the reference knows no minimum
	rttSmallChange = 0.00001                 // milliseconds that smoothing leaves out
)

// Products are converted before they are added to something: else processors that
// multiply and add in one step, as those of arm64, do not round them, and what is
// decided by these figures would differ from machine to machine.

// An rttHistory holds the newest round-trip times in milliseconds, with a
// summary of each block of them, so that an update looks only at what changed.
type rttHistory struct {
	samples  []float32  // -1 where there is none; nil before the first
	blocks   []rttBlock // nil where one would do
	dirty    bool       // a block is dirty
	pos      uint32     // next slot of a growing history
	turnedAt int64      // when pos was last 0
}

// An rttBlock summarises a block of samples.
type rttBlock struct {
	mean, m2 float64 // mean, and sum of the squared distances from it
	min, max float32
	n        int32
	dirty    bool
}

const rttBlockSize = 32 // bytes of an rttBlock

func (h *rttHistory) put(i int, ms float32) {
	h.samples[i] = ms
	h.dirty = true
	if h.blocks != nil {
		h.blocks[i/rttBlockLen].dirty = true
	}
}

// summarise computes block i anew.
func (h *rttHistory) summarise(i int) {
	h.blocks[i] = summary(h.samples[i*rttBlockLen : min((i+1)*rttBlockLen, len(h.samples))])
}

// summary sums distances from one sample, which keeps the sums exact.
func summary(samples []float32) rttBlock {
	b := rttBlock{min: math.MaxFloat32}
	var origin, sum, squares float64
	for _, x := range samples {
		if x < 0 {
			continue
		}
		if x < b.min {
			b.min = x
		}
		if x > b.max {
			b.max = x
		}
		if b.n == 0 {
			origin = float64(x)
		}
		b.n++
		d := float64(x) - origin
		sum += d
		squares += float64(d * d)
	}
	if b.n > 0 {
		b.mean = origin + sum/float64(b.n)
		b.m2 = squares - sum*sum/float64(b.n)
	}
	return b
}

// combine returns the summary of all samples, of which there is at least one.
func (h *rttHistory) combine() rttBlock {
	h.dirty = false
	if h.blocks == nil {
		return summary(h.samples)
	}
	all := rttBlock{min: math.MaxFloat32}
	var origin, sum float64
	for i := range h.blocks {
		b := &h.blocks[i]
		if b.dirty {
			h.summarise(i)
		}
		if b.n == 0 {
			continue
		}
		if all.n == 0 {
			origin = b.mean
		}
		if b.min < all.min {
			all.min = b.min
		}
		if b.max > all.max {
			all.max = b.max
		}
		all.n += b.n
		d := b.mean - origin
		nd := float64(b.n) * d
		sum += nd
		all.m2 += b.m2 + float64(nd*d)
	}
	all.mean = origin + sum/float64(all.n)
	all.m2 -= sum * sum / float64(all.n)
	return all
}

// ensure makes room for the first samples, if there is memory.
func (h *rttHistory) ensure(g *env) bool {
	n := or(g.cfg.RTTHistory, defaultRTTHistory)
	if g.grows() {
		n = min(n, rttFirst)
	}
	return h.resize(g, n)
}

// leave forgets the times of a way that is used no more.
func (h *rttHistory) leave() {
	h.forget()
	h.dirty = false
}

func (h *rttHistory) forget() {
	for i := range h.samples {
		h.samples[i] = -1
	}
	for i := range h.blocks {
		h.blocks[i].dirty = true
	}
	h.pos = 0
}

// nextSlot returns the slot of the next sample in a growing history.
func (h *rttHistory) nextSlot(g *env) int {
	if int(h.pos) == len(h.samples) {
		full := or(g.cfg.RTTHistory, defaultRTTHistory)
		slow := len(h.samples) >= rttBlockLen && g.now-h.turnedAt >= rttGrowTurn
		if slow || len(h.samples) >= full || !h.resize(g, min(full, 2*len(h.samples))) {
			h.pos = 0
		}
		h.turnedAt = g.now
	}
	h.pos++
	return int(h.pos - 1)
}

func historyBytes(n int) int { return 4*n + rttBlockSize*rttBlocks(n) }

func rttBlocks(n int) int {
	if n <= rttBlockLen {
		return 0
	}
	return (n + rttBlockLen - 1) / rttBlockLen
}

// resize makes room for n samples, and keeps those there are.
func (h *rttHistory) resize(g *env, n int) bool {
	if !g.take(historyBytes(n) - historyBytes(len(h.samples))) {
		return false
	}
	samples := make([]float32, n)
	for i := copy(samples, h.samples); i < n; i++ {
		samples[i] = -1
	}
	h.samples = samples
	if b := rttBlocks(n); b > len(h.blocks) {
		blocks := make([]rttBlock, b)
		for i := copy(blocks, h.blocks); i < b; i++ {
			blocks[i].dirty = true
		}
		h.blocks = blocks
	}
	return true
}

func (h *rttHistory) free(g *env) {
	g.give(historyBytes(len(h.samples)))
	*h = rttHistory{}
}

func abs(x float32) float32 { return max(x, -x) }
