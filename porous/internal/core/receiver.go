package core

// A receiver is the receiving half of a channel: a queue of packets that wait
// for others, or for their fragments.
type receiver struct {
	pool         *pool
	fragmentSize int
	maxPacket    int    // bytes of the largest packet that is taken
	window       uint32 // N_Q
	group        uint32 // M
	base         uint32 // m_b

	dir    []*page // a ring of pages over the window; nil when empty
	mask   uint32  // of ids in the ring
	count  int     // entries
	newest uint32  // the newest id of them
	from   uint32  // those before were looked at: incomplete, and not to be waited for
	bytes  int     // what the queue counts against the budget
	dirty  bool    // to be scanned

	refusing  bool  // for want of room, and nothing was taken
	refusedAt Clock // since when, and everything was read

	frame uint64 // number of the frame in which page was last counted
	page  uint32
}

// A verdict says what became of a received message.
type verdict uint8

const (
	taken      verdict = iota
	duplicate          // it is there, or delivered or skipped already
	outOfReach         // beyond the window
	malformed          // sizes or numbers that contradict each other
	tooLarge           // the first part of a packet larger than we take
)

func (r *receiver) init(a *pool, fragmentSize, maxPacket int, window, group, first uint32) {
	size := uint32(pageSize)
	for size < window {
		size *= 2
	}
	*r = receiver{pool: a, fragmentSize: fragmentSize, maxPacket: maxPacket, window: window, group: group,
		base: first, from: first, mask: size - 1}
}

// check returns what is wrong with a fragment by itself.
func (r *receiver) check(m *Message) verdict {
	switch n := len(m.Data); {
	case m.Fragment > m.Last,
		n > r.fragmentSize,
		m.Fragment < m.Last && n != r.fragmentSize:
		return malformed
	case m.Last > 0 && int(m.Last)*r.fragmentSize >= r.maxPacket,
		m.Fragment == m.Last && int(m.Last)*r.fragmentSize+n > r.maxPacket:
		return tooLarge
	}
	return taken
}

// lies returns whether an id lies in the window.
func (r *receiver) lies(id uint32) verdict {
	lead := packetLead(id, r.base)
	switch {
	case lead < r.window:
		return taken
	case lead >= packetIDs/2:
		return duplicate
	}
	return outOfReach
}

// next reports whether a message is a whole packet, of a size that is taken, and
// the one at the window's base.
func (r *receiver) next(m *Message) bool {
	return m.Type == MessageFragment && m.Packet == r.base && m.Last == 0 && m.Fragment == 0 &&
		len(m.Data) <= r.fragmentSize && len(m.Data) <= r.maxPacket
}

// immediate reports whether a fragment is a whole packet that can be delivered
// without being queued: the one at the window's base.
func (r *receiver) immediate(m *Message) bool {
	if m.Packet != r.base || m.Last != 0 {
		return false
	}
	e := r.get(m.Packet)
	return e == nil || !e.started && e.lead == m.Lead
}

// get returns the entry of an id in the window, nil if there is none.
func (r *receiver) get(id uint32) *incoming {
	if r.dir == nil {
		return nil
	}
	if p := r.dir[id&r.mask/pageSize]; p != nil {
		return p.entries[id%pageSize]
	}
	return nil
}

// cost returns how many bytes the queue would grow by a message, at most. The
// messages of one frame share the ring, and those in a row a page.
func (r *receiver) cost(m *Message, frame uint64) int {
	n := 0
	if m.Type == MessageFragment {
		n = bufferCost(len(m.Data))
	}
	if r.get(m.Packet) != nil {
		return n
	}
	n += entryCost
	page, first := m.Packet&r.mask/pageSize, r.frame != frame
	if !first && r.page == page {
		return n
	}
	r.frame, r.page = frame, page
	if r.dir == nil && first {
		n += 8 * int(r.mask+1) / pageSize
	}
	if r.dir == nil || r.dir[page] == nil {
		n += pageCost
	}
	return n
}

// make returns the entry of an id, a new one if need be.
func (r *receiver) make(m *Message) *incoming {
	if e := r.get(m.Packet); e != nil {
		return e
	}
	if r.dir == nil {
		r.dir = r.pool.getDir(int(r.mask+1) / pageSize)
		r.bytes += 8 * len(r.dir)
	}
	p := &r.dir[m.Packet&r.mask/pageSize]
	if *p == nil {
		*p = r.pool.getPage()
		r.bytes += pageCost
	}
	e := r.pool.getEntry()
	e.id, e.lead = m.Packet, m.Lead
	e.bytes = entryCost
	r.bytes += entryCost
	(*p).entries[m.Packet%pageSize] = e
	(*p).count++
	r.count++
	r.inserted(m.Packet)
	return e
}

func (r *receiver) inserted(id uint32) {
	if r.count == 1 || packetLead(id, r.base) > packetLead(r.newest, r.base) {
		r.newest = id
		if packetLead(id, r.base) >= r.window-r.group {
			r.revisit(r.base) // a sentinel may have come of age
		}
	}
	if packetLead(id, r.base) < packetLead(r.from, r.base) {
		r.from = id
	}
}

func (r *receiver) revisit(id uint32) {
	r.dirty = true
	if packetLead(id, r.base) < packetLead(r.from, r.base) {
		r.from = id
	}
}

// drop takes an entry out.
func (r *receiver) drop(e *incoming) {
	p := &r.dir[e.id&r.mask/pageSize]
	(*p).entries[e.id%pageSize] = nil
	(*p).count--
	r.count--
	r.bytes -= e.bytes
	if (*p).count == 0 {
		r.pool.putPage(*p)
		*p = nil
		r.bytes -= pageCost
	}
	if r.count == 0 {
		r.bytes -= 8 * len(r.dir)
		r.pool.putDir(r.dir)
		r.dir = nil
	}
	r.pool.putEntry(e)
}

// fragment queues a fragment that check has passed (Q5).
func (r *receiver) fragment(m *Message) verdict {
	if v := r.lies(m.Packet); v != taken {
		return v
	}
	e := r.get(m.Packet)
	if e != nil {
		if e.lead != m.Lead || e.started && e.last != m.Last {
			return malformed
		}
		if _, there := e.find(m.Fragment); there || e.large {
			return duplicate
		}
	}
	e = r.make(m)
	e.started, e.last = true, m.Last
	i, _ := e.find(m.Fragment)
	e.pieces = append(e.pieces, piece{})
	copy(e.pieces[i+1:], e.pieces[i:])
	e.pieces[i] = piece{m.Fragment, r.pool.copy(m.Data)}
	n := bufferCost(len(m.Data))
	e.bytes += n
	r.bytes += n
	if e.complete() {
		r.revisit(m.Packet)
	}
	return taken
}

// large notes a packet of which check has found that it is larger than we take. It
// counts as complete, so that what is behind it does not wait for ever, and is
// dropped when its turn comes.
func (r *receiver) large(m *Message) verdict {
	if v := r.lies(m.Packet); v != taken {
		return v
	}
	e := r.get(m.Packet)
	switch {
	case e != nil && (e.lead != m.Lead || e.started && e.last != m.Last):
		return malformed
	case e != nil && e.large:
		return duplicate
	}
	e = r.make(m)
	e.started, e.last, e.large = true, m.Last, true
	r.pool.putPieces(e)
	r.bytes -= e.bytes - entryCost
	e.bytes = entryCost
	r.revisit(m.Packet)
	return tooLarge
}

// sentinel notes that a packet need not be waited for (Q10).
func (r *receiver) sentinel(m *Message) verdict {
	if v := r.lies(m.Packet); v != taken {
		return v
	}
	e := r.get(m.Packet)
	if e != nil && e.lead != m.Lead {
		return malformed
	}
	if e != nil && e.sentinel {
		return duplicate
	}
	r.make(m).sentinel = true
	if packetLead(r.newest, r.base) >= r.window-r.group {
		r.revisit(m.Packet)
	}
	return taken
}

// first returns the first entry at id or behind it.
func (r *receiver) first(id uint32) *incoming {
	end := r.base + r.window
	for left := end - id; r.count > 0 && int32(left) > 0; left = end - id {
		p := r.dir[id&r.mask/pageSize]
		if p == nil {
			id += pageSize - id%pageSize
			continue
		}
		for {
			if e := p.entries[id%pageSize]; e != nil {
				return e
			}
			id++
			if id%pageSize == 0 || id == end {
				break
			}
		}
	}
	return nil
}

// waits reports whether an entry depends on a packet that was not delivered.
func (r *receiver) waits(e *incoming) bool { return depends(e.id, e.lead, r.base) }

// depends reports whether a packet depends on one that is not before base.
func depends(id uint32, lead uint16, base uint32) bool {
	return lead != 0 && packetLead(id, base) >= uint32(lead)
}

// scan returns the next packet to deliver (Q6), after which advance is called;
// nil: none. What cannot come any more is skipped.
func (r *receiver) scan() *incoming {
	r.dirty = false
	for r.count > 0 {
		e := r.first(r.base + packetLead(r.from, r.base))
		if e == nil || r.waits(e) {
			break
		}
		if e.complete() {
			return e
		}
		if e.sentinel && packetLead(r.newest, e.id) >= r.window-r.group {
			r.advance(nextPacket(e.id))
			continue
		}
		r.from = nextPacket(e.id)
	}
	return nil
}

// advance moves the window, and forgets what lies behind it.
func (r *receiver) advance(to uint32) {
	for r.count > 0 {
		e := r.first(r.base)
		if e == nil || packetLead(e.id, r.base) >= packetLead(to, r.base) {
			break
		}
		r.drop(e)
	}
	r.base, r.from = to, to
}

// due returns the window acknowledgement to send when the window has moved
// from old to its present base (Q8).
func (r *receiver) due(old uint32) (id uint32, ok bool) {
	moved := packetLead(r.base, old)
	behind := r.base % r.group
	if moved == 0 || behind >= moved {
		return 0, false
	}
	return (r.base - behind - 1) & (packetIDs - 1), true
}

// needed reports whether a packet may be one that has to arrive before anything
// else can be delivered, and how many bytes are held for such ones.
func (r *receiver) needed(id uint32) (held int, ok bool) {
	if r.count == 0 {
		return 0, true
	}
	lead := packetLead(id, r.base)
	last := packetLead(r.first(r.base).id, r.base)
	if e := r.first(r.base + packetLead(r.from, r.base)); e != nil && r.waits(e) {
		last = max(last, packetLead(e.id, r.base)-uint32(e.lead))
	}
	for e := r.first(r.base); e != nil && packetLead(e.id, r.base) <= last; e = r.first(r.base + packetLead(e.id, r.base) + 1) {
		held += e.bytes
	}
	return held, lead <= last
}

// reset gives all memory back.
func (r *receiver) reset() {
	for r.count > 0 {
		r.drop(r.first(r.base))
	}
}
