package main

import (
	"sync/atomic"
	"time"
	"unsafe"
)

// maxClients is the largest number of clients of which the messages are counted.
const maxClients = 64

// Phases of a run.
const (
	phaseWarmUp uint32 = iota
	phaseMeasure
	phaseDone // messages are still counted
	phaseExit
)

// A board is what client and server tell each other besides the messages. With
// two processes it lies in memory that they share.
type board struct {
	phase   atomic.Uint32
	_       [60]byte
	clients [maxClients]score

	// tickOrigin is the time of the server's first tick, in ns of Unix time;
	// 0: there has been none.
	tickOrigin atomic.Int64

	// weighed is set by a client of mode game whose first link has an answer, and
	// by the server once it has then noted its memory.
	weighed atomic.Uint32
}

// States of weighed.
const (
	weighNow uint32 = 1 + iota
	weighDone
)

// weighFirst has the server note its memory. It returns when that is done, or
// after a second.
func (b *board) weighFirst() {
	b.weighed.Store(weighNow)
	for end := time.Now().Add(time.Second); b.weighed.Load() != weighDone && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
}

// A score is about one client.
type score struct {
	received atomic.Uint64 // intact messages
	bad      atomic.Uint64 // others
	sum      atomic.Uint64 // of the numbers of the intact ones
	wakeAt   atomic.Uint64 // received count at which the client wants to be woken; 0: it does not wait
	written  atomic.Uint64 // messages to the client, of mode game
	_        [24]byte
}

const boardSize = int(unsafe.Sizeof(board{}))

// total returns how many messages of all clients have been received.
func (b *board) total() (received, bad uint64) {
	for i := range b.clients {
		received += b.clients[i].received.Load()
		bad += b.clients[i].bad.Load()
	}
	return received, bad
}

// written returns how many messages the server has sent, in mode game.
func (b *board) written() (n uint64) {
	for i := range b.clients {
		n += b.clients[i].written.Load()
	}
	return n
}

// handled returns how many messages went in and out of the server, in mode game.
func (b *board) handled() uint64 {
	received, _ := b.total()
	return received + b.written()
}

// A window holds a client back when too many of its messages are on their way.
type window struct {
	size  uint64 // messages; zero: no limit
	score *score
	bell  <-chan struct{} // rung when the score has reached wakeAt
	sent  uint64
	lost  uint64 // messages given up
	timer *time.Timer
}

// patience is how long a client waits for messages before it gives them up.
const patience = 300 * time.Millisecond

func (w *window) open() bool {
	return w.size == 0 || w.sent-w.lost-w.score.received.Load() < w.size
}

// wait blocks until half of the window is free.
func (w *window) wait() {
	if w.timer == nil {
		w.timer = time.NewTimer(patience)
	}
	for !w.open() {
		before := w.score.received.Load()
		target := max(1, w.sent-w.lost-w.size/2)
		w.score.wakeAt.Store(target)
		if w.score.received.Load() >= target {
			w.score.wakeAt.Store(0)
			return
		}
		w.timer.Reset(patience)
		select {
		case <-w.bell:
		case <-w.timer.C:
			if w.score.received.Load() == before {
				w.lost = w.sent - before
			}
		}
	}
}

// count adds an intact message and tells whether the client waits for it.
func (s *score) count(n uint64) (wake bool) {
	received := s.received.Load() + 1 // one goroutine counts a client's messages
	s.sum.Store(s.sum.Load() + n)
	s.received.Store(received)
	at := s.wakeAt.Load()
	return at != 0 && received >= at && s.wakeAt.CompareAndSwap(at, 0)
}
