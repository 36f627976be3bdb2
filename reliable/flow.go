package reliable

import "unsafe"

const (
	flowTurn  = 500 // least time between two marks of a flow, in its ticks
	flowShift = 20  // a tick is 2^20 ns, which is a millisecond, nearly
)

// A flow tells the rate of bytes over the last second or so, exactly for steady packets:
// those after one of them, over the time to the last.
type flow struct {
	last  uint32    // tick in which the newest packet went by, modulo 2^32
	marks [3]uint32 // those of three earlier ones, the oldest first
	bytes [3]uint32 // from each mark to the next
}

// add notes that n bytes go by.
func (f *flow) add(n uint32, now int64) {
	f.last = uint32(now >> flowShift)
	f.bytes[2] += n
	if f.last-f.marks[2] >= flowTurn {
		f.marks = [3]uint32{f.marks[1], f.marks[2], f.last}
		f.bytes = [3]uint32{f.bytes[1], f.bytes[2], 0}
	}
}

// rate returns kilobits per second, the lower of a shorter and a longer time: after a stall
// a burst arrives, and one of the two includes the stall or misses the burst. A longer
// silence takes the place of the time.
func (f *flow) rate(now int64) float32 {
	silence := uint32(now>>flowShift) - f.last
	over := func(bytes, since uint32) float32 {
		ticks := max(f.last-since, silence, flowTurn)
		return float32(float64(bytes) * 8e6 / float64(int64(ticks)<<flowShift))
	}
	some := f.bytes[1] + f.bytes[2]
	return min(over(some, f.marks[1]), over(f.bytes[0]+some, f.marks[0]))
}

// flows are those of an Endpoint with MaxWindow, from the first packet until idleness.
type flows struct{ sent, acked, received flow }

const flowsSize = int(unsafe.Sizeof(flows{}))
