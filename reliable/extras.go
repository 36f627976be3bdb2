package reliable

// An extra holds what most Endpoints have no need of. It is made when it is needed first.
type extra struct {
	acks   []uint16 // not yet cleared by ClearAcks
	faults Counters // those of what is amiss; the usual ones stay zero
}

// extraSize is its size with pointers of eight bytes, so that MemoryUsage is the same everywhere.
const extraSize = 120

// extras are an extra, or none.
type extras struct{ made *extra }

// open returns the extra, which it makes if there is none.
func (x *extras) open(g *env) *extra {
	if x.made == nil {
		x.made = new(extra)
		g.hold(extraSize)
	}
	return x.made
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

func (x *extras) count(g *env, f fault) {
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

func (x *extras) faults() Counters {
	if x.made == nil {
		return Counters{}
	}
	return x.made.faults
}

func (x *extras) acks() []uint16 {
	if x.made == nil {
		return nil
	}
	return x.made.acks
}

// list puts s on the list of acks. It reports false if that is full.
func (x *extras) list(g *env, s uint16) bool {
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

func (r *extra) grow(g *env, limit int) bool {
	c := min(limit, max(16, 2*cap(r.acks)))
	if !g.take(2 * (c - cap(r.acks))) {
		return false
	}
	acks := make([]uint16, len(r.acks), c)
	copy(acks, r.acks)
	r.acks = acks
	return true
}

func (x *extras) clearAcks() {
	if x.made != nil {
		x.made.acks = x.made.acks[:0]
	}
}

// forget empties the list, and clears the counters.
func (x *extras) forget() {
	if x.clearAcks(); x.made != nil {
		x.made.faults = Counters{}
	}
}

func (x *extras) freeAcks(g *env) {
	if x.made != nil {
		g.give(2 * cap(x.made.acks))
		x.made.acks = nil
	}
}
