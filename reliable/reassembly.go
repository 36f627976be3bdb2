package reliable

import (
	"bytes"
	"unsafe"
)

// A reassembly collects the fragments of a packet as they arrive in the slots of a growing
// buffer: all are of one size but the last. In order, the buffer is the payload.
type reassembly struct {
	sequence uint16
	count    int       // fragments announced, or 0 after spoil
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

// maxReassemblyOverhead is the most that a reassembly counts against
// Config.ReassemblyBytes beside its fragments, in bytes. Fragments count with
// their full size.
const maxReassemblyOverhead = int(unsafe.Sizeof(reassembly{})) + maxMaxFragments

func (r *reassembly) has(id uint8) bool { return r.present[id>>6]&(1<<(id&63)) != 0 }

// room returns the bytes that the buffer needs to take n more.
func (r *reassembly) room(n, fragmentSize int) int {
	if n == 0 {
		return 0
	}
	return len(r.order)*fragmentSize + n
}

// copied reports whether f, whose id is here already, is a copy of that fragment.
func (r *reassembly) copied(f *Fragment, fragmentSize int) bool {
	if f.ID == 0 && f.Header != r.header || f.last() && len(f.Data) != r.lastSize {
		return false
	}
	slot := bytes.IndexByte(r.order, f.ID) // -1 if it is empty
	return slot < 0 || bytes.Equal(f.Data, r.buf[slot*fragmentSize:][:len(f.Data)])
}

// spoil has no fragment fit any more, because two packets have the same sequence.
func (r *reassembly) spoil() { r.count = 0 }

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

// storeNext stores the next fragment in order if there is room, and reports whether.
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

// swap exchanges the first n bytes of a and b: a short last fragment came too early.
func swap(a, b []byte, n int) {
	var tmp [512]byte
	for i := 0; i < n; i += len(tmp) {
		x, y := a[i:min(i+len(tmp), n)], b[i:min(i+len(tmp), n)]
		m := copy(tmp[:], x)
		copy(x, y)
		copy(y, tmp[:m])
	}
}

// grow gives r a buffer of n bytes, with what it has.
func (r *reassembly) grow(n int) {
	old := r.buf
	r.buf = make([]byte, n)
	copy(r.buf, old)
}
