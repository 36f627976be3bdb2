package world

import (
	"errors"
	"io"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
	"unsafe"

	"volley"
	"volley/secure"
)

// explain checks that a connection which this side has not closed has ended for a reason.
func (h *host) explain(e *end, err error) {
	if _, quit := e.over(); quit {
		return
	}
	p, b := h.w.plan, h.w.book
	at := time.Duration(e.ending.Load())
	said := b.closedSince(e.peer, e.home, e.began-calm)
	var refused *volley.RefusedError
	var closed *volley.CloseError
	var closedSecure *secure.CloseError
	switch {
	case p.stackOf(e.home, e.peer) >= secureSessions && p.drained(at-time.Minute, at): // the session that follows is closed if nobody asks for it
	case errors.Is(err, io.EOF), errors.As(err, &closed), errors.As(err, &closedSecure):
		if !said && e.promises.exact {
			b.fail("%v ended at %v (%v), and its peer has closed nothing", e, at, err)
		}
	case errors.Is(err, secure.ErrMoved) && p.drained(0, at):
	case p.stackOf(e.home, e.peer) == volleyPackets: // which sends nothing against silence
	case slices.Contains([]stack{riptidePlain, riptideSealed}, p.stackOf(e.home, e.peer)) &&
		(p.mad > 0 || p.link.Distribution == "long-tail"): // which ends poor connections, as where one datagram holds all others up for long
	case strings.Contains(err.Error(), "MaxMemory is nearly used up") && p.crammed(e.home, at):
	case slices.Contains([]stack{porousPlain, porousSealed}, p.stackOf(e.home, e.peer)) &&
		b.hoardedSince(min(e.home, e.peer), at-calm): // which ends for unfinished messages that keep MaxMemory
	case said, !e.promises.exact, p.troubled(e.home, e.peer, at-calm, at), p.link.Loss > 0.2, p.link.Burst != nil, errors.As(err, &refused):
	default:
		b.fail("%v ended at %v (%v) without a reason", e, at, err)
	}
}

// probes are how many messages each client writes after the faults.
const probes = 30

// probe checks that after the faults all clients and servers hear each other.
func (w *world) probe() {
	var all sync.WaitGroup
	start := w.book.now()
	for _, h := range w.clients() {
		all.Go(func() {
			for range probes {
				if e := h.connect(); e != nil {
					e.write(100, 100)
				}
				time.Sleep(300 * time.Millisecond)
			}
			time.Sleep(5 * time.Second)
			h.mu.Lock()
			defer h.mu.Unlock()
			if h.end == nil {
				w.book.fail("host %d: no connection after the faults", h.number)
			} else if at := time.Duration(h.end.answered.Load()); at < start && h.end.promises.exact {
				w.book.fail("%v: no answer after the faults, the newest came at %v", h.end, at)
			}
		})
	}
	all.Wait()
}

// collect checks that connections that were closed are garbage.
func (w *world) collect() {
	for _, h := range w.servers() {
		h.mu.Lock()
		h.sweepLocked()
		h.mu.Unlock()
	}
	w.book.collect()
}

// weigh checks that all hosts together hold no more memory than their limits allow.
func (w *world) weigh() {
	w.collect()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	allowed := int64(w.base) + 2<<20 + w.book.bytes() + w.underWay()*datagramCost
	for _, h := range w.hosts {
		allowed += 400 << 10 // a socket with its reader, and large datagrams that fill its buffer
		h.mu.Lock()
		if h.sock != nil {
			if wait, _ := h.sock.standing(); wait > 0 {
				allowed += int64(h.sock.ReadBuffer()) / smallestPacket * datagramCost
			}
		}
		if h.server != nil {
			h.server.check(false)
			n := int64(len(h.ends))
			limit := memoryLimit(w.plan.servers[h.number])
			switch {
			case h.stack == riptidePlain, h.stack == riptideSealed:
				limit = 0 // it has none for all connections together
			case limit > 4<<20:
				limit = n * 2 * serverBuffer
			}
			allowed += limit + n*(32<<10)
		}
		for e := range h.ends {
			allowed += e.waiting()
		}
		if h.end != nil {
			allowed += h.end.waiting()
		}
		h.mu.Unlock()
	}
	share := float64(int64(m.HeapAlloc)-int64(w.base)) / float64(allowed-int64(w.base))
	w.book.count(func(c *counts) { c.Heap = max(c.Heap, math.Round(100*share)/100) })
	if int64(m.HeapAlloc) > allowed {
		w.book.fail("%d KiB of heap are in use, at most %d are allowed", m.HeapAlloc>>10, allowed>>10)
		w.book.dumpHeap()
	}
}

const (
	datagramCost   = 2500 // bytes that the network holds for a datagram, also a small one
	smallestPacket = 32   // bytes that a datagram of four bytes takes in the buffer of a socket
)

// underWay returns how many datagrams are under way. A loop of writes sends thousands at
// one instant.
func (w *world) underWay() int64 {
	s := w.net.Stats()
	over := s.Delivered + s.Lost + s.QueueDrops + s.MTUDrops + s.BlackoutDrops + s.ReceiverDrops + s.Unreachable
	return int64(s.Sent + s.Duplicated - over)
}

// bytes is the memory that the book takes, about.
func (b *book) bytes() (n int64) {
	for _, f := range b.all() {
		f.mu.Lock()
		n += int64(cap(f.sent))*int64(unsafe.Sizeof(sent{})) + int64(len(f.ids))*100 + 1000
		f.mu.Unlock()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return 2*n + int64(len(b.pins))*200
}
