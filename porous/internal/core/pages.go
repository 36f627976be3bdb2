package core

import (
	"math/bits"
	"slices"
)

const pageSize = 256

// A page is a part of a channel's receive queue: 256 consecutive ids.
type page struct {
	entries [pageSize]*incoming
	marks   [markKinds][pageSize / 64]uint64
	count   int
}

// A markKind is a property by which entries are found, however many others there are.
type markKind uint8

const (
	markThere    markKind = iota
	markStop              // it is complete, or waited for another packet when last looked at
	markSentinel          // a sentinel has come
	markKinds
)

func (p *page) mark(k markKind, id uint32)   { p.marks[k][id%pageSize/64] |= 1 << (id % 64) }
func (p *page) unmark(k markKind, id uint32) { p.marks[k][id%pageSize/64] &^= 1 << (id % 64) }

// find returns the first place from i on with a mark; pageSize: none.
func (p *page) find(k markKind, i uint32) uint32 {
	w := i / 64
	x := p.marks[k][w] >> (i % 64) << (i % 64)
	for x == 0 {
		if w++; w == pageSize/64 {
			return pageSize
		}
		x = p.marks[k][w]
	}
	return w*64 + uint32(bits.TrailingZeros64(x))
}

// What the parts of a queue count against the budget, in bytes.
const (
	pageCost  = 8*pageSize + 16 + int(markKinds)*pageSize/8
	entryCost = 80
	pieceCost = 32
)

// An incoming is a packet that has not been delivered yet.
type incoming struct {
	id       uint32
	lead     uint16
	last     uint16
	started  bool // there was a fragment, which told last
	sentinel bool
	large    bool // larger than we take: it is dropped when its turn comes
	bytes    int  // that it counts against the budget
	extra    int  // of them, those that its channel took beyond its share
	pieces   []piece
}

// A piece is a received fragment.
type piece struct {
	number uint16
	data   []byte
}

func (e *incoming) complete() bool { return e.large || e.started && len(e.pieces) == int(e.last)+1 }

// contradicts reports whether a fragment cannot be of this packet.
func (e *incoming) contradicts(m *Message) bool {
	return e.lead != m.Lead || e.started && e.last != m.Last
}

// find returns the place of a fragment, and whether it is there.
func (e *incoming) find(number uint16) (i int, ok bool) {
	if n := len(e.pieces); n == 0 || e.pieces[n-1].number < number {
		return n, false // the usual order
	}
	return slices.BinarySearchFunc(e.pieces, number, func(p piece, n uint16) int { return int(p.number) - int(n) })
}

// A pool keeps memory for received packets that a connection uses again and again.
type pool struct {
	dirs    kept[[]*page] // all of one length
	pages   kept[*page]
	entries kept[*incoming]
	buffers *[len(bufferSizes)]kept[[]byte] // nil while there is none
	bytes   int                             // in buffers
	steps   int                             // that were made to find entries, for tests
}

// kept is memory to use again.
type kept[T any] []T

// take returns the last one, or a new one if there is none.
func (k *kept[T]) take(fresh func() T) (x T) {
	last := len(*k) - 1
	if last < 0 {
		return fresh()
	}
	x, (*k)[last] = (*k)[last], x
	*k = (*k)[:last]
	return x
}

// put keeps one if there are fewer than most.
func (k *kept[T]) put(x T, most int) {
	if len(*k) < most {
		*k = append(*k, x)
	}
}

// bufferSizes are the sizes in bytes of buffers for fragments. Larger ones are not kept.
var bufferSizes = [...]int{64, 256, 736, MTU0}

const (
	keepBytes   = 128 << 10
	keepDirs    = 2
	keepPages   = 4
	keepEntries = 256
)

func newPage() *page         { return new(page) }
func newIncoming() *incoming { return new(incoming) }

// putPieces keeps the fragments of a packet.
func (a *pool) putPieces(e *incoming) {
	for i := range e.pieces {
		a.putBuffer(e.pieces[i].data)
	}
	clear(e.pieces)
	e.pieces = e.pieces[:0]
}

func (a *pool) putEntry(e *incoming) {
	a.putPieces(e)
	if cap(e.pieces) <= 64 {
		*e = incoming{pieces: e.pieces}
		a.entries.put(e, keepEntries)
	}
}

func (a *pool) copy(b []byte) []byte {
	for i, size := range bufferSizes {
		switch {
		case len(b) > size:
			continue
		case a.buffers == nil || len(a.buffers[i]) == 0:
			return append(make([]byte, 0, size), b...)
		}
		a.bytes -= size
		return append(a.buffers[i].take(nil)[:0], b...)
	}
	return append([]byte(nil), b...)
}

func (a *pool) putBuffer(b []byte) {
	for i, size := range bufferSizes {
		if cap(b) == size && a.bytes+size <= keepBytes {
			if a.buffers == nil {
				a.buffers = new([len(bufferSizes)]kept[[]byte])
			}
			a.buffers[i] = append(a.buffers[i], b)
			a.bytes += size
			return
		}
	}
}

// bufferCost returns what a buffer for n bytes counts.
func bufferCost(n int) int {
	for _, size := range bufferSizes {
		if n <= size {
			return size + pieceCost
		}
	}
	return n + pieceCost
}
