package reliable

import "unsafe"

// A receivedRecord is what is remembered of a packet received.
type receivedRecord struct {
	at    int64  // time of Receive
	bytes uint32 // whole packet and lower headers; 0 if there is no packet
	late  uint32 // 1 if a newer one had been received before
}

const receivedRecordSize = int(unsafe.Sizeof(receivedRecord{}))

// A receivedRing has the records of the newest packets by sequence. If its length is a power
// of two, it keeps sums over the older half.
type receivedRing struct {
	records []receivedRecord
	next    uint16 // one past the newest sequence
	late    int32  // packets in the older half with late set
	bytes   int64  // of those in the older half; 0 if there are none
}

// reset empties the ring, if there is one; next is the sequence it expects.
func (r *receivedRing) reset(next uint16) {
	if r == nil {
		return
	}
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

func (r *receivedRing) forward(next uint16) {
	if int(next-r.next) >= len(r.records) {
		r.reset(next)
		return
	}
	for r.next != next {
		*r.step() = receivedRecord{}
	}
}

// push adds the record of the next sequence.
func (r *receivedRing) push(rec receivedRecord) { *r.step() = rec }

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

// set puts the record of s into a ring whose length is not a power of two.
func (r *receivedRing) set(s uint16, rec receivedRecord) { r.records[int(s)%len(r.records)] = rec }

// span returns the span of the older half, whose newest packets came in order.
func (r *receivedRing) span() (got span) {
	if r.bytes == 0 {
		return got
	}
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
		return span{r.bytes, at(i).at, at(j).at, true}
	}
	for i := range n / 2 {
		if rec := at(i); rec.bytes > 0 {
			got.add(rec.at, rec.bytes)
		}
	}
	return got
}

// ringCharge is the memory of n records beyond the first few.
func ringCharge(n int) int { return max(0, n-firstSentWindow) * receivedRecordSize }

// newReceivedRing returns a ring of n records, or nil if there is no memory.
func newReceivedRing(g *env, n int, next uint16) *receivedRing {
	if !g.take(ringCharge(n)) {
		return nil
	}
	g.hold(n*receivedRecordSize - ringCharge(n))
	return &receivedRing{records: make([]receivedRecord, n), next: next}
}

// free gives the memory of a ring back, if there is one.
func (r *receivedRing) free(g *env) {
	if r != nil {
		n := len(r.records)
		g.give(ringCharge(n))
		g.hold(ringCharge(n) - n*receivedRecordSize)
	}
}
