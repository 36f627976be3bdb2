package main

import (
	"context"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"volley"
)

// A serverPlace is the server: it accepts, and writes to all at each tick.
type serverPlace struct {
	*soak
	addr     string
	refusing atomic.Bool // new connections

	mu    sync.Mutex
	ln    *volley.Listener
	fresh []*end       // accepted, and not in the loop yet
	out   map[int]bool // clients that are to be turned out

	ends    []*end // of the loop
	message []byte
}

func (s *soak) newServer() (*serverPlace, error) {
	p := &serverPlace{soak: s, addr: slotAddr(0xFFFF, 1).String() + ":0", out: make(map[int]bool)}
	return p, p.listen()
}

func (p *serverPlace) listen() error {
	lc := volley.ListenConfig{Config: p.config, Filter: func(netip.AddrPort) bool { return !p.refusing.Load() }}
	ln, err := lc.Listen(context.Background(), "udp4", p.addr)
	if err != nil {
		return err
	}
	p.addr = ln.Addr().String()
	p.mu.Lock()
	p.ln = ln
	p.mu.Unlock()
	p.accepting.Go(func() {
		for {
			c, err := ln.AcceptConn(context.Background())
			if err != nil {
				return
			}
			p.counted.accepted.Add(1)
			p.mu.Lock()
			p.fresh = append(p.fresh, newEnd(p.book, c, newReader(p.book, client, -1)))
			p.mu.Unlock()
		}
	})
	return nil
}

// turnOut has the connections of a client closed.
func (p *serverPlace) turnOut(slot int) {
	p.mu.Lock()
	p.out[slot] = true
	p.mu.Unlock()
}

// drive gives all connections their turns until there is an end to it.
func (p *serverPlace) drive() {
	interval := time.Second / time.Duration(p.rate)
	again := time.Now().Add(p.restart)
	for next, tick := time.Now(), 0; p.phase.Load() != stopped; next, tick = next.Add(interval), tick+1 {
		time.Sleep(time.Until(next))
		if p.lateBy(time.Since(next)) {
			next = time.Now()
		}
		p.take()
		if p.phase.Load() == running && !p.resting.Load() {
			p.write()
			if p.restart > 0 && time.Now().After(again) {
				p.startAgain()
				next = time.Now()
				again = next.Add(p.restart)
			}
		}
		if tick%collectEvery == 0 {
			for _, e := range p.ends {
				e.collect()
			}
		}
	}
	p.stop()
}

// take takes in new connections, and lets go those that have ended or are to end.
func (p *serverPlace) take() {
	p.mu.Lock()
	p.ends = append(p.ends, p.fresh...)
	p.fresh = p.fresh[:0]
	var out map[int]bool // ours alone
	if len(p.out) > 0 {
		out, p.out = p.out, make(map[int]bool)
	}
	p.mu.Unlock()
	p.ends = slices.DeleteFunc(p.ends, func(e *end) bool {
		slot := e.reader.slot.Load()
		switch {
		case e.reader.over():
			e.explain(e.close())
			return true
		case slot >= 0 && out[int(slot)]:
			e.close()
			return true
		case slot >= 0 && e.flow == nil:
			e.flow = p.book.open(int(slot), server)
		}
		return false
	})
	p.counted.serving.Store(int64(len(p.ends)))
}

// write writes a message to each connection whose client is known.
func (p *serverPlace) write() {
	for _, e := range p.ends {
		if e.flow == nil {
			continue
		}
		n := e.flow.begin()
		p.message = appendMessage(p.message[:0], e.flow.name, n, p.size(n))
		if id, err := e.conn.WriteMessage(p.message); err == nil {
			e.flow.wrote(n, id)
		} else {
			p.counted.writeErrors.Add(1)
		}
	}
}

// startAgain is the end of the server and its next start, on the same port. So
// that all that is acknowledged is also accounted for, it takes in nobody before
// its end until it knows who everybody is; and it is away for a moment, in which
// what is on its way to connections of before is lost.
func (p *serverPlace) startAgain() {
	p.counted.serverRestarts.Add(1)
	p.refusing.Store(true)
	for deadline := time.Now().Add(10 * time.Second); ; {
		time.Sleep(p.away)
		p.take()
		if time.Now().After(deadline) || !slices.ContainsFunc(p.ends, (*end).nameless) {
			break
		}
	}
	for _, s := range p.book.slots {
		s.disturb(p.book)
	}
	p.stop()
	time.Sleep(p.away)
	p.refusing.Store(false)
	p.counted.serverSince.Store(int64(p.book.now()))
	if err := p.listen(); err != nil {
		p.failed(err)
	}
}

// nameless reports whether messages have come of which nobody knows who wrote them.
func (e *end) nameless() bool {
	return e.reader.slot.Load() < 0 && e.conn.Stats().MessagesReceived > 0
}

// stop closes the listener and all connections.
func (p *serverPlace) stop() {
	p.ln.Close()
	p.accepting.Wait()
	p.take()
	for _, e := range p.ends {
		e.close()
	}
	p.ends = nil
	p.ln.Shutdown(context.Background()) // so that the port is free
}

// A counted is what has happened to connections.
type counted struct {
	dialed, accepted, ended                          atomic.Uint64
	kills, restarts, rebinds, closes, serverRestarts atomic.Uint64
	dialErrors, writeErrors, skipped                 atomic.Uint64
	serving                                          atomic.Int64
	serverSince                                      atomic.Int64 // when it started, on the clock of the book
}
