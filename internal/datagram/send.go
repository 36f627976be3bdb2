package datagram

import (
	"net/netip"
	"os"
	"sync"
	"sync/atomic"

	"volley/internal/deadline"
	"volley/internal/socket"
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
	packets [sendPackets]socket.Packet
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

// A route is the two ends of a Packet. The zero value is that of a connected socket.
type route struct {
	remote netip.AddrPort
	local  netip.Addr // zero: the system chooses
}

// sendBatch sends b in as few runs as possible. It returns the first error, and sends the rest.
func sendBatch(t *turns, r route, b *wire.Batch, errors *atomic.Uint64) error {
	_, err := sendBatchBy(t, r, b, errors, nil)
	return err
}

// sendBatchBy is sendBatch until a deadline, see Conn.WriteBatchBy; nil is none.
func sendBatchBy(t *turns, r route, b *wire.Batch, errors *atomic.Uint64, d *deadline.Deadline) (sent int, first error) {
	if b.Len() == 1 && t.late != nil {
		return sendOneBy(t.late, r, b.At(0), errors, d)
	}
	return sendRunsBy(t, r, b, errors, d)
}

// sendRunsBy is sendBatchBy for several datagrams, or where they go one by one.
func sendRunsBy(t *turns, r route, b *wire.Batch, errors *atomic.Uint64, d *deadline.Deadline) (sent int, first error) {
	if b.Len() == 0 {
		return 0, nil
	}
	s := scratches.Get().(*scratch)
	defer scratches.Put(s)
	w := packetWriter{sock: t.sock, errors: errors, until: d}
	if d != nil {
		w.patient = t.late
	}
	for i := 0; i < b.Len(); {
		n := 0
		for n < sendPackets && i < b.Len() {
			i = fillPacket(&s.packets[n], b, i, b.Len(), r)
			n++
		}
		unsent, err := w.write(s.packets[:n])
		if first == nil {
			first = err
		}
		for _, p := range unsent {
			i -= p.Datagrams()
		}
		late := len(unsent) > 0
		clear(s.packets[:n])
		if late {
			return i, os.ErrDeadlineExceeded
		}
	}
	return b.Len(), first
}

// sendOneBy is sendBatchBy for one datagram, as most messages of a game are.
func sendOneBy(w socket.DeadlineWriter, r route, p []byte, errors *atomic.Uint64, d *deadline.Deadline) (sent int, err error) {
	switch err = w.WriteOneBy(p, r.remote, r.local, d); err {
	case nil:
		return 1, nil
	case socket.ErrLate:
		return 0, os.ErrDeadlineExceeded
	}
	errors.Add(1)
	return 1, err
}

// fillPacket makes p a run of datagrams from i on, before end, and returns the next number.
func fillPacket(p *socket.Packet, b *wire.Batch, i, end int, r route) (next int) {
	p.Buf, p.Segment, next = b.Run(i, min(maxRun, end-i), maxRunBytes)
	if next == i+1 {
		p.Segment = 0
	}
	p.Addr, p.Local = r.remote, r.local
	return next
}

// A packetWriter gives packets to a Socket.
type packetWriter struct {
	sock    socket.Socket
	patient socket.DeadlineWriter // sock, if it can keep to until; or nil
	until   *deadline.Deadline
	errors  *atomic.Uint64
}

// write sends ps, going on behind failures. It returns those without room until the deadline.
func (w *packetWriter) write(ps []socket.Packet) (unsent []socket.Packet, first error) {
	for len(ps) > 0 {
		var n int
		var err error
		if w.patient != nil {
			n, err = w.patient.WriteBatchBy(ps, w.until)
		} else {
			n, err = w.sock.WriteBatch(ps)
		}
		if err == nil {
			return nil, first
		}
		if err == socket.ErrLate {
			return ps[n:], first
		}
		w.errors.Add(1)
		if first == nil {
			first = err
		}
		if !socket.IsTransient(err) || n >= len(ps) {
			return nil, first
		}
		ps = ps[n+1:]
	}
	return nil, first
}
