package reliable

import (
	"math"
	"math/bits"
	"time"

	"volley/internal/seq"
)

const (
	minSentWindow   = 4                      // entries of a growing window at first
	firstSentWindow = 16                     // a growing window reaches this in any case
	trustedWindow   = 256                    // a growing window reaches this whatever the age of its packets
	growthAge       = int64(2 * time.Second) // beyond it, it grows for packets younger than this
)

const (
	lossDistance = 64                     // sequences behind the peer's ack at which a packet is presumed lost
	overdueAge   = int64(2 * time.Second) // age beyond which an undecided packet counts as lost in PacketLoss, if not below twice RTT
)

// A header names a packet with a bit of ack_bits. Unnamed packets are lost if sent earlier
// than a named one by more than overtaking takes (RFC 9002, section 6.1.2). Both times are
// ours.
const (
	marginMin   = int64(5 * time.Millisecond)
	marginRatio = 9  // eighths of the round-trip time, times the scale
	scaleUnit   = 64 // a scale of 1
	maxScale    = 16 * scaleUnit
	scaleDecay  = 16   // lost packets after which the scale falls by a 64th
	maxPassedBy = 1024 // sequences after which a packet is lost whatever the times
)

// mostDecided is how many packets a header passes by at once, so that none takes long. Those
// that are left wait for the next header that acknowledges something, or for their age.
const mostDecided = 256

// An outbound numbers the packets sent, and remembers the newest of them until their
// fates are decided. Where the size of its window is a power of two, and fixed, the sums
// over its older half are kept up to date as it moves. Other sizes leave that to a
// scan, and to a seq.Window which packets are present.
//
// Methods that may presume packets lost are given a function that tells of each.
// It may send, and so move the window.
type outbound struct {
	first   uint64       // id of the first packet; its low 16 bits are the sequence
	nextID  uint64       // of the next packet
	ring    []sentRecord // by sequence modulo its length; nil before the first packet
	pending seq.Bits     // packets not acknowledged; for powers of two only
	odd     *seq.Window  // for other sizes only
	count   int32        // packets present, the newest ones; for powers of two only

	open      int32 // packets whose fate is undecided
	scale     int16 // by how much the loss margin has grown, see scaleUnit
	falls     uint8 // packets presumed lost since the scale changed
	halved    bool  // there is an older half of which sums are kept
	outdated  outdated
	decidedTo uint64 // packets before this one are decided, or out of the window
	overdue   overdue
	recent    recentFates
	ackedAt   int64 // when the newest packet was sent that is acknowledged
	claims    claims
	half      halfSums
}

// idOf returns the id of sequence s, which was sent among the last 65536.
func (o *outbound) idOf(s uint16) uint64 {
	last := o.nextID - 1
	return last - uint64(uint16(last)-s)
}

func (o *outbound) record(s uint16) *sentRecord {
	if o.odd == nil {
		return &o.ring[int(s)&(len(o.ring)-1)]
	}
	return &o.ring[int(s)%len(o.ring)]
}

// start makes first the id of the first packet.
func (o *outbound) start(first uint64) { o.first, o.nextID = first, first }

// restart forgets all packets, which are decided, and begins with the first sequence.
func (o *outbound) restart() {
	o.nextID += uint64(uint16(o.first) - uint16(o.nextID))
	o.first = o.nextID
	o.claims = claims{}
	o.empty()
}

func (o *outbound) empty() {
	o.count, o.open, o.half, o.overdue = 0, 0, halfSums{}, overdue{}
	o.recent, o.ackedAt = 0, 0
	if o.odd != nil {
		o.odd.Restart(uint16(o.nextID))
	}
}

// random reports whether the first sequence tells apart peers with the same address.
func (o *outbound) random() bool { return uint16(o.first) != 0 }

// sent returns how many sequences were used.
func (o *outbound) sent() uint64 { return o.nextID - o.first }

// push adds a packet to a window of a power of two, and returns the record that falls out.
func (o *outbound) push(s uint16, r sentRecord) (out sentRecord, evicted bool) {
	n := len(o.ring)
	slot := &o.ring[int(s)&(n-1)]
	half := n / 2
	if o.halved && int(o.count) >= half {
		o.half.add(&o.ring[(int(s)-half)&(n-1)], 1)
	}
	if int(o.count) == n {
		out, evicted = *slot, true
		if o.halved {
			o.half.add(slot, -1)
		}
	} else {
		o.count++
	}
	slot.set(r)
	o.pending.Set(s)
	return out, evicted
}

// unacked returns the packets in ackBits that are in the window and not acknowledged.
func (o *outbound) unacked(ack uint16, ackBits uint32) uint32 {
	if o.odd != nil {
		return o.unackedOdd(ack, ackBits)
	}
	if o.count == 0 {
		return 0
	}
	return ackBits & o.pending.Last32(ack) & validAcks(uint16(o.nextID)-1-ack, int(o.count))
}

// unackedOdd is unacked for a size that is not a power of two.
func (o *outbound) unackedOdd(ack uint16, ackBits uint32) uint32 {
	var mask uint32
	for b := ackBits; b != 0; b &= b - 1 {
		i := bits.TrailingZeros32(b)
		if s := ack - uint16(i); o.odd.Exists(s) && o.record(s).mark&markAcked == 0 {
			mask |= 1 << i
		}
	}
	return mask
}

// ensure makes the window if there is none yet. It reports whether there is one.
func (o *outbound) ensure(g *env) bool {
	if o.ring != nil {
		return true
	}
	n := or(g.cfg.SentBuffer, defaultSentBuffer)
	if g.grows() {
		n = minSentWindow
	}
	if !g.take(sentCharge(n)) {
		return false
	}
	g.hold(sentBytes(n) - sentCharge(n))
	o.ring = make([]sentRecord, n)
	o.halved = n&(n-1) == 0 && n > 1 && !g.grows() // growing windows go by other figures
	if n&(n-1) == 0 {
		o.pending = seq.MakeBits(n)
	} else {
		o.odd = new(seq.Window)
		o.odd.Init(n, n)
		o.odd.Restart(uint16(o.nextID))
	}
	return true
}

func (o *outbound) free(g *env) {
	if n := len(o.ring); n > 0 {
		g.give(sentCharge(n))
		g.hold(sentCharge(n) - sentBytes(n))
		o.ring, o.pending, o.odd = nil, seq.Bits{}, nil
		o.empty()
	}
}

// resize gives the window n entries, a power of two, if there is memory. The newest stay.
func (o *outbound) resize(g *env, n int) {
	delta := sentCharge(n) - sentCharge(len(o.ring))
	if !g.take(max(0, delta)) {
		return
	}
	g.give(max(0, -delta))
	g.hold(sentBytes(n) - sentBytes(len(o.ring)) - delta)
	count := min(int(o.count), n)
	ring := make([]sentRecord, n)
	for i := range count {
		s := uint16(o.nextID) - 1 - uint16(i)
		ring[int(s)&(n-1)] = *o.record(s)
	}
	o.pending = o.pending.Resize(n, uint16(o.nextID)-1, count)
	o.ring, o.count = ring, int32(count)
}

// grow doubles a window that is full at first, or whose older half a packet enters undecided.
func (o *outbound) grow(g *env) {
	n := len(o.ring)
	switch {
	case int(o.count) < n/2 || n >= g.cfg.MaxWindow:
		return
	case n < firstSentWindow:
		if int(o.count) < n {
			return
		}
		o.resize(g, 2*n)
		if n = len(o.ring); n < firstSentWindow {
			return
		}
	}
	r := o.record(uint16(o.nextID) - uint16(n/2))
	if r.undecided() && (n < trustedWindow || g.now-r.at < growthAge) {
		o.resize(g, 2*n)
	}
}

// next records a packet of size bytes, and returns the undecided one that it pushes out.
func (o *outbound) next(g *env, size int) (lostID uint64, lost bool) {
	s := uint16(o.nextID)
	r := sentRecord{at: g.now, bytes: g.headered(size)}
	if size == 0 {
		r.mark = markEmpty
	} else {
		o.open++
	}
	if o.odd != nil {
		return o.nextOdd(s, r)
	}
	if g.grows() {
		o.grow(g)
	}
	out, evicted := o.push(s, r)
	if evicted && out.undecided() {
		id := o.nextID - uint64(len(o.ring))
		o.open--
		o.overdue.decided(id)
		o.recent.add(true)
		lostID, lost = id, true
	}
	o.nextID++
	return lostID, lost
}

// nextOdd is next for a size that is not a power of two.
func (o *outbound) nextOdd(s uint16, r sentRecord) (lostID uint64, lost bool) {
	slot := o.record(s)
	if old, ok := o.odd.Occupant(s); ok && slot.undecided() {
		o.open--
		lostID, lost = o.idOf(old), true
	}
	o.odd.Insert(s)
	slot.set(r)
	o.nextID++
	return lostID, lost
}

// skip leaves a sequence out. There was no packet, so nothing acknowledges it.
func (o *outbound) skip(g *env) (lostID uint64, lost bool) {
	lostID, lost = o.next(g, 0)
	s := uint16(o.nextID) - 1
	o.pending.Clear(s)
	o.record(s).void()
	return lostID, lost
}

// An acknowledged packet is one that a header has acknowledged for the first time.
type acknowledged struct {
	id    uint64
	rtt   int64  // from Send to now
	bytes uint32 // with lower headers
	was   uint32 // its mark before
}

func (o *outbound) acknowledge(g *env, s uint16) acknowledged {
	r := o.record(s)
	id := o.idOf(s)
	a := acknowledged{id, g.now - r.at, r.bytes, r.mark}
	if o.odd == nil {
		o.pending.Clear(s)
	}
	o.ackedAt = max(o.ackedAt, r.at)
	r.ack(a.rtt)
	if o.halved && int(o.nextID-1-id) >= len(o.ring)/2 {
		o.half.addAcked(r, 1)
	}
	if a.was&markLost != 0 {
		o.recent.revoke()
		if g.cfg.AckDelay > 0 {
			o.overtaken()
		}
	}
	return a
}

// overtaken notes that packets overtake each other by more than was thought.
func (o *outbound) overtaken() {
	o.scale = min((o.scale+scaleUnit)*5/4-scaleUnit, maxScale-scaleUnit)
}

// settle takes an acknowledged packet out of those whose fate is open.
func (o *outbound) settle(a acknowledged) {
	o.recent.add(false)
	o.open--
	o.overdue.decided(a.id)
}

// prompt returns the round-trip time by an acknowledgement that left as s arrived. One that
// comes again a usual round trip later is from a peer that does not know what it says.
func (o *outbound) prompt(g *env, s uint16, usual int64) (rtt int64, ok bool) {
	if d := int(uint16(o.nextID) - 1 - s); d >= int(o.count) {
		return 0, false
	}
	r := o.record(s)
	if r.mark&markEmpty != 0 || r.mark&markAcked != 0 && g.now-r.at-int64(r.rtt()) > usual {
		return 0, false
	}
	return g.now - r.at, true
}

// span returns how far back the window reaches; further around 0 at odd sizes.
func (o *outbound) span() int {
	if o.odd == nil {
		return int(o.count)
	}
	return int(min(uint64(2*len(o.ring)), o.sent()))
}

// has reports whether s, one of the last span packets, is present.
func (o *outbound) has(s uint16) bool { return o.odd == nil || o.odd.Exists(s) }

// each calls f for the packets in the window, oldest first.
func (o *outbound) each(f func(id uint64, r *sentRecord)) {
	for id, end := o.nextID-uint64(o.span()), o.nextID; id != end; id++ {
		if o.has(uint16(id)) {
			f(id, o.record(uint16(id)))
		}
	}
}

// lose presumes packet id lost.
func (o *outbound) lose(id uint64, r *sentRecord, lost func(id uint64)) {
	r.lose()
	o.open--
	o.overdue.decided(id)
	o.recent.add(true)
	lost(id)
}

// loseAll presumes lost all packets whose fate is open.
func (o *outbound) loseAll(lost func(id uint64)) {
	o.each(func(id uint64, r *sentRecord) {
		if r.undecided() {
			o.lose(id, r, lost)
		}
	})
}

// losePassed presumes lost what the peer's ack has passed and is not young.
func (o *outbound) losePassed(now int64, lost func(id uint64)) {
	for id := max(o.decidedTo, o.nextID-uint64(o.span())); id+1 < o.overdue.heard; id++ {
		if r := o.record(uint16(id)); r.undecided() && now-r.at > growthAge {
			o.lose(id, r, lost)
		}
	}
}

// loseBefore presumes lost what is undecided at least distance before the packet id-1.
func (o *outbound) loseBefore(id, distance uint64, lost func(id uint64)) {
	o.decidedTo = max(o.decidedTo, o.nextID-uint64(o.span()))
	for end := o.decidedTo + mostDecided; id > distance && o.decidedTo < min(id-distance, end); {
		i := o.decidedTo
		o.decidedTo++
		if r := o.record(uint16(i)); r.undecided() && o.has(uint16(i)) {
			o.lose(i, r, lost)
		}
	}
}

// loseFarBehind presumes lost the packets that are 64 or more behind the peer's ack.
func (o *outbound) loseFarBehind(ack uint16, lost func(id uint64)) {
	d := uint64(uint16(o.nextID) - 1 - ack)
	if d < uint64(o.span()) {
		o.overdue.passed(o.nextID - d)
		o.loseBefore(o.nextID-d, lossDistance, lost)
	}
}

// margin returns by how much later a packet must have left to show an earlier loss.
func (o *outbound) margin(rtt, vary int64) int64 {
	return max(marginMin, (rtt*marginRatio/8+vary)*int64(o.scale+scaleUnit)/scaleUnit)
}

// passBy notes that a header has passed packets by, and reports whether one is undecided.
func (o *outbound) passBy(h Header, lost func(id uint64)) bool {
	d := uint64(uint16(o.nextID) - 1 - h.newestNamed())
	if d >= uint64(o.count) {
		return false
	}
	id := o.nextID - 1 - d
	o.overdue.passed(id + 1)
	o.loseBefore(id+1, maxPassedBy, lost)
	o.decidedTo = max(o.decidedTo, o.nextID-uint64(o.count))
	for end := min(id, o.decidedTo+mostDecided); o.decidedTo < end && !o.record(uint16(o.decidedTo)).undecided(); {
		o.decidedTo++
	}
	return o.decidedTo < id
}

// losePassedBy presumes lost what a header has passed by, after passBy.
func (o *outbound) losePassedBy(h Header, rtt, vary int64, lost func(id uint64)) {
	named := h.newestNamed()
	limit := o.record(named).at - o.margin(rtt, vary)
	id := o.nextID - 1 - uint64(uint16(o.nextID)-1-named)
	for end := min(id, o.decidedTo+mostDecided); o.decidedTo < end; o.decidedTo++ {
		r := o.record(uint16(o.decidedTo))
		if !r.undecided() {
			continue
		}
		if r.at > limit {
			break
		}
		if o.falls++; o.falls >= scaleDecay && o.scale > 0 {
			o.falls, o.scale = 0, o.scale-1-o.scale/scaleUnit
		}
		o.lose(o.decidedTo, r, lost)
	}
}

// age looks at packets that have grown old, and presumes lost those far too old.
func (o *outbound) age(g *env, old int64, lost func(id uint64)) {
	first := o.nextID - uint64(o.span())
	for id := max(o.overdue.to, first); id < o.nextID; id++ {
		r := o.record(uint16(id))
		if g.now-r.at <= old {
			break
		}
		o.overdue.old(id, r.undecided())
	}
	for o.decidedTo = max(o.decidedTo, first); o.decidedTo < o.nextID; o.decidedTo++ {
		r := o.record(uint16(o.decidedTo))
		if r.undecided() {
			if g.now-r.at < g.lostAfter() {
				break
			}
			o.lose(o.decidedTo, r, lost)
		}
	}
}

// lossDue returns when age alone shows that a packet is lost, if there is one.
func (o *outbound) lossDue(g *env) (at int64, pending bool) {
	limit := g.lostAfter()
	if o.open == 0 || !g.grows() || limit == math.MaxInt64 {
		return 0, false
	}
	o.decidedTo = max(o.decidedTo, o.nextID-uint64(o.count))
	for ; o.decidedTo < o.nextID; o.decidedTo++ {
		if r := o.record(uint16(o.decidedTo)); r.undecided() {
			return r.at + limit, true
		}
	}
	return 0, false
}

// shrink gives back a fixed window that no ack concerns, or what is decided of a growing one.
func (o *outbound) shrink(g *env, old int64, lost func(id uint64)) {
	switch {
	case o.ring == nil:
	case g.grows():
		o.age(g, old, lost)
		o.losePassed(g.now, lost)
		o.recent = 0
		o.trim(g)
	default:
		ackable := false
		o.each(func(_ uint64, r *sentRecord) { ackable = ackable || r.mark&markAcked == 0 })
		if !ackable {
			o.free(g)
		}
	}
}

// trim drops packets older than all undecided ones, and shrinks a growing window. Those that are
// left stay in its newer half, because it grows when an undecided one leaves that.
func (o *outbound) trim(g *env) {
	keep := 0
	for d := int(o.count) - 1; d >= 0; d-- {
		if o.record(uint16(o.nextID) - 1 - uint16(d)).undecided() {
			keep = d + 1
			break
		}
	}
	n := minSentWindow
	if keep > n {
		n = 1 << bits.Len(uint(keep-1))
	}
	if n >= firstSentWindow {
		n = min(2*n, len(o.ring))
	}
	if keep == int(o.count) && n == len(o.ring) {
		return
	}
	o.count = int32(keep)
	o.resize(g, n)
}
