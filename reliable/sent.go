package reliable

import (
	"math/bits"
	"time"
	"unsafe"
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

func (r *sentRecord) set(x sentRecord) { *r = x }

// void makes r that of a sequence which was left out.
func (r *sentRecord) void() { r.bytes = 0 }

func (r *sentRecord) lose() { r.mark |= markLost }

func (r *sentRecord) ack(rtt int64) {
	us := min(rtt/1000, 1<<(32-markBits)-1)
	r.mark |= markAcked | uint32(us)<<markBits
}

func (r *sentRecord) rtt() time.Duration {
	return time.Duration(r.mark>>markBits) * time.Microsecond
}

// An overdue counts old, undecided packets of a growing window that were sent after the
// newest acknowledged one. They alone show that the other side is silent.
type overdue struct {
	heard uint64 // one past the newest packet that the other side's ack named
	to    uint64 // one past the newest that is old
	count int16  // those from heard on, and before to, that are undecided

	// The latest packets that acks have named before they were sent.
	foretold uint16 // from the first to the last one
	first    uint32 // id of the first, modulo 2^32
}

// mostForetold is how many packets are known as foretold.
const mostForetold = 1024

// foretell notes that an ack has named packet id before that was sent.
func (o *overdue) foretell(id uint32) {
	switch ahead, behind := id-o.first, o.first-id; {
	case o.foretold > 0 && ahead < mostForetold:
		o.foretold = max(o.foretold, uint16(ahead)+1)
	case o.foretold > 0 && behind+uint32(o.foretold) <= mostForetold:
		o.first, o.foretold = id, o.foretold+uint16(behind)
	case o.foretold == 0 || int32(ahead) > 0:
		o.first, o.foretold = id, 1
	}
}

// early reports whether an ack of packet id may be older than that.
func (o *overdue) early(id uint32) bool { return id-o.first < uint32(o.foretold) }

// earliest reports whether packet id is the first that was foretold.
func (o *overdue) earliest(id uint32) bool { return o.foretold > 0 && id == o.first }

// passed forgets the packets before id, which the other side's ack has passed.
func (o *overdue) passed(id uint64) {
	if id > o.heard {
		o.heard, o.to, o.count = id, id, 0
	}
}

// old notes that packet id is old. It is called for one after the other.
func (o *overdue) old(id uint64, undecided bool) {
	if o.to = id + 1; undecided {
		o.count++
	}
}

// decided takes a packet out whose fate is no longer open.
func (o *overdue) decided(id uint64) {
	if id >= o.heard && id < o.to {
		o.count--
	}
}

// recentFates are the fates of up to 63 decided packets with a payload: a bit each, the last
// one lowest, set for lost. The highest set bit marks the number.
type recentFates uint64

const (
	recentMost  = 63
	recentLeast = 16 // of fewer packets the figure speaks as if they were so many
)

func (f recentFates) count() int { return max(0, bits.Len64(uint64(f))-1) }

func (f *recentFates) add(lost bool) {
	full := *f & (1 << recentMost)
	*f = max(*f, 1)<<1 | full
	if lost {
		*f |= 1
	}
}

// revoke takes a loss back, one of the latest.
func (f *recentFates) revoke() {
	if marker := recentFates(1) << f.count(); *f > marker {
		*f &= *f - 1
	}
}

// share returns the lost part of the packets if the undecided ones count as lost.
func (f recentFates) share(overdue int) float32 {
	overdue = min(overdue, recentMost)
	known := min(f.count(), recentMost-overdue)
	lost := overdue + bits.OnesCount64(uint64(f)&(1<<known-1))
	return float32(lost) / float32(max(known+overdue, recentLeast))
}

// validAcks returns the ack bits of the count newest packets, with ack d before the newest.
func validAcks(d uint16, count int) uint32 {
	if int(d) < count {
		return 1<<min(32, count-int(d)) - 1
	}
	if ahead := 65536 - int(d); ahead < 32 {
		return (1<<min(32, count) - 1) << ahead
	}
	return 0
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
