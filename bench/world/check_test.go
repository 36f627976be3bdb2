package world

import (
	"errors"
	"io"
	"math"
	"net"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"volley"
	"volley/netcode"
	"volley/porous"
	"volley/riptide"
	"volley/secure"
)

// explain checks that a connection which this side has not closed has ended for a reason.
func (h *host) explain(e *end, err error) {
	if reasonOf(err) == memoryUsed {
		h.w.book.happened(memoryShort, min(e.home, e.peer))
	}
	if _, quit := e.over(); quit || !e.promises.exact || h.foreseen(e, err) {
		return
	}
	h.w.book.fail("%v ended at %v (%v) without a reason", e, time.Duration(e.ending.Load()), err)
}

// foreseen reports whether what happened is a reason for the end of a connection.
func (h *host) foreseen(e *end, err error) bool {
	p, b := h.w.plan, h.w.book
	at, s := time.Duration(e.ending.Load()), p.stackOf(e.home, e.peer)
	trouble := p.troubled(e.home, e.peer, at-calm, at) || p.link.Loss > 0.2 || p.link.Burst != nil
	hoarded := b.since(muchWritten, min(e.home, e.peer), at-calm)
	server := min(e.home, e.peer)
	switch reasonOf(err) {
	case peerClosed:
		if p.crammed(server, at) && (b.stalledAt(server, at) || s == porousPlain && e.toldSoon(at)) {
			return true // the server's Handler had not been told yet that its connection has ended
		}
		if s == porousPlain && b.closedBetween(e.peer, e.home, e.began-2*lag, e.began) {
			return true // a disconnect of the connection before may come late: all are the same byte
		}
		// The session that follows a drain is closed if nobody asks for it.
		return e.leftBy(at) || s >= secureSessions && p.drained(s, at-time.Minute, at)
	case peerSilent:
		five := (s == riptidePlain || s == riptideSealed) && p.link.Loss > 0.01 // heartbeats in a row may be lost
		return e.leftBy(at) || trouble || five || s == volleyPackets            // which sends nothing against silence
	case peerRestarted:
		moved := p.happens(e.home, e.began-lag, at, rebind) || p.happens(e.peer, e.began-lag, at, rebind)
		// The Handler of the peer is told that the connection has ended after what it does now.
		told := e.peer != server || !b.stalledAt(server, at)
		return e.leftBy(at) || moved || p.restarted(e.peer, e.began-lag, at) || !told
	case peerMoved:
		return p.drained(s, 0, at)
	case peerRefuses:
		return e.leftBy(at) || hoarded || p.restarted(server, at-calm, at)
	case linkPoor: // as where one datagram holds all others up for long
		return p.mad > 0 || p.link.Distribution == "long-tail" || trouble || hoarded
	case memoryUsed: // by unfinished messages
		return hoarded || trouble || p.crammed(server, at)
	case socketGone:
		return p.restarted(e.home, at-lag, at) || b.since(socketBroke, e.home, at-lag)
	}
	return false
}

// A reason is why a connection has ended, as it says itself.
type reason int

const (
	unknown reason = iota
	peerClosed
	peerSilent
	peerRestarted
	peerMoved
	peerRefuses
	linkPoor
	memoryUsed
	socketGone
)

// reasonOf returns the reason of an error.
func reasonOf(err error) reason {
	var closed *volley.CloseError
	var closedSecure *secure.CloseError
	var refused *volley.RefusedError
	var refusedSecure *secure.RefusedError
	var errno syscall.Errno
	has := func(s string) bool { return strings.Contains(err.Error(), s) }
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, porous.ErrRefused), errors.As(err, &closed), errors.As(err, &closedSecure):
		return peerClosed // or it has given up to dial
	case errors.Is(err, volley.ErrIdleTimeout), errors.Is(err, netcode.ErrIdleTimeout), errors.Is(err, porous.ErrIdleTimeout), errors.Is(err, porous.ErrHandshakeTimeout),
		has(riptide.TimedOut.String()), has(riptide.TransportError.String()):
		return peerSilent
	case errors.Is(err, volley.ErrPeerRestarted), has("the peer has started again"):
		return peerRestarted
	case errors.Is(err, secure.ErrMoved):
		return peerMoved
	case errors.As(err, &refused), errors.As(err, &refusedSecure):
		return peerRefuses
	case has(riptide.PoorConnection.String()):
		return linkPoor
	case has("MaxMemory is nearly used up"):
		return memoryUsed
	case errors.As(err, &errno) && slices.Contains(gone, errno), errors.Is(err, net.ErrClosed):
		return socketGone
	}
	return unknown
}

// leftBy reports whether the peer has closed the connection by a time. Where nothing was read,
// it may be any of its connections.
func (e *end) leftBy(at time.Duration) bool {
	for _, s := range e.seen {
		if s.flow.leftBy(at) {
			return true
		}
	}
	return len(e.seen) == 0 && e.closedBetween(e.peer, e.home, e.began-lag, at)
}

// toldSoon reports whether the Handler of the peer may be told of an end soon after a time, as one that
// is polled.
func (e *end) toldSoon(at time.Duration) bool { return e.now() < at+endLag || e.leftBy(at+endLag) }

// probes are how many messages each client writes after the faults.
const probes = 30

// probe checks that after the faults all clients and servers hear each other.
func (w *world) probe() {
	var all sync.WaitGroup
	start, missed := w.book.now(), make([]atomic.Int64, len(w.plan.servers))
	for _, h := range w.clients() {
		all.Go(func() {
			var probed *end
			asked, before := 0, int64(0)
			for range probes {
				if probed != nil {
					if ended, _ := probed.ended(); ended {
						probed = nil // whose memory must be free soon
					}
				}
				if e := h.connect(); e != nil {
					if e != probed {
						probed, asked, before = e, 0, e.answers.Load()
					}
					if e.write(100, 100) == nil {
						asked++
					}
				}
				time.Sleep(300 * time.Millisecond)
			}
			time.Sleep(5 * time.Second)
			h.mu.Lock()
			defer h.mu.Unlock()
			server := w.serverOf(h)
			roomy := w.plan.roomy(server)
			switch {
			case h.end == nil:
				w.book.fail("host %d: no connection after the faults", h.number)
			case !h.end.promises.exact:
			case h.end != probed || asked == 0 || probed.answers.Load()-before < int64(asked/2) && w.plan.link.Loss < 0.1 && roomy:
				w.book.fail("%v: %d answers to %d messages after the faults", h.end, probed.answers.Load()-before, asked)
			case time.Duration(h.end.answered.Load()) >= start:
			case roomy:
				w.book.fail("%v: no answer after the faults, the newest came at %v", h.end, time.Duration(h.end.answered.Load()))
			default:
				missed[server].Add(1)
			}
		})
	}
	all.Wait()
	for server := range missed {
		if n := int(missed[server].Load()); w.plan.starved(server, n) {
			w.book.fail("host %d: %d of %d clients have no answer after the faults", server, n, w.plan.clientsOf(server))
		}
	}
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
	if w.recorder != nil {
		allowed += 2*recorded + int64(len(w.book.all()))<<10
	}
	for _, h := range w.hosts {
		allowed += 400 << 10 // a socket with its reader, and large datagrams that fill its buffer
		h.mu.Lock()
		if h.sock != nil {
			allowed += h.sock.mayHold(w.book.stalled(h.number))
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
	datagramCost   = 2500      // bytes that the network holds for a datagram, also a small one
	smallestPacket = 32        // bytes that a datagram of four bytes takes in the buffer of a socket
	socketBuffer   = 256 << 10 // bytes that the buffer of a socket has, by default of simnet
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
