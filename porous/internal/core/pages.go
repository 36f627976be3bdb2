package core

import "math/bits"

const pageSize = 256

// A page is a part of a channel's queue of received packets: one entry for
// each of 256 consecutive ids.
type page struct {
	entries [pageSize]*incoming
	marks   [markKinds][pageSize / 64]uint64
	count   int
	next    *page
}

// A markKind is a property of entries by which they are found, however many others
// there are: what a peer never finishes makes nothing slower.
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
	next     *incoming
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

func (e *incoming) complete() bool {
	return e.large || e.started && len(e.pieces) == int(e.last)+1
}

// find returns the place of a fragment, and whether it is there.
func (e *incoming) find(number uint16) (i int, ok bool) {
	if n := len(e.pieces); n == 0 || e.pieces[n-1].number < number {
		return n, false // the usual order
	}
	lo, hi := 0, len(e.pieces)
	for lo < hi {
		if mid := (lo + hi) / 2; e.pieces[mid].number < number {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo, e.pieces[lo].number == number
}

// A pool keeps memory for received packets that a connection uses again and
// again.
type pool struct {
	page    *page
	entry   *incoming
	dirs    [][]*page
	buffers [len(bufferSizes)][][]byte
	kept    int // bytes in buffers
	pages   int
	entries int
	steps   int // that were made to find entries, for tests
}

// bufferSizes are the sizes in bytes of buffers for fragments. Larger ones are
// not kept.
var bufferSizes = [...]int{64, 256, 736, MTU0}

const (
	keepBytes   = 128 << 10
	keepDirs    = 2
	keepPages   = 4
	keepEntries = 256
)

// getDir returns n empty places for pages. All channels have as many.
func (a *pool) getDir(n int) []*page {
	if last := len(a.dirs) - 1; last >= 0 {
		d := a.dirs[last]
		a.dirs = a.dirs[:last]
		return d
	}
	return make([]*page, n)
}

// putDir keeps places that are empty again.
func (a *pool) putDir(d []*page) {
	if len(a.dirs) < keepDirs {
		a.dirs = append(a.dirs, d)
	}
}

func (a *pool) getPage() *page {
	if p := a.page; p != nil {
		a.page, p.next = p.next, nil
		a.pages--
		return p
	}
	return new(page)
}

func (a *pool) putPage(p *page) {
	if a.pages < keepPages {
		p.next, a.page = a.page, p
		a.pages++
	}
}

func (a *pool) getEntry() *incoming {
	if e := a.entry; e != nil {
		a.entry, e.next = e.next, nil
		a.entries--
		return e
	}
	return new(incoming)
}

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
	if a.entries >= keepEntries || cap(e.pieces) > 64 {
		return
	}
	*e = incoming{pieces: e.pieces, next: a.entry}
	a.entry = e
	a.entries++
}

// copy returns a copy of b.
func (a *pool) copy(b []byte) []byte {
	for i, size := range bufferSizes {
		if len(b) > size {
			continue
		}
		free := a.buffers[i]
		if n := len(free); n > 0 {
			buf := free[n-1]
			a.buffers[i] = free[:n-1]
			a.kept -= size
			return append(buf[:0], b...)
		}
		return append(make([]byte, 0, size), b...)
	}
	return append([]byte(nil), b...)
}

func (a *pool) putBuffer(b []byte) {
	for i, size := range bufferSizes {
		if cap(b) == size && a.kept+size <= keepBytes {
			a.buffers[i] = append(a.buffers[i], b)
			a.kept += size
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
