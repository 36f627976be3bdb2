package main

import (
	"fmt"
	"io"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"volley"
	"volley/simnet"
)

// options are what the command line says.
type options struct {
	duration     time.Duration // of what is written
	conns        int
	rate         int // messages a second, of each side of each connection
	bytes        int // of a message
	large, every int // bytes of some messages, one in so many; 0: none
	seed         uint64
	link         simnet.Link   // each way
	life         time.Duration // mean of a connection until something happens to it; 0: nothing does
	events       []event       // of which one happens
	// How long a connection lives at least before something happens to it: much
	// longer than a round trip. For what cannot be told from the header alone is
	// the ack of an old connection when the new one at its address has sent as
	// many packets (docs/reliable.md, Ack guard).
	settled       time.Duration
	restart       time.Duration // of the server; 0: never
	away          time.Duration // how long the server is away then
	interval      time.Duration // between lines
	drain, linger time.Duration // see run
	maxSlope      float64       // MiB an hour
	judged        time.Duration // shortest run of which the slope is judged
	// If not nil, the run goes on behind its duration until this is true, for a
	// minute at most: a busy machine may get to nothing in a short run.
	until func(s *soak) bool
}

// Phases of a run.
const (
	running  = iota
	draining // nothing is written
	stopped
)

// late is how long after the reason for it a connection may end by itself: the
// idle timeout, and what a busy machine adds.
const late = idleTimeout + time.Minute

// idleTimeout is long, so that a busy machine ends no connection by it.
const idleTimeout = 30 * time.Second

// A soak is one run.
type soak struct {
	options
	book      *book
	config    *volley.Config
	server    *serverPlace
	counted   counted
	accepting sync.WaitGroup
	phase     atomic.Int32
	resting   atomic.Bool  // nothing is written for a moment, see monitor.rest
	latest    atomic.Int64 // how late ticks were at most since somebody asked

	mu  sync.Mutex
	err error // that kept the run from going on
}

// size returns the size of message n of a connection in bytes.
func (o *options) size(n uint64) int {
	if o.every > 0 && n%uint64(o.every) == uint64(o.every)-1 {
		return o.large
	}
	return o.bytes
}

func (s *soak) failed(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.err = err
	}
}

// missedAfter is how late a tick may be before those behind it are left out. Before,
// they are made up for.
const missedAfter = 500 * time.Millisecond

// lateBy notes how late a tick is, and reports whether it is too late.
func (s *soak) lateBy(d time.Duration) bool {
	for {
		if most := s.latest.Load(); int64(d) <= most || s.latest.CompareAndSwap(most, int64(d)) {
			break
		}
	}
	if d > missedAfter {
		s.counted.skipped.Add(uint64(d * time.Duration(s.rate) / time.Second))
	}
	return d > missedAfter
}

// perDriver is how many clients share a goroutine that writes.
const perDriver = 50

// run writes for the duration, and then waits until the last messages have been
// read and their receipts taken. The connections of that moment get the time to
// drain for it, and what is on its way to those that have ended before, the time
// to linger. It prints what happens, and returns the result.
func run(o options, w io.Writer) (*result, error) {
	if l, err := net.ListenPacket("udp4", "127.0.0.1:0"); err == nil {
		l.Close() // the runtime opens files of its own with the first socket
	}
	before := resourcesNow()
	s := &soak{options: o, book: newBook(o.conns, o.rate),
		config: &volley.Config{IdleTimeout: idleTimeout}}
	var err error
	if s.server, err = s.newServer(); err != nil {
		return nil, err
	}
	var drivers sync.WaitGroup
	stop := func() { s.phase.Store(stopped); drivers.Wait() }
	drivers.Go(s.server.drive)
	var clients []*clientPlace
	for slot := range o.conns {
		c, err := s.newClient(slot)
		if err != nil {
			stop()
			return nil, err
		}
		clients = append(clients, c)
	}
	groups := (len(clients) + perDriver - 1) / perDriver
	for g := range groups {
		mine := clients[g*len(clients)/groups : (g+1)*len(clients)/groups]
		offset := time.Second / time.Duration(o.rate) * time.Duration(g) / time.Duration(groups)
		drivers.Go(func() { s.drive(mine, offset) })
	}
	m := newMonitor(s, w)
	m.watch(o.duration)
	s.phase.Store(draining)
	m.wait(o.drain)
	stop()
	s.book.settle(s.book.now() + 1)
	m.line()
	r := m.result(before, settledResources(before))
	return r, s.err
}

// settledResources waits for a while until no more is in use than before.
func settledResources(before resources) (after resources) {
	for range 100 {
		runtime.GC()
		if after = resourcesNow(); after.goroutines <= before.goroutines && after.files <= before.files {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	return after
}

// describe says what a run does.
func (o *options) describe() string {
	return fmt.Sprintf("%d connections, %d messages a second each way, %d bytes (one in %d: %d), for %v, seed %d\n"+
		"each way: latency %v, jitter %v, loss %g, duplicates %g, reordered %g by %v; something happens to a connection after %v, to the server after %v",
		o.conns, o.rate, o.bytes, o.every, o.large, o.duration, o.seed,
		o.link.Latency, o.link.Jitter, o.link.Loss, o.link.Duplicate, o.link.Reorder, o.link.ReorderBy, o.life, o.restart)
}
