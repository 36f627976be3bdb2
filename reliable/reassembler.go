package reliable

import (
	"unsafe"

	"volley/internal/seq"
)

// Reassemblies are kept with their buffers, in part because first fragments may go ahead:
// minSpares of any size, up to maxSpares within spareBytes.
const (
	minSpares  = 4
	maxSpares  = 16
	spareBytes = 64 << 10
)

// reassemblies are the packets that lack fragments. The table is indexed by
// sequence modulo its length, the size of the window.
type reassemblies struct {
	table   []*reassembly
	open    int
	inOrder *reassembly // one that has the first fragments and no others, or nil
	spare   []*reassembly
	bytes   int   // held by all this but the table, for Config.ReassemblyBytes
	timed   bool  // the timeout runs
	since   int64 // from when on; no later than the oldest of those that are open
}

// noReassemblies are those of endpoints without fragments. They are never written to.
var noReassemblies reassemblies

// A reassembler puts fragments together, of packets in a window of its own.
type reassembler struct {
	next          uint16 // one past the newest sequence that it knows
	*reassemblies        // noReassemblies before the first fragment
}

func (p *reassembler) slot(s uint16) **reassembly {
	return &p.table[int(s)%len(p.table)]
}

func (p *reassembler) find(s uint16) *reassembly {
	if p.open == 0 {
		return nil
	}
	if r := *p.slot(s); r != nil && r.sequence == s {
		return r
	}
	return nil
}

// header returns the header of the packet of f, if that has come.
func (p *reassembler) header(f *Fragment) *Header {
	if f.ID == 0 {
		return &f.Header
	}
	if r := p.find(f.Sequence); r != nil && r.headerSize > 0 {
		return &r.header
	}
	return nil
}

// expected returns the reassembly whose next fragment this datagram is, if known.
func (p *reassembler) expected(datagram []byte) *reassembly {
	r := p.inOrder
	if r == nil || len(datagram) < FragmentHeaderSize || r.sequence != uint16(datagram[1])|uint16(datagram[2])<<8 {
		return nil
	}
	return r
}

// extend makes room in r for a fragment. A refusal is a verdict other than fragmentStored.
func (p *reassembler) extend(g *env, r *reassembly, f *Fragment) Verdict {
	switch {
	case r.count != f.Count:
		return Invalid
	case g.cfg.MidStream && r.has(f.ID) && !r.copied(f, int(g.fragmentSize)):
		r.spoil()
		return Invalid
	case r.has(f.ID):
		return Duplicate
	}
	if need := r.room(len(f.Data), int(g.fragmentSize)); need > len(r.buf) && !p.grow(g, r, need) {
		return noRoom
	}
	return fragmentStored
}

// store adds a fragment to r, which has room for it.
func (p *reassembler) store(r *reassembly, f *Fragment, fragmentSize int) {
	r.store(f, fragmentSize)
	if !r.shuffled && r.got == len(r.order) {
		p.inOrder = r
	} else {
		p.inOrder = nil
	}
}

// begin makes a reassembly with room for fragment f, or returns nil and why not.
func (p *reassembler) begin(g *env, f *Fragment) (*reassembly, Verdict) {
	if !seq.AheadOf(f.Sequence, p.next) && seq.StaleIn(f.Sequence, p.next, reassemblyWindow(g)) {
		return nil, stale
	}
	if !p.ensure(g) {
		return nil, noRoom
	}
	r := p.fresh(g)
	if r == nil {
		return nil, noRoom
	}
	r.restart(f, g.now)
	if len(f.Data) > len(r.buf) && !p.grow(g, r, len(f.Data)) {
		p.recycle(g, r)
		return nil, noRoom
	}
	p.forward(g, f.Sequence)
	slot := p.slot(f.Sequence)
	if *slot != nil {
		p.close(g, *slot)
	}
	*slot = r
	p.open++
	if !p.timed {
		p.timed, p.since = true, g.now
	}
	return r, fragmentStored
}

func (p *reassembler) received(g *env, s uint16) {
	if p.open == 0 && p.next == s {
		p.next++ // as nearly always
	} else {
		p.forward(g, s)
	}
}

// forward makes s the newest sequence of the window, and gives up what that leaves behind.
func (p *reassembler) forward(g *env, s uint16) {
	if !seq.AheadOf(s, p.next) {
		return
	}
	if p.open > 0 {
		first := int(p.next)
		for i := range min(int(s-p.next)+1, len(p.table)) {
			if r := p.table[(first+i)%len(p.table)]; r != nil {
				p.close(g, r)
			}
		}
	}
	p.next = s + 1
}

// close takes r out of the table, if it still is there.
func (p *reassembler) close(g *env, r *reassembly) {
	slot := p.slot(r.sequence)
	if *slot != r {
		return
	}
	*slot = nil
	p.open--
	if p.inOrder == r {
		p.inOrder = nil
	}
	p.recycle(g, r)
}

// restart gives up all that is open, except for kept, and makes s the next sequence.
func (p *reassembler) restart(g *env, s uint16, kept *reassembly) {
	p.next = s
	if p.open == 0 {
		return
	}
	for _, r := range p.table {
		if r != nil && r != kept {
			p.close(g, r)
		}
	}
}

// begun returns what has come just now of the packet s if its first fragment has not.
func (p *reassembler) begun(s uint16, now int64) *reassembly {
	if r := p.find(s); r != nil && r.headerSize == 0 && now-r.openedAt < openingPause {
		return r
	}
	return nil
}

// toldAfter returns the newest ack that open packets after s tell, if one tells any.
func (p *reassembler) toldAfter(s uint16) (ack uint16, told bool) {
	for _, r := range p.table {
		if r == nil || r.headerSize == 0 || r.header.heardNothing() || int16(r.sequence-s) <= 0 {
			continue
		}
		if a := r.header.Ack; !told || int16(a-ack) > 0 {
			ack, told = a, true
		}
	}
	return ack, told
}

// lacksFirst reports whether there are fragments, but no first one of any packet.
func (p *reassembler) lacksFirst() bool {
	for _, r := range p.table {
		if r != nil && r.headerSize > 0 {
			return false
		}
	}
	return p.open > 0
}

// due returns when expire may have something to do, and whether it will.
func (p *reassembler) due(g *env) (at int64, pending bool) {
	if !p.timed || g.cfg.ReassemblyTimeout <= 0 {
		return 0, false
	}
	return p.since + int64(g.cfg.ReassemblyTimeout), true
}

// expire gives up what is too old.
func (p *reassembler) expire(g *env) {
	limit := g.now - int64(g.cfg.ReassemblyTimeout)
	if !p.timed || g.cfg.ReassemblyTimeout <= 0 || p.since > limit {
		return
	}
	p.since = g.now
	for _, r := range p.table {
		switch {
		case r == nil:
		case r.openedAt <= limit:
			p.close(g, r)
		default:
			p.since = min(p.since, r.openedAt)
		}
	}
	p.timed = p.open > 0
}

const pointerSize = int(unsafe.Sizeof(uintptr(0)))

func tableSize(n int) int { return int(unsafe.Sizeof(reassemblies{})) + n*pointerSize }

// partSize is the memory of a reassembly without its buffer.
func partSize(g *env) int { return int(unsafe.Sizeof(reassembly{})) + int(g.maxFragments) }

// reassemblyWindow returns how many packets may lack fragments.
func reassemblyWindow(g *env) int { return or(g.cfg.ReassemblyBuffer, defaultReassemblyBuffer) }

// ensure makes the table if there is none.
func (p *reassembler) ensure(g *env) bool {
	if p.reassemblies != &noReassemblies {
		return true
	}
	n := reassemblyWindow(g)
	if !g.take(tableSize(n)) {
		return false
	}
	p.reassemblies = &reassemblies{table: make([]*reassembly, n)}
	return true
}

// take asks for n bytes within Config.ReassemblyBytes, and gives spare buffers for it.
func (p *reassembler) take(g *env, n int) bool {
	if limit := g.cfg.ReassemblyBytes; limit > 0 && p.bytes+n > limit {
		p.freeSpares(g)
		if p.bytes+n > limit {
			return false
		}
	}
	if !g.take(n) {
		return false
	}
	p.bytes += n
	return true
}

func (p *reassembler) give(g *env, n int) {
	p.bytes -= n
	g.give(n)
}

// fresh returns an empty reassembly, or nil.
func (p *reassembler) fresh(g *env) *reassembly {
	if n := len(p.spare); n > 0 {
		r := p.spare[n-1]
		p.spare = p.spare[:n-1]
		return r
	}
	if !p.take(g, partSize(g)) {
		return nil
	}
	return &reassembly{order: make([]uint8, 0, int(g.maxFragments))}
}

// recycle keeps r and its buffer for another packet, or frees them.
func (p *reassembler) recycle(g *env, r *reassembly) {
	if n := len(p.spare); n >= maxSpares || n >= minSpares && p.spareSize()+cap(r.buf) > spareBytes {
		p.give(g, partSize(g)+cap(r.buf))
		return
	}
	p.spare = append(p.spare, r)
}

// spareSize returns the bytes of the buffers that are kept.
func (p *reassembler) spareSize() (n int) {
	for _, r := range p.spare {
		n += cap(r.buf)
	}
	return n
}

// grow gives r at least need bytes and twice the former size, within the whole packet.
func (p *reassembler) grow(g *env, r *reassembly, need int) bool {
	c := max(need, min(2*cap(r.buf), r.count*int(g.fragmentSize)))
	if !p.take(g, c-cap(r.buf)) {
		return false
	}
	r.grow(c)
	return true
}

// freeSpares frees what is kept for later.
func (p *reassembler) freeSpares(g *env) {
	if len(p.spare) == 0 {
		return
	}
	for _, r := range p.spare {
		p.give(g, partSize(g)+cap(r.buf))
	}
	p.spare = nil
}

// shrink frees all that is not in use by an open reassembly.
func (p *reassembler) shrink(g *env) {
	p.freeSpares(g)
	if p.open == 0 && p.reassemblies != &noReassemblies {
		g.give(tableSize(len(p.table)))
		p.reassemblies = &noReassemblies
	}
}
