package core

import (
	"slices"

	"volley/internal/wire"
)

// An ackList collects the ids of accepted frames until the end of a batch (T4), and
// repeats those of the last batches where there is room (R5).
type ackList struct {
	ids    []uint32
	recent [2][]uint32
	repeat int  // batches in which an id is repeated
	max    int  // ids that one frame holds
	none   bool // a frame without ids is to leave: nothing is accepted any more
}

const (
	maxRepeats = 32      // ids of a batch that are repeated, the last ones
	maxAcks    = 1 << 16 // frames that may wait to be acknowledged, if batches do not end
)

func (a *ackList) init(mtu, repeat int) {
	a.max = (mtu - DataAckHeaderSize) / frameIDSize
	a.repeat = min(repeat, len(a.recent))
}

func (a *ackList) add(id uint32) { a.ids = append(a.ids, id) }

func (a *ackList) full() bool { return len(a.ids) >= maxAcks }

// flush appends frames that acknowledge what was collected. No frame lists an id twice (T5).
func (a *ackList) flush(out *wire.Batch) {
	if a.none {
		a.none = false
		AppendDataAck(out.Extend(DataAckHeaderSize)[:0], nil)
	}
	if len(a.ids) == 0 {
		return
	}
	if len(a.ids) > 1 {
		slices.Sort(a.ids)
		a.ids = slices.Compact(a.ids)
	}
	fresh := len(a.ids)
	a.addRecent()
	rest := a.ids
	for n := 0; n < fresh; {
		ids := rest[:min(len(rest), a.max)]
		AppendDataAck(out.Extend(DataAckHeaderSize + frameIDSize*len(ids))[:0], ids)
		rest = rest[len(ids):]
		n += len(ids)
	}
	if a.repeat > 0 {
		a.recent[0], a.recent[1] = a.recent[1], a.recent[0]
		a.recent[0] = append(a.recent[0][:0], a.ids[max(0, fresh-maxRepeats):fresh]...)
	}
	a.ids = a.ids[:0]
}

// addRecent adds missing ids of the last batches. Those that are there are sorted.
func (a *ackList) addRecent() {
	fresh := len(a.ids)
	for i := 0; i < a.repeat; i++ {
		for _, id := range a.recent[i] {
			if _, there := slices.BinarySearch(a.ids[:fresh], id); !there && !slices.Contains(a.ids[fresh:], id) {
				a.ids = append(a.ids, id)
			}
		}
	}
}

// last appends one more frame with the latest ids, at the end. It may be called again.
func (a *ackList) last(out *wire.Batch) {
	slices.Sort(a.ids)
	a.ids = slices.Compact(a.ids)
	a.addRecent()
	if ids := a.ids[:min(len(a.ids), a.max)]; len(ids) > 0 {
		AppendDataAck(out.Extend(DataAckHeaderSize + frameIDSize*len(ids))[:0], ids)
	}
}

func (a *ackList) free() { a.ids, a.recent = nil, [2][]uint32{} }

// A frameWindow is the window of frame ids that are accepted (T3).
type frameWindow struct {
	next uint32 // i_b
	size uint32 // N_P
}

func (w *frameWindow) accepts(id uint32) bool { return id-w.next < w.size || w.next-id <= w.size }

func (w *frameWindow) move(id uint32) {
	if id-w.next < w.size {
		w.next = id + 1
	}
}
