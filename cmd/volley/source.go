package main

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
)

// A generator makes messages without end, each with content of its own.
type generator struct {
	seed             uint64
	minSize, maxSize int
	sizes            *rand.Rand
	number           uint64
	buf              []byte
}

func newGenerator(seed uint64, minSize, maxSize int) *generator {
	return &generator{seed: seed, minSize: minSize, maxSize: maxSize, sizes: rand.New(rand.NewPCG(seed, 0))}
}

// next returns the next message, which is valid until the next call.
func (g *generator) next() []byte {
	g.buf = appendContent(g.buf[:0], g.seed, g.number, g.size())
	g.number++
	return g.buf
}

// size returns the size of the next message: the extremes first, then as many
// of each order of magnitude.
func (g *generator) size() int {
	switch g.number {
	case 0:
		return g.minSize
	case 1:
		return g.maxSize
	}
	low, high := math.Log(float64(g.minSize)), math.Log(float64(g.maxSize)+1)
	return min(g.maxSize, int(math.Exp(low+g.sizes.Float64()*(high-low))))
}

// appendContent appends the content of a generated message: its number in 8
// bytes, and random bytes that follow from it; or as much of this as fits.
func appendContent(dst []byte, seed, number uint64, size int) []byte {
	end := len(dst) + size
	dst = binary.LittleEndian.AppendUint64(dst, number)
	random := rand.NewPCG(seed, number)
	for len(dst) < end {
		dst = binary.LittleEndian.AppendUint64(dst, random.Uint64())
	}
	return dst[:end]
}
