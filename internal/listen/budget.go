package listen

import (
	"cmp"
	"math"
	"sync/atomic"
)

// Limit applies the rule of limits: zero is the default, negative is none.
func Limit[T int | int64](n, def T) T {
	if n < 0 {
		return math.MaxInt
	}
	return cmp.Or(n, def)
}

// A Budget limits what all connections of a Listener hold together, in bytes.
// The last quarter is for peers that are known to hear us: who forges addresses
// hears nothing, and is to starve nobody who does. It is made by Init, and safe
// for concurrent use.
type Budget struct {
	limit   int64
	used    atomic.Int64
	refused atomic.Uint64
}

// Init sets the limit in bytes.
func (b *Budget) Init(limit int64) { b.limit = limit }

// Used returns how many bytes are held.
func (b *Budget) Used() int64 { return b.used.Load() }

// Refused returns how often Reserve has reported false.
func (b *Budget) Refused() uint64 { return b.refused.Load() }

// Limit returns the limit in bytes.
func (b *Budget) Limit() int64 { return b.limit }

// Reserve asks for delta bytes for a peer; a negative delta gives bytes back.
func (b *Budget) Reserve(delta int, known bool) bool {
	limit := b.limit
	if !known {
		limit -= limit / 4
	}
	n := b.used.Add(int64(delta))
	if delta > 0 && n > limit {
		b.used.Add(-int64(delta))
		b.refused.Add(1)
		return false
	}
	return true
}

// ReserveKnown is Reserve for a peer that is known.
func (b *Budget) ReserveKnown(delta int) bool { return b.Reserve(delta, true) }

// leastShare is how many bytes of the last quarter a connection may always ask for.
const leastShare = 16 << 10

// A Share is what one connection holds of a Budget where all peers are known. The last
// quarter is for those that hold no more than an equal part of it, so that others cannot
// leave a connection without memory.
type Share struct {
	budget *Budget
	conns  func() int // how many connections there are
	held   atomic.Int64
}

// NewShare returns the Share of a new connection.
func NewShare(b *Budget, conns func() int) *Share { return &Share{budget: b, conns: conns} }

// Reserve asks for delta bytes; a negative delta gives bytes back.
func (s *Share) Reserve(delta int) bool {
	held := s.held.Add(int64(delta))
	if delta <= 0 {
		return s.budget.Reserve(delta, true)
	}
	part := max(leastShare, s.budget.limit/4/int64(max(1, s.conns())))
	if !s.budget.Reserve(delta, held <= part) {
		s.held.Add(-int64(delta))
		return false
	}
	return true
}
