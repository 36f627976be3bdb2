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

// A seldom is a rare, or none.
type seldom struct{ rare *rare }

// open returns the rare, which it makes if there is none.
func (x *seldom) open(g *ground) *rare {
	if x.rare == nil {
		x.rare = new(rare)
		g.hold(rareSize)
	}
	return x.rare
}

// A fault is one of those counters of what is amiss.
type fault uint8

const (
	packetStale fault = iota
	packetInvalid
	packetTooLargeToSend
	packetTooLargeToReceive
	packetDuplicate
	fragmentInvalid
	ackInvalid
)

// count counts a fault.
func (x *seldom) count(g *ground, f fault) {
	c := &x.open(g).faults
	*[...]*uint64{
		packetStale:             &c.PacketsStale,
		packetInvalid:           &c.PacketsInvalid,
		packetTooLargeToSend:    &c.PacketsTooLargeToSend,
		packetTooLargeToReceive: &c.PacketsTooLargeToReceive,
		packetDuplicate:         &c.PacketsDuplicate,
		fragmentInvalid:         &c.FragmentsInvalid,
		ackInvalid:              &c.AcksInvalid,
	}[f]++
}

// faults returns the counters of what is amiss.
func (x *seldom) faults() Counters {
	if x.rare == nil {
		return Counters{}
	}
	return x.rare.faults
}

// acks returns the list of acks.
func (x *seldom) acks() []uint16 {
	if x.rare == nil {
		return nil
	}
	return x.rare.acks
}

// list puts s on the list of acks. It reports false if that is full.
func (x *seldom) list(g *ground, s uint16) bool {
	limit := or(g.cfg.AckBuffer, defaultAckBuffer)
	if limit < 0 {
		return true
	}
	r := x.open(g)
	if len(r.acks) >= limit || len(r.acks) == cap(r.acks) && !r.grow(g, limit) {
		return false
	}
	r.acks = append(r.acks, s)
	return true
}

func (r *rare) grow(g *ground, limit int) bool {
	c := min(limit, max(16, 2*cap(r.acks)))
	if !g.take(2 * (c - cap(r.acks))) {
		return false
	}
	acks := make([]uint16, len(r.acks), c)
	copy(acks, r.acks)
	r.acks = acks
	return true
}

// clearAcks empties the list.
func (x *seldom) clearAcks() {
	if x.rare != nil {
		x.rare.acks = x.rare.acks[:0]
	}
}

// forget empties the list, and clears the counters.
func (x *seldom) forget() {
	if x.clearAcks(); x.rare != nil {
		x.rare.faults = Counters{}
	}
}

// freeAcks frees the list.
func (x *seldom) freeAcks(g *ground) {
	if x.rare != nil {
		g.give(2 * cap(x.rare.acks))
		x.rare.acks = nil
	}
}
