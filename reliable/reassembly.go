package reliable

import (
	"time"
	"unsafe"

	"volley/internal/seq"
)

// Reassemblies are kept with their buffers for later packets, in part because a
// sender may let the first fragments of several packets go ahead: minSpares of
// any size, more up to maxSpares as long as all together hold at most
// spareBytes.
const (
	minSpares  = 4
	maxSpares  = 16
	spareBytes = 64 << 10
)

// A reassembly collects the fragments of one packet, in the order in which
// they arrive: they are all of one size but the last, so each takes the next
// slot of a buffer, which grows as it fills. When all came in order, the
// buffer is the payload.
type reassembly struct {
	sequence uint16
	count    int       // fragments announced
	got      int       // fragments here
	lastSize int       // bytes of the last fragment
	shuffled bool      // the order is not that of the ids
	present  [4]uint64 // by id
	order    []uint8   // the id in each slot
	buf      []byte

	header     Header // from fragment 0
	headerSize int
	openedAt   int64
}

// partSize is the memory of a reassembly without its buffer.
func (e *Endpoint) partSize() int { return int(unsafe.Sizeof(reassembly{})) + int(e.maxFragments) }

// MaxReassemblyOverhead is the most that a reassembly counts against
// Config.ReassemblyBytes beside its fragments, in bytes. Fragments count with
// their full size.
const MaxReassemblyOverhead = int(unsafe.Sizeof(reassembly{})) + maxMaxFragments

func (r *reassembly) has(id uint8) bool { return r.present[id>>6]&(1<<(id&63)) != 0 }

// room returns the bytes that the buffer needs to take n more.
func (r *reassembly) room(n, fragmentSize int) int {
	if n == 0 {
		return 0
	}
	return len(r.order)*fragmentSize + n
}

// restart makes r an empty reassembly of the packet of f. Its buffer stays.
func (r *reassembly) restart(f *Fragment, now int64) {
	r.sequence, r.count, r.openedAt = f.Sequence, f.Count, now
	r.got, r.lastSize, r.shuffled = 0, 0, false
	r.present = [4]uint64{}
	r.order = r.order[:0]
	r.headerSize = 0
}

// store adds a fragment. There is room in the buffer.
func (r *reassembly) store(f *Fragment, fragmentSize int) {
	r.present[f.ID>>6] |= 1 << (f.ID & 63)
	r.got++
	if f.last() {
		r.lastSize = len(f.Data)
	}
	if f.ID == 0 {
		r.header, r.headerSize = f.Header, f.HeaderSize
	}
	if len(f.Data) == 0 {
		return // an empty last fragment takes no slot
	}
	slot := len(r.order)
	r.shuffled = r.shuffled || slot != int(f.ID)
	r.order = append(r.order, f.ID)
	copy(r.buf[slot*fragmentSize:], f.Data)
}

// storeNext is store for a datagram that is the next fragment after those that
// came, all of them in order, and is not empty, if the buffer has room for it.
// It reports whether it was.
func (r *reassembly) storeNext(b []byte, fragmentSize int) bool {
	id, n := len(r.order), len(b)-FragmentHeaderSize
	if b[0] != fragmentPrefix || int(b[3]) != id || int(b[4]) != r.count-1 {
		return false
	}
	if n > fragmentSize || id*fragmentSize+n > len(r.buf) {
		return false
	}
	switch {
	case n == fragmentSize && id < r.count-1:
	case n > 0 && id == r.count-1:
		r.lastSize = n
	default:
		return false
	}
	r.present[id>>6&3] |= 1 << (id & 63)
	r.got++
	r.order = append(r.order, uint8(id))
	copy(r.buf[id*fragmentSize:], b[FragmentHeaderSize:])
	return true
}

// payload returns the packet, which is complete.
func (r *reassembly) payload(fragmentSize int) []byte {
	buf := r.buf
	if r.shuffled {
		for slot := range r.order {
			for int(r.order[slot]) != slot {
				other := int(r.order[slot])
				swap(buf[slot*fragmentSize:], buf[other*fragmentSize:], fragmentSize)
				r.order[slot], r.order[other] = r.order[other], r.order[slot]
			}
		}
	}
	return buf[:(r.count-1)*fragmentSize+r.lastSize]
}

// swap exchanges the first n bytes of a and b. There are as many: where the last
// fragment, which may be shorter, has come before others, one of those is behind
// it in the buffer.
func swap(a, b []byte, n int) {
	var tmp [512]byte
	for i := 0; i < n; i += len(tmp) {
		x, y := a[i:min(i+len(tmp), n)], b[i:min(i+len(tmp), n)]
		m := copy(tmp[:], x)
		copy(x, y)
		copy(y, tmp[:m])
	}
}

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

// noReassemblies are those of all endpoints that have had no fragment. They
// are never written to.
var noReassemblies reassemblies

// reassemblyWindow returns how many packets may lack fragments.
func (e *Endpoint) reassemblyWindow() int {
	return or(e.cfg.ReassemblyBuffer, defaultReassemblyBuffer)
}

func (p *reassemblies) slot(s uint16) **reassembly {
	if n := len(p.table); n&(n-1) == 0 {
		return &p.table[int(s)&(n-1)]
	}
	return &p.table[int(s)%len(p.table)]
}

func (p *reassemblies) find(s uint16) *reassembly {
	if p.open == 0 {
		return nil
	}
	if r := *p.slot(s); r != nil && r.sequence == s {
		return r
	}
	return nil
}

// receiveFragment takes a fragment.
func (e *Endpoint) receiveFragment(datagram []byte) Verdict {
	if r := e.parts.inOrder; r != nil && e.isNext(r, datagram) && r.storeNext(datagram, int(e.fragmentSize)) {
		return e.added(r)
	}
	var f Fragment
	if f.parse(datagram, int(e.maxFragments), int(e.fragmentSize)) != 0 {
		e.rarely().faults.FragmentsInvalid++
		return Invalid
	}
	r, v := e.place(&f)
	if v == NoRoom && e.cfg.AckRefused && e.refusedFragment(&f) {
		r, v = e.place(&f)
	}
	if r == nil {
		if v != Duplicate {
			e.rarely().faults.FragmentsInvalid++
		}
		return v
	}
	r.store(&f, int(e.fragmentSize))
	if !r.shuffled && r.got == len(r.order) {
		e.parts.inOrder = r
	} else {
		e.parts.inOrder = nil
	}
	return e.added(r)
}

// place returns the reassembly that a fragment belongs to, with room for it. It
// returns nil and why if the fragment is refused.
func (e *Endpoint) place(f *Fragment) (*reassembly, Verdict) {
	if e.received.unmet {
		e.begin(f.Sequence)
	}
	if e.received.seen.Knows(f.Sequence) && !e.anewBy(f) {
		return nil, Duplicate
	}
	r := e.parts.find(f.Sequence)
	if r == nil {
		if e.cfg.JumpGuard {
			if v, believed := e.guard(f.Sequence); !believed && !e.anewBy(f) {
				return nil, v
			}
		}
		return e.openReassembly(f)
	}
	switch {
	case r.count != f.Count:
		return nil, Invalid
	case r.has(f.ID):
		return nil, Duplicate
	}
	if need := r.room(len(f.Data), int(e.fragmentSize)); need > len(r.buf) && !e.growReassembly(r, need) {
		return nil, NoRoom
	}
	return r, FragmentStored
}

// refusedFragment handles the acks of the packet of a fragment for which there
// was no memory. It reports whether they are the first of the other side, for
// which there may be memory then.
func (e *Endpoint) refusedFragment(f *Fragment) bool {
	before := e.Acked()
	if f.ID == 0 {
		e.handleAcks(f.Header, true)
	} else if r := e.parts.find(f.Sequence); r != nil && r.headerSize > 0 {
		e.handleAcks(r.header, true)
	}
	e.introduce()
	return e.Acked() && !before
}

// isNext reports whether the datagram, a fragment by its first byte, belongs
// to the packet of r, and that packet has not come whole in the meantime.
func (e *Endpoint) isNext(r *reassembly, b []byte) bool {
	return len(b) >= FragmentHeaderSize &&
		r.sequence == uint16(b[1])|uint16(b[2])<<8 &&
		!e.received.seen.Knows(r.sequence)
}

// added takes the packet of r if the fragment that was added completes it.
func (e *Endpoint) added(r *reassembly) Verdict {
	v := FragmentStored
	if r.got == r.count {
		v = e.complete(r)
		e.closeReassembly(r)
	}
	e.counters.fragmentsReceived++
	return v
}

// complete takes a packet whose fragments are all here.
func (e *Endpoint) complete(r *reassembly) Verdict {
	payload := r.payload(int(e.fragmentSize))
	size := r.headerSize + len(payload)
	if size > int(e.maxPacket)+datagramSlack {
		e.rarely().faults.PacketsTooLargeToReceive++
		return TooLarge
	}
	e.counters.packetsReceived++
	return e.receivePacket(r.header, payload, size, r.openedAt)
}

// openReassembly makes a reassembly for the packet of fragment f, with room
// for it. It returns nil and why if that is not to be had.
func (e *Endpoint) openReassembly(f *Fragment) (*reassembly, Verdict) {
	if !seq.AheadOf(f.Sequence, e.partsNext) && seq.StaleIn(f.Sequence, e.partsNext, e.reassemblyWindow()) {
		return nil, Stale
	}
	if !e.ensureTable() {
		return nil, NoRoom
	}
	r := e.newReassembly()
	if r == nil {
		return nil, NoRoom
	}
	r.restart(f, e.now)
	if len(f.Data) > len(r.buf) && !e.growReassembly(r, len(f.Data)) {
		e.recycle(r)
		return nil, NoRoom
	}
	e.forwardReassemblies(f.Sequence)
	p := e.parts
	slot := p.slot(f.Sequence)
	if *slot != nil {
		e.closeReassembly(*slot)
	}
	*slot = r
	p.open++
	if !p.timed {
		p.timed, p.since = true, e.now
	}
	e.forwardReceived(f.Sequence)
	return r, FragmentStored
}

// forwardReassemblies makes s the newest sequence of the window, and gives up
// what that leaves behind.
func (e *Endpoint) forwardReassemblies(s uint16) {
	if !seq.AheadOf(s, e.partsNext) {
		return
	}
	if table := e.parts.table; e.parts.open > 0 {
		first := int(e.partsNext)
		for i := range min(int(s-e.partsNext)+1, len(table)) {
			if r := table[(first+i)%len(table)]; r != nil {
				e.closeReassembly(r)
			}
		}
	}
	e.partsNext = s + 1
}

// closeReassembly takes r out of the table, if it still is there.
func (e *Endpoint) closeReassembly(r *reassembly) {
	slot := e.parts.slot(r.sequence)
	if *slot != r {
		return
	}
	*slot = nil
	e.parts.open--
	if e.parts.inOrder == r {
		e.parts.inOrder = nil
	}
	e.recycle(r)
}

// dropReassemblies gives up all that is open.
func (e *Endpoint) dropReassemblies() {
	if e.parts.open == 0 {
		return
	}
	for _, r := range e.parts.table {
		if r != nil {
			e.closeReassembly(r)
		}
	}
}

// ReassemblyDue returns how long it is until ExpireReassemblies may have
// something to do, and whether it will: with Config.ReassemblyTimeout, after
// memory has been taken for a packet that lacks fragments. A wait of 0 is now.
func (e *Endpoint) ReassemblyDue(now time.Time) (wait time.Duration, pending bool) {
	if !e.parts.timed || e.cfg.ReassemblyTimeout <= 0 {
		return 0, false
	}
	e.advance(now)
	return max(0, time.Duration(e.parts.since-e.now)+e.cfg.ReassemblyTimeout), true
}

// ExpireReassemblies gives up the packets that have lacked fragments for longer
// than Config.ReassemblyTimeout, as Update does too.
func (e *Endpoint) ExpireReassemblies(now time.Time) {
	e.advance(now)
	e.expireReassemblies()
}

func (e *Endpoint) expireReassemblies() {
	limit := e.now - int64(e.cfg.ReassemblyTimeout)
	p := e.parts
	if !p.timed || e.cfg.ReassemblyTimeout <= 0 || p.since > limit {
		return
	}
	p.since = e.now
	for _, r := range p.table {
		switch {
		case r == nil:
		case r.openedAt <= limit:
			e.closeReassembly(r)
		default:
			p.since = min(p.since, r.openedAt)
		}
	}
	p.timed = p.open > 0
}
