package datagram

import (
	"net/netip"
	"sync"
	"sync/atomic"

	"volley/internal/wire"
)

const (
	// maxRun and maxRunBytes limit one segmented send: no kernel takes more
	// segments, and a run has to fit the length field of one UDP datagram with
	// room for the headers.
	maxRun      = 128
	maxRunBytes = 60 << 10

	sendPackets = 32
)

// scratch is what handing a batch to a Socket takes beside the batch.
type scratch struct {
	packets [sendPackets]Packet
}

var scratches = sync.Pool{New: func() any { return new(scratch) }}

var batches = sync.Pool{New: func() any { return new(wire.Batch) }}

// maxPooledBatch is the largest batch in bytes that is kept for reuse.
const maxPooledBatch = 256 << 10

// GetBatch returns an empty batch from a pool.
func GetBatch() *wire.Batch { return batches.Get().(*wire.Batch) }

// PutBatch gives a batch back to the pool.
func PutBatch(b *wire.Batch) {
	if b.Cap() <= maxPooledBatch {
		b.Reset()
		batches.Put(b)
	}
}

// A route is the two ends of a Packet. The zero value is that of a connected
// socket.
type route struct {
	remote netip.AddrPort
	local  netip.Addr // zero: the system chooses
}

// sendBatch sends all datagrams of b in as few segmented runs as their sizes
// allow. It returns the first error; the rest is sent all the same.
func sendBatch(sock Socket, r route, b *wire.Batch, errors *atomic.Uint64) error {
	if b.Len() == 0 {
		return nil
	}
	s := scratches.Get().(*scratch)
	defer scratches.Put(s)
	var first error
	for i := 0; i < b.Len(); {
		n := 0
		for n < sendPackets && i < b.Len() {
			p := &s.packets[n]
			var next int
			p.Buf, p.Segment, next = b.Run(i, maxRun, maxRunBytes)
			if next == i+1 {
				p.Segment = 0
			}
			p.Addr, p.Local = r.remote, r.local
			i = next
			n++
		}
		if err := writePackets(sock, s.packets[:n], errors); first == nil {
			first = err
		}
		clear(s.packets[:n])
	}
	return first
}

// writePackets sends ps, going on behind each one that fails.
func writePackets(sock Socket, ps []Packet, errors *atomic.Uint64) (first error) {
	for len(ps) > 0 {
		n, err := sock.WriteBatch(ps)
		if err == nil {
			return first
		}
		errors.Add(1)
		if first == nil {
			first = err
		}
		if !IsTransient(err) || n >= len(ps) {
			return first
		}
		ps = ps[n+1:]
	}
	return first
}
