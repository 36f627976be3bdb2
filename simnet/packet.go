package simnet

import (
	"net/netip"
	"sync"
	"time"
)

// A packet is a datagram under way, or in a receive buffer.
type packet struct {
	buf   []byte
	flow  *flow
	index uint64
	dup   bool // the second copy
}

// size returns the size of the packet on the link.
func (p *packet) size() int { return packetSize(len(p.buf), p.flow.to.Addr()) }

// packetSize returns the size of an IP packet with a datagram of n bytes.
func packetSize(n int, to netip.Addr) int {
	if to.Is4() {
		return n + 20 + 8
	}
	return n + 40 + 8
}

// Buffers are pooled in two sizes, so that common datagrams do not hold large ones.
const (
	smallBuffer = 2048
	largeBuffer = 64 << 10
)

var (
	smallPackets = sync.Pool{New: func() any { return &packet{buf: make([]byte, 0, smallBuffer)} }}
	largePackets = sync.Pool{New: func() any { return &packet{buf: make([]byte, 0, largeBuffer)} }}
)

func newPacket(b []byte) *packet {
	pool := &smallPackets
	if len(b) > smallBuffer {
		pool = &largePackets
	}
	p := pool.Get().(*packet)
	p.buf = append(p.buf[:0], b...)
	return p
}

// free gives the packet back. It must not be used afterwards.
func (p *packet) free() {
	p.flow = nil
	if cap(p.buf) > smallBuffer {
		largePackets.Put(p)
		return
	}
	smallPackets.Put(p)
}

// An event is a packet's arrival, or the begin or end of a script's step.
type event struct {
	at    time.Duration // since the start of the network
	order uint64        // of packets: the key of the flow
	index uint64        // of packets: in the flow; else in the network
	pkt   *packet
	step  *activeStep
	begin bool
}

// before orders events: by time, steps first, then flow and index.
func (e *event) before(f *event) bool {
	switch {
	case e.at != f.at:
		return e.at < f.at
	case e.order != f.order:
		return e.order < f.order
	case e.index != f.index:
		return e.index < f.index
	default:
		return e.pkt != nil && f.pkt != nil && !e.pkt.dup && f.pkt.dup
	}
}

// An eventHeap is a binary heap of events, the earliest first. (The package
// container/heap would allocate an interface value for each.) It gives memory back
// as it empties.
type eventHeap []event

// smallHeap is how many events an eventHeap keeps memory for.
const smallHeap = 512

func (h *eventHeap) push(e event) {
	*h = append(*h, e)
	s := *h
	i := len(s) - 1
	for i > 0 {
		parent := (i - 1) / 2
		if !s[i].before(&s[parent]) {
			return
		}
		s[i], s[parent] = s[parent], s[i]
		i = parent
	}
}

func (h *eventHeap) pop() event {
	s := *h
	top := s[0]
	last := len(s) - 1
	s[0] = s[last]
	s[last] = event{}
	s = s[:last]
	if last >= smallHeap/2 && last <= cap(s)/4 {
		s = append(make(eventHeap, 0, 2*last), s...)
	}
	*h = s
	for i := 0; ; {
		least := 2*i + 1
		if least >= last {
			return top
		}
		if right := least + 1; right < last && s[right].before(&s[least]) {
			least = right
		}
		if !s[least].before(&s[i]) {
			return top
		}
		s[i], s[least] = s[least], s[i]
		i = least
	}
}
