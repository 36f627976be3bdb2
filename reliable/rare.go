package reliable

// A rare holds what most Endpoints have no need of. It is made when it is needed
// first.
type rare struct {
	acks   []uint16 // not yet cleared by ClearAcks
	faults Counters // those of what is amiss; the usual ones stay zero
}

// rareSize is how many bytes it takes where a pointer has eight. It is the same
// everywhere, so that MemoryUsage is.
const rareSize = 120

// rarely returns the rare, which it makes if there is none.
func (e *Endpoint) rarely() *rare {
	if e.rare == nil {
		e.rare = new(rare)
		e.mem += rareSize
	}
	return e.rare
}

// listAck puts s on the list of acks. It reports false if that is full.
func (e *Endpoint) listAck(s uint16) bool {
	limit := or(e.cfg.AckBuffer, defaultAckBuffer)
	if limit < 0 {
		return true
	}
	r := e.rarely()
	if len(r.acks) >= limit || len(r.acks) == cap(r.acks) && !e.growAcks(limit) {
		return false
	}
	r.acks = append(r.acks, s)
	return true
}

func (e *Endpoint) growAcks(limit int) bool {
	r := e.rare
	c := min(limit, max(16, 2*cap(r.acks)))
	if !e.take(2 * (c - cap(r.acks))) {
		return false
	}
	acks := make([]uint16, len(r.acks), c)
	copy(acks, r.acks)
	r.acks = acks
	return true
}

func (e *Endpoint) freeAcks() {
	if e.rare != nil {
		e.give(2 * cap(e.rare.acks))
		e.rare.acks = nil
	}
}
