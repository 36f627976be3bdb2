package core

import "math/bits"

const (
	partCost  = 32 // bytes of a part
	keepParts = 4096
	// partClasses are the sizes in which a partPool keeps memory: 1 to 512, which
	// is more than one frame has.
	partClasses = 10
)

// A partPool gives frames memory for their parts, and keeps some. It comes in powers of two,
// so that no frame has more than twice what it needs.
type partPool struct {
	free *[partClasses][][]part // nil while nothing is kept
	kept int                    // parts that free has room for
	used int                    // parts that frames have room for
}

// partClass returns the exponent of the least power of two that holds n parts.
func partClass(n int) int { return bits.Len(uint(max(n, 1) - 1)) }

// copy returns a copy of p, which is not empty.
func (a *partPool) copy(p []part) []part {
	c := partClass(len(p))
	size := 1 << c
	a.used += size
	if a.free != nil && c < partClasses && len(a.free[c]) > 0 {
		list := a.free[c]
		last := len(list) - 1
		q := append(list[last], p...)
		list[last] = nil
		a.free[c] = list[:last]
		a.kept -= size
		return q
	}
	return append(make([]part, 0, size), p...)
}

// put takes memory back that copy has returned.
func (a *partPool) put(p []part) {
	size := cap(p)
	if size == 0 {
		return
	}
	a.used -= size
	if c := partClass(size); c < partClasses && a.kept+size <= keepParts {
		if a.free == nil {
			a.free = new([partClasses][][]part)
		}
		p = p[:size]
		clear(p)
		a.free[c] = append(a.free[c], p[:0])
		a.kept += size
	}
}

// bytes returns how much memory there is.
func (a *partPool) bytes() int { return (a.used + a.kept) * partCost }
