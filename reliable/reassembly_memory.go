package reliable

import "unsafe"

const pointerSize = int(unsafe.Sizeof(uintptr(0)))

// takePart asks for n bytes within Config.ReassemblyBytes. It sacrifices the
// spare buffers if that helps.
func (e *Endpoint) takePart(n int) bool {
	p := e.parts
	if limit := e.cfg.ReassemblyBytes; limit > 0 && p.bytes+n > limit {
		e.freeSpares()
		if p.bytes+n > limit {
			return false
		}
	}
	if !e.take(n) {
		return false
	}
	p.bytes += n
	return true
}

func (e *Endpoint) givePart(n int) {
	e.parts.bytes -= n
	e.give(n)
}

// ensureTable makes the table of reassemblies if there is none.
func (e *Endpoint) ensureTable() bool {
	if e.parts != &noReassemblies {
		return true
	}
	n := e.reassemblyWindow()
	if !e.take(tableSize(n)) {
		return false
	}
	e.parts = &reassemblies{table: make([]*reassembly, n)}
	return true
}

// tableSize is the memory of a table of n reassemblies.
func tableSize(n int) int { return int(unsafe.Sizeof(reassemblies{})) + n*pointerSize }

// newReassembly returns an empty reassembly, or nil.
func (e *Endpoint) newReassembly() *reassembly {
	p := e.parts
	if n := len(p.spare); n > 0 {
		r := p.spare[n-1]
		p.spare = p.spare[:n-1]
		return r
	}
	if !e.takePart(e.partSize()) {
		return nil
	}
	return &reassembly{order: make([]uint8, 0, int(e.maxFragments))}
}

// recycle keeps r and its buffer for another packet, or frees them.
func (e *Endpoint) recycle(r *reassembly) {
	p := e.parts
	if n := len(p.spare); n >= maxSpares || n >= minSpares && p.spareSize()+cap(r.buf) > spareBytes {
		e.givePart(e.partSize() + cap(r.buf))
		return
	}
	p.spare = append(p.spare, r)
}

// spareSize returns the bytes of the buffers that are kept.
func (p *reassemblies) spareSize() (n int) {
	for _, r := range p.spare {
		n += cap(r.buf)
	}
	return n
}

// growReassembly gives r a buffer of at least need bytes and of twice the
// former size, but not more than the whole packet takes.
func (e *Endpoint) growReassembly(r *reassembly, need int) bool {
	old := r.buf
	c := max(need, min(2*cap(old), r.count*int(e.fragmentSize)))
	if !e.takePart(c - cap(old)) {
		return false
	}
	r.buf = make([]byte, c)
	copy(r.buf, old)
	return true
}

// freeSpares frees what is kept for later.
func (e *Endpoint) freeSpares() {
	p := e.parts
	if len(p.spare) == 0 {
		return
	}
	for _, r := range p.spare {
		e.givePart(e.partSize() + cap(r.buf))
	}
	p.spare = nil
}

// freeReassembly frees all that is not in use by an open reassembly.
func (e *Endpoint) freeReassembly() {
	e.freeSpares()
	if p := e.parts; p.open == 0 && p != &noReassemblies {
		e.give(tableSize(len(p.table)))
		e.parts = &noReassemblies
	}
}
