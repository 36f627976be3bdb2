package netcode

import "container/heap"

// A slotList hands out the lowest free client index.
type slotList struct {
	free indexHeap // below next
	next uint32    // from here on all are free
}

// full reports whether so many indexes are taken.
func (l *slotList) full(most uint32) bool { return l.next-uint32(len(l.free)) >= most }

// take returns the lowest free index.
func (l *slotList) take() uint32 {
	if len(l.free) > 0 {
		return heap.Pop(&l.free).(uint32)
	}
	l.next++
	return l.next - 1
}

func (l *slotList) put(i uint32) {
	heap.Push(&l.free, i)
	if len(l.free) == int(l.next) { // nobody is left: forget the heap
		*l = slotList{}
	}
}

type indexHeap []uint32

func (h indexHeap) Len() int           { return len(h) }
func (h indexHeap) Less(i, j int) bool { return h[i] < h[j] }
func (h indexHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *indexHeap) Push(x any)        { *h = append(*h, x.(uint32)) }
func (h *indexHeap) Pop() any {
	last := len(*h) - 1
	x := (*h)[last]
	*h = (*h)[:last]
	return x
}
