package reliable

import (
	"math"
	"time"
	"unsafe"

	"volley/internal/seq"
)

const (
	minReceivedTrack   = 64                 // sequences that a growing window tells apart at first
	maxReceivedCompact = 1024               // and at most after Compact
	receivedTurn       = int64(time.Second) // a growing window doubles if it turns over faster
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
	ring       receivedRing // without Config.MaxWindow
	turnedAt   int64        // when a growing window was last all new
	turnedNext uint16       // what it expected then
	samples    uint8        // messages sampled, up to sampledFirst
	unmet      bool         // no packet has come yet, with a Config.MidStream
	asking     bool         // an inquiry is due, see InquiryDue
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
		e.rtt.blind = uint16(min(e.nextID, math.MaxUint16))
	}
	e.newsAt, e.newsSeq = e.now, s
	bytes := uint32(e.headerSize) + uint32(size)
	ahead := s == w.seen.Next() || w.seen.Ahead(s)
	if ahead {
		e.parked = -1
	}
	if w.seen.Insert(s); !e.grows() {
		e.noteRecord(s, receivedRecord{at: e.now, bytes: bytes})
		return
	}
	e.flowing().received.add(bytes, e.now)
	if ahead {
		e.turnReceived()
	}
}

// noteRecord puts the record of a packet into the ring.
func (e *Endpoint) noteRecord(s uint16, rec receivedRecord) {
	w := &e.received
	switch r := &w.ring; {
	case r.records == nil && !e.ensureReceivedRing():
	case !w.seen.Bitwise():
		r.records[int(s)%len(r.records)] = rec
	case s == r.next:
		*r.step() = rec
	default:
		r.forward(w.seen.Next())
		r.put(s, rec)
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
}

// receivedCharge is the memory of the window beyond that of a fresh one.
func (e *Endpoint) receivedCharge() int {
	if !e.grows() {
		return 0
	}
	return e.received.seen.Bytes() - minReceivedTrack/8
}

// ringCharge is the memory of n records beyond the first few.
func ringCharge(n int) int { return max(0, n-firstSentWindow) * receivedRecordSize }

// ensureReceivedRing makes the ring of records.
func (e *Endpoint) ensureReceivedRing() bool {
	w := &e.received
	n := w.seen.Len()
	if !e.take(ringCharge(n)) {
		return false
	}
	e.mem += n*receivedRecordSize - ringCharge(n)
	w.ring = receivedRing{records: make([]receivedRecord, n), next: w.seen.Next()}
	return true
}

func (e *Endpoint) freeReceivedRing() {
	r := &e.received.ring
	n := len(r.records)
	e.give(ringCharge(n))
	e.mem -= n*receivedRecordSize - ringCharge(n)
	*r = receivedRing{}
}
