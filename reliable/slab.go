package reliable

import "unsafe"

const pointerSize = int(unsafe.Sizeof(uintptr(0)))

// takePart asks for n bytes within Config.ReassemblyBytes. It sacrifices the
// spare buffers if that helps.
func (e *Endpoint) takePart(n int) bool {
	p := &e.parts
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
	p := &e.parts
	if p.table != nil {
		return true
	}
	if !e.take(p.window * pointerSize) {
		return false
	}
	p.table = make([]*reassembly, p.window)
	return true
}

// newReassembly returns an empty reassembly, or nil.
func (e *Endpoint) newReassembly() *reassembly {
	p := &e.parts
	if n := len(p.spare); n > 0 {
		r := p.spare[n-1]
		p.spare = p.spare[:n-1]
		*r = reassembly{order: r.order[:0]}
		return r
	}
	if !e.takePart(reassemblySize) {
		return nil
	}
	return &reassembly{order: make([]uint8, 0, or(e.cfg.MaxFragments, defaultMaxFragments))}
}

// recycle keeps r and its buffer for the next packet, or frees them.
func (e *Endpoint) recycle(r *reassembly) {
	p := &e.parts
	e.recycleSlab(r.buf)
	r.buf = nil
	if len(p.spare) >= spareSlabs {
		e.givePart(reassemblySize)
		return
	}
	p.spare = append(p.spare, r)
}

// growReassembly gives r a buffer of at least need bytes: the largest spare
// one, or else a new one of twice the former size.
func (e *Endpoint) growReassembly(r *reassembly, need int) bool {
	old := r.buf[:cap(r.buf)]
	buf := e.spareSlab(need)
	if buf == nil {
		c := max(need, min(2*len(old), r.count*e.fragmentSize))
		if !e.takePart(c) {
			return false
		}
		buf = make([]byte, c)
	}
	copy(buf, old)
	e.recycleSlab(old)
	r.buf = buf
	return true
}

// spareSlab returns a spare buffer of at least need bytes, or nil.
func (e *Endpoint) spareSlab(need int) []byte {
	p := &e.parts
	last := len(p.slabs) - 1
	for i := last; i >= 0; i-- {
		if b := p.slabs[i]; cap(b) >= need {
			p.slabs[i] = p.slabs[last]
			p.slabs[last] = nil
			p.slabs = p.slabs[:last]
			return b
		}
	}
	return nil
}

// recycleSlab keeps a buffer for later. If there are enough, the smallest of
// them goes.
func (e *Endpoint) recycleSlab(b []byte) {
	if cap(b) == 0 {
		return
	}
	p := &e.parts
	b = b[:cap(b)]
	if len(p.slabs) < spareSlabs {
		p.slabs = append(p.slabs, b)
		return
	}
	least := 0
	for i := range p.slabs {
		if cap(p.slabs[i]) < cap(p.slabs[least]) {
			least = i
		}
	}
	if cap(p.slabs[least]) < cap(b) {
		p.slabs[least], b = b, p.slabs[least]
	}
	e.givePart(cap(b))
}

// freeSpares frees what is kept for later.
func (e *Endpoint) freeSpares() {
	p := &e.parts
	for _, b := range p.slabs {
		e.givePart(cap(b))
	}
	e.givePart(len(p.spare) * reassemblySize)
	p.slabs, p.spare = nil, nil
}

// freeReassembly frees all that is not in use by an open reassembly.
func (e *Endpoint) freeReassembly() {
	e.freeSpares()
	if p := &e.parts; p.open == 0 {
		e.give(len(p.table) * pointerSize)
		p.table = nil
	}
}
