package core

// A receiver is the receiving half of a channel: packets that wait for others or fragments.
type receiver struct {
	pool          *pool
	fragmentSize  int
	maxPacket     int    // bytes of the largest packet that is taken
	window, group uint32 // N_Q and M
	base          uint32 // m_b

	dir    []*page // a ring of pages over the window; nil when empty
	mask   uint32  // of ids in the ring
	count  int     // entries
	newest uint32  // the newest id of them
	bytes  int     // what the queue counts against the budget
	extra  int     // of them, those beyond the channel's share
	over   uint64  // number of the frame that may take some of these
	asking uint64  // number of the frame for which asked counts
	asked  int     // bytes that the messages of that frame cost here
	ran    uint64  // number of the frame for which ahead counts
	ahead  uint32  // the base when what that frame has so far will have been delivered
	dirty  bool    // to be scanned

	refusing  bool  // for want of room, and nothing was taken
	refusedAt Clock // since when, and everything was read

	frame uint64 // number of the frame in which a page was last counted, and which that was
	index uint32
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
		base: first, mask: size - 1}
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

// next reports whether a message is the whole packet at the base, and small enough.
func (r *receiver) next(m *Message) bool {
	return m.Type == MessageFragment && m.Packet == r.base && m.Last == 0 && m.Fragment == 0 &&
		len(m.Data) <= r.fragmentSize && len(m.Data) <= r.maxPacket
}

// immediate reports whether a fragment is the whole packet at the base: it needs no queue.
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

// cost returns the most bytes that a message adds. Frames share the ring, rows a page.
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
	if !first && r.index == page {
		return n
	}
	r.frame, r.index = frame, page
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
		r.dir = r.pool.dirs.take(func() []*page { return make([]*page, int(r.mask+1)/pageSize) })
		r.bytes += 8 * len(r.dir)
	}
	p := &r.dir[m.Packet&r.mask/pageSize]
	if *p == nil {
		*p = r.pool.pages.take(newPage)
		r.bytes += pageCost
	}
	e := r.pool.entries.take(newIncoming)
	e.id, e.lead = m.Packet, m.Lead
	e.bytes = entryCost
	r.bytes += entryCost
	(*p).entries[m.Packet%pageSize] = e
	(*p).mark(markThere, e.id)
	if r.waits(e) {
		(*p).mark(markStop, e.id)
	}
	(*p).count++
	r.count++
	if r.count == 1 || packetLead(e.id, r.base) > packetLead(r.newest, r.base) {
		r.newest = e.id
		r.dirty = r.dirty || packetLead(e.id, r.base) >= r.window-r.group // a sentinel may have come of age
	}
	return e
}

func (r *receiver) page(e *incoming) *page { return r.dir[e.id&r.mask/pageSize] }

func (r *receiver) drop(e *incoming) {
	p := &r.dir[e.id&r.mask/pageSize]
	(*p).entries[e.id%pageSize] = nil
	for k := range markKinds {
		(*p).unmark(k, e.id)
	}
	(*p).count--
	r.count--
	r.bytes -= e.bytes
	r.extra -= e.extra
	if (*p).count == 0 {
		r.pool.pages.put(*p, keepPages)
		*p = nil
		r.bytes -= pageCost
	}
	if r.count == 0 {
		r.bytes -= 8 * len(r.dir)
		r.pool.dirs.put(r.dir, keepDirs)
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
		if e.contradicts(m) {
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
		r.page(e).mark(markStop, e.id)
		r.dirty = true
	}
	return taken
}

// large notes a packet that is too large: complete, so that none waits, and dropped in turn.
func (r *receiver) large(m *Message) verdict {
	if v := r.lies(m.Packet); v != taken {
		return v
	}
	e := r.get(m.Packet)
	switch {
	case e == nil:
	case e.contradicts(m):
		return malformed
	case e.large:
		return duplicate
	}
	e = r.make(m)
	e.started, e.last, e.large = true, m.Last, true
	r.pool.putPieces(e)
	r.bytes -= e.bytes - entryCost
	e.bytes = entryCost
	if less := e.extra - e.bytes; less > 0 {
		e.extra -= less
		r.extra -= less
	}
	r.page(e).mark(markStop, e.id)
	r.dirty = true
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
	e = r.make(m)
	e.sentinel = true
	r.page(e).mark(markSentinel, e.id)
	r.dirty = r.dirty || packetLead(r.newest, r.base) >= r.window-r.group
	return taken
}

// find returns the first entry with a mark at id or behind it.
func (r *receiver) find(k markKind, id uint32) *incoming {
	end := r.base + r.window
	for r.count > 0 && int32(end-id) > 0 {
		r.pool.steps++
		start := id % pageSize
		if p := r.dir[id&r.mask/pageSize]; p != nil {
			if i := p.find(k, start); i < pageSize {
				if int32(end-(id-start+i)) <= 0 {
					return nil // that place is one before the base
				}
				return p.entries[i]
			}
		}
		id += pageSize - start
	}
	return nil
}

// waits reports whether an entry depends on a packet that was not delivered.
func (r *receiver) waits(e *incoming) bool { return depends(e.id, e.lead, r.base) }

// depends reports whether a packet depends on one that is not before base.
func depends(id uint32, lead uint16, base uint32) bool {
	return lead != 0 && packetLead(id, base) >= uint32(lead)
}

// maxLooks is how many incomplete entries a scan looks at. The next batch goes on.
const maxLooks = 64

// reach returns the base after the delivery of what was looked at of a frame.
func (r *receiver) reach(frame uint64) uint32 {
	if r.ran == frame {
		return r.ahead
	}
	return r.base
}

// pass looks at a message of a frame that is to be taken: what depends on nothing is
// delivered once it is complete, and so is what waits behind it.
func (r *receiver) pass(m *Message, frame uint64) {
	base := r.reach(frame)
	if m.Type != MessageFragment || !r.completes(m) || packetLead(m.Packet, base) >= r.window || depends(m.Packet, m.Lead, base) {
		return
	}
	r.ran, r.ahead = frame, nextPacket(m.Packet)
	for range r.fragmentSize/FragmentHeaderSize + 1 { // a frame leaves out no more of its packets
		if e := r.get(r.ahead); e == nil || e.id != r.ahead || !e.complete() {
			return
		}
		r.ahead = nextPacket(r.ahead)
	}
}

// completes reports whether nothing is missing of a packet once a fragment is there.
func (r *receiver) completes(m *Message) bool {
	e := r.get(m.Packet)
	switch {
	case e == nil:
		return m.Last == 0
	case e.contradicts(m):
		return false
	}
	return e.complete() || len(e.pieces) == int(m.Last) && !r.has(m)
}

// has reports whether a fragment is there, so that a copy takes no room.
func (r *receiver) has(m *Message) bool {
	e := r.get(m.Packet)
	if e == nil || e.contradicts(m) {
		return false
	}
	_, there := e.find(m.Fragment)
	return there || e.large
}

// A lack is what packets need beside their own fragments to be delivered.
type lack uint8

const (
	lacksNothing lack = iota // they are the first of their windows, and others wait for them
	lacksRank                // they wait for no other, and are not the first
	lacksPackets             // some wait for others
)

// lacks returns what the packet of a message needs, after what was looked at of the frame.
func (r *receiver) lacks(m *Message, frame uint64) lack {
	switch base := r.reach(frame); {
	case m.Packet == base:
		return lacksNothing
	case depends(m.Packet, m.Lead, base):
		return lacksPackets
	}
	return lacksRank
}

// scan returns the next packet to deliver (Q6); nil: none. advance follows.
func (r *receiver) scan() *incoming {
	r.dirty = false
	at := r.base // no entry before this one stops
	for looks := 0; r.count > 0; looks++ {
		e := r.find(markStop, at)
		r.skipAged(e)
		switch {
		case e == nil || r.waits(e):
			return nil
		case e.complete():
			return e
		case looks == maxLooks:
			r.dirty = true
			return nil
		}
		r.page(e).unmark(markStop, e.id) // it waits no more
		at = r.base + packetLead(e.id, r.base)
	}
	return nil
}

// skipAged gives up sentinels before e once a packet nearly a window later is there (Q10).
func (r *receiver) skipAged(e *incoming) {
	for r.count > 0 && packetLead(r.newest, r.base) >= r.window-r.group {
		s := r.find(markSentinel, r.base)
		if s == nil || packetLead(r.newest, s.id) < r.window-r.group ||
			e != nil && packetLead(s.id, r.base) >= packetLead(e.id, r.base) {
			break
		}
		r.advance(nextPacket(s.id))
	}
}

// advance moves the window, and forgets what lies behind it.
func (r *receiver) advance(to uint32) {
	for id := r.base; r.count > 0; {
		e := r.find(markThere, id)
		if e == nil || packetLead(e.id, r.base) >= packetLead(to, r.base) {
			break
		}
		id = r.base + packetLead(e.id, r.base)
		r.drop(e)
	}
	r.base = to
}

// due returns the window acknowledgement for a move from old to the present base (Q8).
func (r *receiver) due(old uint32) (id uint32, ok bool) {
	moved := packetLead(r.base, old)
	behind := r.base % r.group
	if moved == 0 || behind >= moved {
		return 0, false
	}
	return (r.base - behind - 1) & (packetIDs - 1), true
}
