package reliable

import (
	"math"
	"time"
	"unsafe"

	"volley/internal/seq"
)

const (
	minReceivedRing    = 4                  // records of a growing window for the first packets
	minReceivedTrack   = 64                 // sequences that a growing window tells apart at first
	maxReceivedCompact = 1024               // and at most after Compact
	receivedTurn       = int64(time.Second) // a growing window doubles if it turns over faster
	maxReceivedRing    = 1024               // records for the bandwidth figure beside a growing window
)

// A receivedRecord is what is remembered of a packet received.
type receivedRecord struct {
	at    int64  // time of Receive
	bytes uint32 // whole packet and lower headers; 0 if there is no packet
	late  uint32 // 1 if a newer one had been received before
}

const receivedRecordSize = int(unsafe.Sizeof(receivedRecord{}))

// A receivedWindow knows which packets were received, and when.
type receivedWindow struct {
	seen       seq.Window
	ring       receivedRing
	turnedAt   int64  // when a growing window was last all new
	turnedNext uint16 // what it expected then
	ringBegin  uint16 // where a ring of few records began
	whole      bool   // the ring has as many records as it should
	samples    uint8  // messages sampled, up to sampledFirst
	unmet      bool   // no packet has come yet, with a Config.MidStream
	asking     bool   // an inquiry is due, see InquiryDue
}

// A receivedRing has the records of the newest packets, by sequence modulo its
// length. Where that is a power of two, sums over the older half are kept up
// to date as it moves.
type receivedRing struct {
	records []receivedRecord // nil before the first packet
	next    uint16           // one past the newest sequence
	late    int32            // packets in the older half with late set
	bytes   int64            // of those in the older half; 0 if there are none
}

// reset empties the ring; next is the sequence it expects.
func (r *receivedRing) reset(next uint16) {
	clear(r.records)
	*r = receivedRing{records: r.records, next: next}
}

// step moves the ring on by one sequence and returns the slot of that.
func (r *receivedRing) step() *receivedRecord {
	mask := len(r.records) - 1
	slot := &r.records[int(r.next)&mask]
	entering := &r.records[(int(r.next)-len(r.records)/2)&mask]
	r.bytes += int64(entering.bytes) - int64(slot.bytes)
	r.late += int32(entering.late) - int32(slot.late)
	r.next++
	return slot
}

// forward moves the ring on to next.
func (r *receivedRing) forward(next uint16) {
	if int(next-r.next) >= len(r.records) {
		r.reset(next)
		return
	}
	for r.next != next {
		*r.step() = receivedRecord{}
	}
}

// put adds a record for s, which is not ahead of the ring.
func (r *receivedRing) put(s uint16, rec receivedRecord) {
	n := len(r.records)
	d := int(r.next - 1 - s)
	if d >= n {
		return
	}
	if d > 0 {
		rec.late = 1
	}
	r.records[int(s)&(n-1)] = rec
	if d >= n/2 && n > 1 {
		r.bytes += int64(rec.bytes)
		r.late += int32(rec.late)
	}
}

// span returns the earliest and the latest time in the older half, which is
// not empty. Packets that were the newest when they came are in order of time.
func (r *receivedRing) span() (earliest, latest int64) {
	n := len(r.records)
	first := r.next - uint16(n)
	at := func(i int) *receivedRecord { return &r.records[int(first+uint16(i))&(n-1)] }
	if r.late == 0 {
		i, j := 0, n/2-1
		for at(i).bytes == 0 {
			i++
		}
		for at(j).bytes == 0 {
			j--
		}
		return at(i).at, at(j).at
	}
	earliest = 1<<63 - 1
	for i := range n / 2 {
		if rec := at(i); rec.bytes > 0 {
			earliest, latest = min(earliest, rec.at), max(latest, rec.at)
		}
	}
	return earliest, latest
}

// noteReceived records a packet of size bytes.
func (e *Endpoint) noteReceived(s uint16, size int) {
	w := &e.received
	if e.newsAt == never {
		e.blind = uint32(min(e.nextID, math.MaxUint32))
	}
	e.newsAt, e.newsSeq = e.now, s
	rec := receivedRecord{at: e.now, bytes: uint32(e.headerSize) + uint32(size)}
	if s != w.seen.Next() || !w.seen.Bitwise() || s != w.ring.next || !w.whole {
		e.noteAnyhow(s, rec)
		return
	}
	e.parked = -1
	w.seen.Push()
	*w.ring.step() = rec
	if e.grows() {
		e.turnReceived()
	}
}

// noteAnyhow is noteReceived for a packet that is not the next one.
func (e *Endpoint) noteAnyhow(s uint16, rec receivedRecord) {
	w := &e.received
	ahead := w.seen.Ahead(s)
	w.seen.Insert(s)
	if ahead {
		e.parked = -1
		if e.grows() {
			e.turnReceived()
		}
	}
	switch {
	case !w.whole && !e.ensureReceivedRing():
	case w.seen.Bitwise():
		w.ring.forward(w.seen.Next())
		w.ring.put(s, rec)
	default:
		w.ring.records[int(s)%len(w.ring.records)] = rec
	}
}

// forwardReceived makes s the newest sequence seen, though not received.
func (e *Endpoint) forwardReceived(s uint16) {
	w := &e.received
	gap := s != w.seen.Next()
	if !gap && w.seen.Bitwise() {
		w.seen.Skip()
	} else if !w.seen.Forward(s) {
		return
	}
	e.parked = -1
	e.noteStart(gap)
	if w.ring.records != nil && w.seen.Bitwise() {
		w.ring.forward(w.seen.Next())
	}
}

// turnReceived doubles a growing window that has turned over too quickly to
// tell late packets from duplicates.
func (e *Endpoint) turnReceived() {
	w := &e.received
	track := w.seen.Track()
	if w.seen.Next()-w.turnedNext < uint16(track) {
		return
	}
	fast := e.now-w.turnedAt < receivedTurn
	w.turnedAt, w.turnedNext = e.now, w.seen.Next()
	if !fast || track >= e.cfg.MaxWindow || !e.take(track/8) {
		return
	}
	w.seen.Resize(2 * track)
	if w.whole {
		e.growReceivedRing()
	}
}

// receivedCharge is the memory of the window beyond that of a fresh one.
func (e *Endpoint) receivedCharge() int {
	if !e.grows() {
		return 0
	}
	return e.received.seen.Bytes() - minReceivedTrack/8
}

// receivedRingLen returns the number of records to keep.
func (e *Endpoint) receivedRingLen() int {
	if e.grows() {
		return min(e.received.seen.Track()/4, maxReceivedRing)
	}
	return e.received.seen.Len()
}

// ringCharge is the memory of n records beyond the first few.
func ringCharge(n int) int { return max(0, n-firstSentWindow) * receivedRecordSize }

// ensureReceivedRing makes room for another record. A growing window has few at
// first, as many connections never need more.
func (e *Endpoint) ensureReceivedRing() bool {
	w := &e.received
	switch n := len(w.ring.records); {
	case n == 0 && e.grows():
		w.ringBegin = w.seen.Next() - 1
		return e.replaceReceivedRing(minReceivedRing)
	case n > 0 && w.seen.Next()-w.ringBegin <= uint16(n):
		return true
	}
	return e.replaceReceivedRing(e.receivedRingLen())
}

// growReceivedRing makes the ring larger after the window has grown.
func (e *Endpoint) growReceivedRing() {
	if n := e.receivedRingLen(); n > len(e.received.ring.records) {
		e.replaceReceivedRing(n)
	}
}

func (e *Endpoint) replaceReceivedRing(n int) bool {
	r := &e.received.ring
	old := len(r.records)
	if !e.take(ringCharge(n) - ringCharge(old)) {
		return false
	}
	e.mem += (n-old)*receivedRecordSize - (ringCharge(n) - ringCharge(old))
	next := e.received.seen.Next()
	records := make([]receivedRecord, n)
	r.copyNewest(records, next)
	*r = receivedRing{records: records, next: next}
	e.received.whole = n == e.receivedRingLen()
	return true
}

// copyNewest copies to a larger ring that ends with next what belongs in its
// newer half, which needs no sums.
func (r *receivedRing) copyNewest(records []receivedRecord, next uint16) {
	for i := range uint16(len(r.records)) {
		s := r.next - 1 - i
		if next-1-s < uint16(len(records)/2) {
			records[int(s)&(len(records)-1)] = r.records[int(s)&(len(r.records)-1)]
		}
	}
}

func (e *Endpoint) freeReceivedRing() {
	r := &e.received.ring
	n := len(r.records)
	e.give(ringCharge(n))
	e.mem -= n*receivedRecordSize - ringCharge(n)
	*r = receivedRing{}
	e.received.whole = false
}
