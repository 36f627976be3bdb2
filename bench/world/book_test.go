package world

import (
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"volley"
)

// A book keeps what all hosts write and read, and what they do that breaks a promise.
type book struct {
	plan  *plan
	start time.Time

	mu       sync.Mutex
	flows    []*flow
	drops    []dropped
	pins     []pinned
	live     map[[2]int]int             // connections of a host with a peer that have not ended
	ends     map[[2]int]time.Duration   // when the last of them has ended
	closings map[[2]int][]time.Duration // when a host has closed connections to a peer
	latest   map[occasion]time.Duration // when something has last happened
	failures []string
	counts   counts
	dumped   bool
	slowest  time.Duration // how long a write may take
	stalls   []stall       // of hosts
	// fullDrops returns how many datagrams between two hosts have found no room in the buffer of a socket.
	fullDrops func(a, b int) uint64
	short     map[int][]time.Duration // by server: when its log has told of messages refused for want of memory
}

// A happening is one whose time the plan does not tell.
type happening int

const (
	muchWritten happening = iota // between a server and its clients: full buffers make that longer than the fault
	memoryShort                  // so that a server of porous has ended a connection
	socketBroke                  // later than the fault began, if the host was dialing
)

// An occasion is what has happened to a host.
type occasion struct {
	what happening
	host int
}

// counts are figures of a world.
type counts struct {
	Written, Read, Delivered, Lost, Refused, Arrived, Confused, Corrupt, Ends, Datagrams, Followed, Drained, Moved, Replayed uint64
	Lived                                                                                                                    time.Duration // of all connections
	Heap                                                                                                                     float64       // the most in use, as a share of what is allowed
}

// sendWait is how long a full send buffer may hold a write up.
const sendWait = 500 * time.Millisecond

func newBook(p *plan) *book {
	return &book{plan: p, start: time.Now(), fullDrops: func(a, b int) uint64 { return 0 }, slowest: sendWait + time.Millisecond, closings: make(map[[2]int][]time.Duration), stalls: make([]stall, p.hosts()), latest: make(map[occasion]time.Duration), live: make(map[[2]int]int), ends: make(map[[2]int]time.Duration), short: make(map[int][]time.Duration)}
}

// now is the time since the start of the world.
func (b *book) now() time.Duration { return time.Since(b.start) }

// fail notes a broken promise.
func (b *book) fail(format string, args ...any) {
	b.note(fmt.Sprintf("%v: ", b.now()) + fmt.Sprintf(format, args...))
}

// judged notes a broken promise that shows when the world has ended.
func (b *book) judged(format string, args ...any) { b.note(fmt.Sprintf(format, args...)) }

func (b *book) note(failure string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.failures) < 20 {
		b.failures = append(b.failures, failure)
	}
}

// count adds to the figures.
func (b *book) count(f func(*counts)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f(&b.counts)
}

// open begins a flow.
func (b *book) open(r route, l link) *flow {
	b.mu.Lock()
	defer b.mu.Unlock()
	f := &flow{
		book: b, number: uint32(len(b.flows)), from: r.home, to: r.peer, promises: r.promises, fates: r.fates,
		shared:  r.dialed && r.promises.turn > 0 && b.live[[2]int{r.peer, r.home}] > 0,
		order:   make(turn, 1),
		explain: func() string { return "" },
		ids:     make(map[uint64]uint32), early: make(map[uint64]volley.Fate), told: make(map[uint64]int),
	}
	if l, ok := l.(interface{ explain() string }); ok && r.fates {
		f.explain = l.explain
	}
	if l, ok := l.(*packetLink); ok {
		f.dropped = l.s.dropped
	}
	for _, pair := range [][2]int{{r.peer, r.home}, {r.home, r.peer}} {
		at, ended := b.ends[pair]
		f.shared = f.shared || r.promises.mixed && ended && b.now()-at < lag
	}
	if _, again := b.ends[[2]int{r.home, r.peer}]; again && r.dialed && r.promises.turn > 0 && b.standsStill(r.peer) {
		f.shared = true
	}
	b.flows = append(b.flows, f)
	return f
}

// standsStill reports whether a host does not read its socket.
func (b *book) standsStill(host int) bool {
	return b.stalled(host) || b.plan.happens(host, b.now(), b.now(), pause)
}

// all returns all flows.
func (b *book) all() []*flow {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.flows)
}

// find returns a flow, or nil.
func (b *book) find(number uint32) *flow {
	b.mu.Lock()
	defer b.mu.Unlock()
	if int(number) >= len(b.flows) {
		return nil
	}
	return b.flows[number]
}

// A dropped says that a host has closed connections to a peer without reading everything. A
// message may be acknowledged and unread if it was written before that, and arrived after all
// had been read that was there. Its fate, which is later, stands for the time of its arrival.
type dropped struct {
	host, peer  int // peer -1: all
	empty, over time.Duration
}

// lag is how old a message may be that is read: the longest time on a link, and in the
// buffer of a socket.
const lag = 6 * time.Second

// drop notes that a host has closed connections. At a time, all was read that was there.
func (b *book) drop(host, peer int, empty time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.drops = append(b.drops, dropped{host, peer, empty, b.now()})
}

// excused reports whether a message may be unread though it was delivered.
func (b *book) excused(f *flow, s sent) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.ContainsFunc(b.drops, func(d dropped) bool {
		return d.host == f.to && (d.peer < 0 || d.peer == f.from) && d.empty <= s.fated && s.at <= d.over
	})
}

// judge checks at the end what can only be known then.
func (b *book) judge() {
	unheard := make(map[*atomic.Uint64][]fateless)
	for _, f := range b.flows {
		if f.fates && !f.over {
			b.judged("%v: its connection has not told all fates", f)
		}
		if f.promises.silent {
			clear(f.ids)
		}
		all := f.fateless(math.MaxInt64)
		if f.dropped != nil {
			unheard[f.dropped] = append(unheard[f.dropped], all...)
			all = nil
		}
		for _, m := range all {
			b.judged("%v, and the connection has ended", m)
		}
		for id, fate := range f.early {
			b.judged("%v: id %d has the fate %v, and no message has it", f, id, fate)
		}
		for n, s := range f.sent {
			switch {
			case s.fate == volley.Delivered && (s.read || f.promises.skipped):
			case s.fate == volley.Delivered && f.shared:
				b.counts.Confused++
			case s.fate == volley.Delivered && f.promises.exact && !b.excused(f, s):
				b.judged("%v: message %d, written at %v, is called Delivered at %v and was not read", f, n, s.at, s.fated)
			case s.fate == volley.Lost && f.promises.reliable && f.promises.exact && f.livedAt(s.fated+endLag+f.busy) && !s.blind && !b.closedBetween(f.to, f.from, s.at-calm, s.fated):
				b.judged("%v: message %d, written at %v, is called Lost at %v, while the connection lives", f, n, s.at, s.fated)
			case s.fate == volley.Lost && s.read:
				b.counts.Arrived++
				if f.wronglyLost(n, s) {
					b.judged("%v: message %d, written at %v, is called Lost at %v, and was read", f, n, s.at, s.fated)
				}
			}
		}
	}
	for dropped, all := range unheard {
		if uint64(len(all)) != dropped.Load() {
			b.judged("%d messages have no fate, and %d receipts were dropped: %v", len(all), dropped.Load(), all[:min(1, len(all))])
		}
	}
}

// A pinned is a connection that was closed.
type pinned struct {
	pin  pin
	at   time.Duration
	held time.Duration // at most
	name string
}

// forget notes that a connection was closed, whose memory must be free soon.
func (b *book) forget(p pin, held time.Duration, name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.pins = append(b.pins, pinned{p, b.now(), held, name})
}

// release is how long after its end the memory of a connection may be held: until its
// goodbyes have left, two round trips and a second.
func (p *plan) release() time.Duration {
	rtt := 2 * (p.link.Latency + p.link.Jitter)
	if p.link.Distribution == "long-tail" {
		rtt += 600 * p.link.Jitter
	}
	return 1300*time.Millisecond + 3*rtt
}

// collect collects garbage, and checks that closed connections were part of it.
func (b *book) collect() {
	for range 3 { // what is in a pool survives two
		runtime.GC()
	}
	b.mu.Lock()
	pins := b.pins
	b.pins = nil
	b.mu.Unlock()
	for _, p := range pins {
		switch {
		case b.now()-p.at < p.held:
			b.mu.Lock()
			b.pins = append(b.pins, p)
			b.mu.Unlock()
		case p.pin():
			b.fail("%s: its memory is held, though it was closed at %v", p.name, p.at)
		}
	}
}

// noteClose notes that a host closes a connection to a peer.
func (b *book) noteClose(host, peer int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closings[[2]int{host, peer}] = append(b.closings[[2]int{host, peer}], b.now())
}

// closedBetween reports whether a host has closed a connection to a peer in a time.
func (b *book) closedBetween(host, peer int, from, to time.Duration) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.ContainsFunc(b.closings[[2]int{host, peer}], func(at time.Duration) bool { return from <= at && at <= to })
}

// happened notes that something has happened to a host.
func (b *book) happened(what happening, host int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.latest[occasion{what, host}] = b.now()
}

// refusedFor is how long after the server had no memory its log tells it, at most.
const refusedFor = 11 * time.Second

// tellShort notes that the log of a server tells of it.
func (b *book) tellShort(server int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.short[server] = append(b.short[server], b.now())
}

// shortAt reports whether a server may have had no memory at a time.
func (b *book) shortAt(server int, at time.Duration) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.ContainsFunc(b.short[server], func(told time.Duration) bool { return at <= told && told <= at+refusedFor })
}

// since reports whether something has happened to a host since a time.
func (b *book) since(what happening, host int, from time.Duration) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	at, ever := b.latest[occasion{what, host}]
	return ever && at >= from
}

// alive counts a connection of a host with a peer.
func (b *book) alive(host, peer, n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.live[[2]int{host, peer}] += n
	if n < 0 {
		b.ends[[2]int{host, peer}] = b.now()
	}
}
