package reliable

import (
	"math/bits"
	"time"
	"unsafe"

	"volley/internal/seq"
)

const (
	minSentWindow   = 4                      // entries of a growing window at first
	firstSentWindow = 16                     // a growing window reaches this in any case
	trustedWindow   = 256                    // a growing window reaches this whatever the age of its packets
	growthAge       = int64(2 * time.Second) // beyond it, it grows for packets younger than this
)

// Flags of a sentRecord.
const (
	markAcked = 1 << iota // acknowledged
	markLost              // presumed lost
	markEmpty             // an ack-only packet, which has no fate
	markBits  = iota      // what is above them is the round-trip time in microseconds
)

// A sentRecord is what is remembered of a packet sent.
type sentRecord struct {
	at    int64  // time of Send
	bytes uint32 // payload and lower headers
	mark  uint32
}

const sentRecordSize = int(unsafe.Sizeof(sentRecord{}))

func (r *sentRecord) undecided() bool { return r.mark&(markAcked|markLost|markEmpty) == 0 }

func (r *sentRecord) setRTT(rtt int64) {
	us := min(rtt/1000, 1<<(32-markBits)-1)
	r.mark |= uint32(us) << markBits
}

func (r *sentRecord) rtt() time.Duration {
	return time.Duration(r.mark>>markBits) * time.Microsecond
}

// A sentWindow remembers the newest packets sent. Where its size is a power of
// two, and fixed, the sums over its older half are kept up to date as it moves. Other
// sizes leave that to a scan, and to a seq.Window which packets are present.
type sentWindow struct {
	ring    []sentRecord // by sequence modulo its length; nil before the first packet
	pending seq.Bits     // packets not acknowledged; for powers of two only
	odd     *seq.Window  // for other sizes only
	count   int          // packets present, the newest ones; for powers of two only

	open      int32  // packets whose fate is undecided
	scale     int16  // by how much the loss margin has grown, see scaleUnit
	falls     uint8  // packets presumed lost since the scale changed
	halved    bool   // there is an older half of which sums are kept
	decidedTo uint64 // packets before this one are decided, or out of the window
	overdue   overdue
	recent    recentFates
	ackedAt   int64 // when the newest packet was sent that is acknowledged
	half      halfSums
}

// halfSums are sums over the older half of a sentWindow.
type halfSums struct {
	present, acked int32
	bytes          int64
	ackedBytes     int64
}

func (h *halfSums) add(r *sentRecord, sign int32) {
	h.present += sign
	h.bytes += int64(sign) * int64(r.bytes)
	if r.mark&markAcked != 0 {
		h.addAcked(r, sign)
	}
}

func (h *halfSums) addAcked(r *sentRecord, sign int32) {
	h.acked += sign
	h.ackedBytes += int64(sign) * int64(r.bytes)
}

func (w *sentWindow) record(s uint16) *sentRecord {
	if w.odd == nil {
		return &w.ring[int(s)&(len(w.ring)-1)]
	}
	return &w.ring[int(s)%len(w.ring)]
}

func (w *sentWindow) reset() {
	w.count, w.open, w.half, w.overdue = 0, 0, halfSums{}, overdue{}
	w.recent, w.ackedAt = 0, 0
	if w.odd != nil {
		w.odd.Reset()
	}
}

// push adds a packet to a window that is a power of two. It returns the record
// that it pushes out, if that was present.
func (w *sentWindow) push(s uint16, r sentRecord) (out sentRecord, evicted bool) {
	n := len(w.ring)
	slot := &w.ring[int(s)&(n-1)]
	half := n / 2
	if w.halved && w.count >= half {
		w.half.add(&w.ring[(int(s)-half)&(n-1)], 1)
	}
	if w.count == n {
		out, evicted = *slot, true
		if w.halved {
			w.half.add(slot, -1)
		}
	} else {
		w.count++
	}
	*slot = r
	w.pending.Set(s)
	return out, evicted
}

// inOlderHalf reports whether the packet that is d before the newest is in the
// older half of the window.
func (w *sentWindow) inOlderHalf(d int) bool {
	return w.halved && d >= len(w.ring)/2
}

// unacked returns which of the packets that ackBits covers are present and not
// acknowledged. next is one past the newest.
func (w *sentWindow) unacked(next, ack uint16, ackBits uint32) uint32 {
	if w.count == 0 {
		return 0
	}
	return ackBits & w.pending.Last32(ack) & validAcks(next-1-ack, w.count)
}

// unacked returns which of the packets that ackBits covers are in the window and not
// acknowledged.
func (e *Endpoint) unacked(ack uint16, ackBits uint32) uint32 {
	if e.sent.odd == nil {
		return e.sent.unacked(uint16(e.nextID), ack, ackBits)
	}
	return e.sent.unackedOdd(ack, ackBits)
}

// unackedOdd is unacked for a size that is not a power of two.
func (w *sentWindow) unackedOdd(ack uint16, ackBits uint32) uint32 {
	var mask uint32
	for b := ackBits; b != 0; b &= b - 1 {
		i := bits.TrailingZeros32(b)
		if s := ack - uint16(i); w.odd.Exists(s) && w.record(s).mark&markAcked == 0 {
			mask |= 1 << i
		}
	}
	return mask
}

// validAcks returns which bits of an ack_bits field stand for one of the count
// newest packets, where ack itself is d before the newest.
func validAcks(d uint16, count int) uint32 {
	if int(d) < count {
		return 1<<min(32, count-int(d)) - 1
	}
	if ahead := 65536 - int(d); ahead < 32 {
		return (1<<min(32, count) - 1) << ahead
	}
	return 0
}

// ensureSent makes the window of sent packets, of which there is none yet. It
// reports whether there is one.
func (e *Endpoint) ensureSent() bool {
	n := or(e.cfg.SentBuffer, defaultSentBuffer)
	if e.grows() {
		n = minSentWindow
	}
	if !e.take(sentCharge(n)) {
		return false
	}
	e.mem += sentBytes(n) - sentCharge(n)
	e.sent.ring, e.sent.halved = make([]sentRecord, n), e.halved(n)
	if n&(n-1) == 0 {
		e.sent.pending = seq.MakeBits(n)
	} else {
		e.sent.odd = new(seq.Window)
		e.sent.odd.Init(n, n)
		e.sent.odd.Restart(uint16(e.nextID))
	}
	return true
}

// halved reports whether a window of n packets has an older half of which sums are
// kept. Growing windows go by other figures.
func (e *Endpoint) halved(n int) bool {
	return n&(n-1) == 0 && n > 1 && !e.grows()
}

// sentBytes is the memory of a window of n packets.
func sentBytes(n int) int {
	if n&(n-1) != 0 {
		return n * (sentRecordSize + 4)
	}
	return n*sentRecordSize + max(64, n)/8
}

// sentCharge is the part of it that the first few packets do not need.
func sentCharge(n int) int { return max(0, sentBytes(n)-sentBytes(firstSentWindow)) }

func (e *Endpoint) freeSent() {
	if n := len(e.sent.ring); n > 0 {
		e.give(sentCharge(n))
		e.mem -= sentBytes(n) - sentCharge(n)
		e.sent.ring, e.sent.pending, e.sent.odd = nil, seq.Bits{}, nil
		e.sent.reset()
	}
}

// resizeSent gives the window n entries, a power of two, if there is memory, and keeps as many of
// the newest packets as fit.
func (e *Endpoint) resizeSent(n int) {
	w := &e.sent
	delta := sentCharge(n) - sentCharge(len(w.ring))
	if !e.take(max(0, delta)) {
		return
	}
	e.give(max(0, -delta))
	e.mem += sentBytes(n) - sentBytes(len(w.ring)) - delta
	count := min(w.count, n)
	ring := make([]sentRecord, n)
	for i := range count {
		s := uint16(e.nextID) - 1 - uint16(i)
		ring[int(s)&(n-1)] = *w.record(s)
	}
	w.pending = w.pending.Resize(n, uint16(e.nextID)-1, count)
	w.ring, w.count = ring, count
}

// growSent doubles a growing window when it is full for the first few times, and
// when a packet that is still undecided is about to enter its older half.
func (e *Endpoint) growSent() {
	w := &e.sent
	n := len(w.ring)
	switch {
	case w.count < n/2 || n >= e.cfg.MaxWindow:
		return
	case n < firstSentWindow:
		if w.count == n {
			e.resizeSent(2 * n)
		}
		return
	}
	r := w.record(uint16(e.nextID) - uint16(n/2))
	if r.undecided() && (n < trustedWindow || e.now-r.at < growthAge) {
		e.resizeSent(2 * n)
	}
}

// remember records the packet about to be sent. It returns the id of the one
// that this pushes out, if the fate of that was open.
func (e *Endpoint) remember(size int) (lostID uint64, lost bool) {
	if t := e.talk; t != nil {
		t.heardBits = 0
	}
	s := uint16(e.nextID)
	r := sentRecord{at: e.now, bytes: uint32(e.headerSize) + uint32(size)}
	if size == 0 {
		r.mark = markEmpty
	} else {
		e.sent.open++
	}
	if e.sent.odd != nil {
		return e.rememberOdd(s, r)
	}
	if e.grows() {
		e.growSent()
	}
	out, evicted := e.sent.push(s, r)
	if evicted && out.undecided() {
		id := e.nextID - uint64(len(e.sent.ring))
		e.sent.open--
		e.sent.overdue.decided(id)
		e.sent.recent.add(true)
		return id, true
	}
	return 0, false
}

func (e *Endpoint) rememberOdd(s uint16, r sentRecord) (lostID uint64, lost bool) {
	w := &e.sent
	slot := w.record(s)
	if old, ok := w.odd.Occupant(s); ok && slot.undecided() {
		w.open--
		lostID, lost = e.idOf(old), true
	}
	w.odd.Insert(s)
	*slot = r
	return lostID, lost
}

// handleAcks learns from the header of an accepted packet, one with a message or
// without.
func (e *Endpoint) handleAcks(h Header, message bool) {
	told := h
	if t := e.talk; t != nil {
		if message && h.AckBits != 0 && h.AckBits == t.heardBits && h.Ack == t.heardAck {
			return // as in a flood
		}
		t.heardBits = 0
	}
	prompt := false
	if !message && (e.cfg.AckDelay > 0 || e.cfg.AckGuard) {
		prompt = e.cfg.AckDelay > 0 && h.AckBits&1 != 0
		h = h.plain() // as written, its ack may be of a packet that is yet to be sent
	}
	if e.cfg.AckGuard && !e.credible(&h, message) {
		return
	}
	mask, next := e.unacked(h.Ack, h.AckBits), e.nextID
	if t := e.talk; t != nil && message && e.cfg.AckBuffer < 0 {
		t.heardAck, t.heardBits = told.Ack, told.AckBits
	}
	if prompt {
		e.samplePrompt(h.Ack)
	}
	news := mask != 0
	for ; mask != 0; mask &= mask - 1 {
		s := h.Ack - uint16(bits.TrailingZeros32(mask))
		if !e.listAck(s) {
			continue
		}
		e.acked(s)
		if e.nextID != next { // the FateHandler has sent something, which may have taken a record of the others
			next = e.nextID
			mask &= e.unacked(h.Ack, h.AckBits) | mask&-mask // the bit of s, which the loop takes out, stays
		}
	}
	switch {
	case e.cfg.AckDelay > 0:
		if news {
			e.losePassedBy(h)
		}
	case e.fates != nil || e.grows():
		e.presumeLost(h.Ack)
	}
}

// samplePrompt takes a round-trip time from a packet that left when s arrived.
// The first such sample ends those of packets that may have waited. A packet
// that names s a round trip after another one did comes from a peer that does
// not know what it says with that.
func (e *Endpoint) samplePrompt(s uint16) {
	if d := int(uint16(e.nextID) - 1 - s); d >= e.sent.count {
		return
	}
	r := e.sent.record(s)
	if r.mark&markEmpty != 0 || r.mark&markAcked != 0 && e.now-r.at-int64(r.rtt()) > e.roundTrip() {
		return
	}
	if !e.prompts {
		e.prompts = true
		e.forgetRTT()
	}
	rtt := e.now - r.at
	e.sampleRTT(s, rtt)
	e.talking().measured(rtt, e.roundTrip())
}

// acked notes that packet s was acknowledged. Of those that acknowledged nothing,
// since they left before anything was received, the time is no sample: to whoever
// acknowledges nothing the other side does not answer at once, see noteArrival.
func (e *Endpoint) acked(s uint16) {
	w := &e.sent
	e.counters.packetsAcked++
	r := w.record(s)
	before := r.mark
	id := e.idOf(s)
	d := int(e.nextID - 1 - id)
	if w.odd == nil {
		w.pending.Clear(s)
	}
	w.ackedAt = max(w.ackedAt, r.at)
	rtt := e.now - r.at
	r.mark |= markAcked
	r.setRTT(rtt)
	if e.grows() {
		e.flowing().acked.add(r.bytes, e.now)
	} else if w.inOlderHalf(d) {
		w.half.addAcked(r, 1)
	}
	if e.cfg.AckDelay == 0 || !e.prompts && before&markEmpty == 0 && id >= uint64(e.rtt.blind) {
		e.sampleRTT(s, rtt)
	}
	if e.talk != nil {
		e.talk.confirmed(id)
	}
	if before&markLost != 0 {
		w.recent.revoke()
	}
	e.noteLate(before, rtt)
	if before&(markLost|markEmpty) == 0 {
		w.recent.add(false)
		w.open--
		w.overdue.decided(id)
		e.tell(id, FateDelivered, time.Duration(rtt))
	}
}

// sentSpan returns how many packets back the window may reach. At a size that
// is not a power of two, some stay for longer around sequence 0.
func (e *Endpoint) sentSpan() int {
	if e.sent.odd == nil {
		return e.sent.count
	}
	return int(min(uint64(2*len(e.sent.ring)), e.nextID))
}

// has reports whether s, one of the last sentSpan packets, is present.
func (w *sentWindow) has(s uint16) bool { return w.odd == nil || w.odd.Exists(s) }

// eachSent calls f for the packets in the window, oldest first.
func (e *Endpoint) eachSent(f func(id uint64, r *sentRecord)) {
	w := &e.sent
	for id, end := e.nextID-uint64(e.sentSpan()), e.nextID; id != end; id++ {
		if w.has(uint16(id)) {
			f(id, w.record(uint16(id)))
		}
	}
}

// tell reports a fate to the handler.
func (e *Endpoint) tell(id uint64, fate Fate, rtt time.Duration) {
	if e.fates == nil {
		return
	}
	busy := e.busy
	e.busy = true
	e.fates.HandleFate(id, fate, rtt)
	e.busy = busy
}

// Unacknowledged reports whether the packet with this sequence number is in the
// window of sent packets, and was not acknowledged.
func (e *Endpoint) Unacknowledged(sequence uint16) bool {
	if e.sent.ring == nil {
		return false
	}
	return e.unacked(sequence, 1) != 0
}

// InFlight returns the number of packets with a payload whose fate is not yet
// known.
func (e *Endpoint) InFlight() int { return int(e.sent.open) }

// SentFates calls f for each packet that is still in the window of sent
// packets and whose fate is decided, oldest first. The round-trip times are
// rounded to microseconds. It serves one who begins to care late: what it does
// not report is either older or yet to be told to the FateHandler.
func (e *Endpoint) SentFates(f func(id uint64, fate Fate, rtt time.Duration)) {
	e.eachSent(func(id uint64, r *sentRecord) {
		switch {
		case r.mark&markLost != 0:
			f(id, FateLost, 0)
		case r.mark&markAcked != 0 && r.mark&markEmpty == 0:
			f(id, FateDelivered, r.rtt())
		}
	})
}
