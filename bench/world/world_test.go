package world

import (
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"volley/capture"
	"volley/simnet"
)

// A world is a plan that comes true.
type world struct {
	plan  *plan
	net   *simnet.Network
	book  *book
	hosts []*host
	log   log
	base  uint64 // bytes of heap before

	recorder *capture.Recorder // nil: nothing is recorded

	clientID atomic.Uint64 // of the newest session
	keyFile  string        // of all servers of package secure
}

// A log is the schedule of what happens by plan.
type log struct{ strings.Builder }

func (l *log) add(format string, args ...any) {
	fmt.Fprintf(l, format, args...)
	l.WriteByte('\n')
}

// calm is how long a world lives on after its faults.
const calm = 90 * time.Second

// runWorld runs a world in virtual time, and returns its book and its schedule.
func runWorld(t *testing.T, p *plan) (b *book, schedule string) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(p)
		w.keyFile = filepath.Join(t.TempDir(), "key")
		w.live()
		w.end()
		w.replay()
		b, schedule = w.book, w.schedule()
	})
	b.judge()
	return b, schedule
}

func newWorld(p *plan) *world {
	w := &world{plan: p, net: simnet.New(p.seed), book: newBook(p), recorder: recorder(p)}
	w.book.fullDrops = func(a, b int) uint64 {
		return w.net.LinkStats(p.addr(a), p.addr(b)).ReceiverDrops + w.net.LinkStats(p.addr(b), p.addr(a)).ReceiverDrops
	}
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	w.base = m.HeapAlloc
	w.net.SetDefault(p.link)
	for i := range p.hosts() {
		h := &host{w: w, number: i, mu: make(turn, 1), ends: make(map[*end]bool)}
		if i >= len(p.servers) {
			h.to = w.hosts[p.clients[i-len(p.servers)].server]
			h.stack = h.to.stack
			public := p.addr(i)
			nat, err := w.net.AddNAT(public, netip.PrefixFrom(inside(public), 32), 0)
			if err != nil {
				panic(err)
			}
			h.nat = nat
		} else {
			h.stack = p.servers[i].stack
		}
		w.hosts = append(w.hosts, h)
	}
	return w
}

// live lets everything happen that the plan has.
func (w *world) live() {
	var script []simnet.Step
	for _, f := range w.plan.faults {
		script = append(script, f.steps(w.plan.addr(f.host))...)
	}
	w.net.Play(script)
	for _, h := range w.servers() {
		h.listen()
	}
	var all sync.WaitGroup
	for i, c := range w.plan.clients {
		all.Go(func() { w.hosts[len(w.plan.servers)+i].play(c.steps) })
	}
	all.Go(w.watch)
	for _, f := range w.plan.faults {
		time.Sleep(f.at - w.book.now())
		w.log.add("%s", f.describe(w.plan))
		all.Go(func() { w.happen(f) })
	}
	all.Wait()
	time.Sleep(w.plan.span - w.book.now())
}

// looks are how often memory and waiting messages are looked at before the faults are over.
const looks = 10

// watch looks at the memory of all hosts now and then, and at messages that wait for fates.
func (w *world) watch() {
	for range looks {
		time.Sleep(w.plan.span / (looks + 1))
		w.weigh()
		w.overdue(overdueAfter)
	}
}

// overdueAfter is how long messages may wait for fates where no fault is near. Readers may
// rest for a third of it.
const overdueAfter = time.Minute

// shortFor is for how long after the end of a connection its server may have no memory for the
// messages of others: the next one ends some 10 s later.
const shortFor = 30 * time.Second

// overdue checks that no message waits for its fate for longer than a time.
func (w *world) overdue(limit time.Duration) {
	now := w.book.now()
	flows := slices.DeleteFunc(w.book.all(), func(f *flow) bool {
		return w.plan.troubled(f.from, f.to, now-2*overdueAfter, now) || w.plan.link.Loss >= 0.1 || !f.promises.exact || w.book.since(memoryShort, min(f.from, f.to), now-shortFor)
	})
	for _, m := range overdue(flows, now-limit) {
		w.book.fail("%v; %s", m, m.flow.said())
	}
}

func (w *world) servers() []*host { return w.hosts[:len(w.plan.servers)] }
func (w *world) clients() []*host { return w.hosts[len(w.plan.servers):] }

// happen lets a fault happen to a host.
func (w *world) happen(f fault) {
	h := w.hosts[f.host]
	switch f.kind {
	case kill:
		h.kill(f.lasts)
	case broken:
		h.withSocket(func(s *socket) { s.trouble(f) })
		w.book.happened(socketBroke, h.number)
		time.Sleep(min(f.lasts/2, time.Second))
		h.kill(f.lasts - min(f.lasts/2, time.Second))
	case rebind:
		if h.nat != nil {
			h.nat.Rebind()
		}
	case pause:
		h.withSocket(func(s *socket) { s.stand(f.lasts) })
	case deaf, mute, lie, errnos:
		h.withSocket(func(s *socket) { s.trouble(f) })
	case small:
		h.withSocket(func(s *socket) { s.SetReadBuffer(1 + int(f.amount*20000)) })
		time.Sleep(f.lasts)
		h.withSocket(func(s *socket) { s.SetReadBuffer(socketBuffer) })
	case hoard:
		w.hoard(h, f)
	case forge:
		w.forge(h, f)
	case drain:
		w.drain(h, f)
	}
}

func (h *host) withSocket(do func(*socket)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.sock != nil {
		do(h.sock)
	}
	h.runningMu.Lock()
	defer h.runningMu.Unlock()
	for _, s := range h.more {
		do(s)
	}
}

// longestStall is how long a function of a Handler may hold all others up. A connection ends if
// nothing is heard for longer.
const longestStall = 3 * time.Second

// hoard has nobody read the connections of a host for a while, and the peers write much.
func (w *world) hoard(h *host, f fault) {
	h.mu.Lock()
	if now := w.book.now(); now >= h.stallAgain {
		h.stallAgain = now + 4*longestStall
		w.book.stalls[h.number].next.Store(int64(min(f.lasts, longestStall)))
	}
	h.restLocked(f.lasts)
	for e := range h.ends {
		e.rest(f.lasts)
	}
	if h.end != nil {
		h.end.rest(f.lasts)
	}
	h.mu.Unlock()
	r := rand.New(rand.NewPCG(f.seed, 0))
	largest := f.largest()
	much := int(14<<20+min(memoryLimit(w.plan.servers[w.serverOf(h)]), 4<<20)) / (largest / 2) // messages
	n := 0
	var writers []*host
	for _, c := range w.clients() {
		if c.to == h || c == h {
			writers = append(writers, c)
		}
	}
	for _, c := range writers {
		e, answer := c.connect(), 0
		if c == h {
			answer = largestSize
		}
		for range max(3, much/len(writers)) {
			if e != nil {
				if closed, _ := e.over(); closed {
					e = nil // whose memory must be free soon
				}
			}
			if n++; n%100 == 0 {
				w.hosts[w.serverOf(h)].checkLimits()
			}
			if e != nil {
				w.book.happened(muchWritten, w.serverOf(h))
				e.write(headerSize+r.IntN(largest-headerSize), answer)
			}
			time.Sleep(f.lasts / 4 / time.Duration(much))
		}
	}
	time.Sleep(f.lasts / 2)
	w.weigh()
}

// rest waits while a host reads nothing, until its server ends.
func (w *world) rest(home int) {
	h := w.hosts[home]
	for {
		h.mu.Lock()
		wait := h.rests - w.book.now()
		h.mu.Unlock()
		if wait <= 0 || h.running() == nil {
			return
		}
		time.Sleep(min(wait, time.Second))
	}
}

// checkLimits checks that a server keeps them.
func (h *host) checkLimits() {
	if s := h.running(); s != nil {
		s.check(false)
	}
}

// serverOf returns the number of the server of a host, which may be the host itself.
func (w *world) serverOf(h *host) int {
	if h.isServer() {
		return h.number
	}
	return h.to.number
}

// forge has a stranger send datagrams to a host, in the names of its peers and in its own.
func (w *world) forge(h *host, f fault) {
	r := rand.New(rand.NewPCG(f.seed, 0))
	stranger, err := w.net.Listen("10.9.9.9:0")
	if err != nil {
		return
	}
	defer stranger.Close()
	for end := time.Now().Add(f.lasts); time.Now().Before(end); time.Sleep(f.lasts / 200) {
		junk := w.heardElsewhere(r, h)
		if len(junk) == 0 || r.IntN(4) == 0 {
			junk = make([]byte, 1+r.IntN(100))
		}
		if r.IntN(3) > 0 {
			junk = garble(r, junk)
		}
		h.withSocket(func(s *socket) {
			if name, ok := s.sender(r); ok {
				s.inject(junk, name)
			}
			stranger.WriteToUDPAddrPort(junk, h.addr())
		})
	}
}

// heardElsewhere returns a datagram that another host has received, of the same protocol if there
// is one. A forger who sees nothing between two hosts knows what such look like.
func (w *world) heardElsewhere(r *rand.Rand, h *host) (b []byte) {
	for range 5 {
		other := w.hosts[r.IntN(len(w.hosts))]
		if other == h || !other.mu.TryLock() { // it may dial for long
			continue
		}
		if other.sock != nil {
			b = other.sock.heard(r)
		}
		other.mu.Unlock()
		if other.stack == h.stack {
			break
		}
	}
	return b
}

// end ends all connections and servers, and checks that nothing is left.
func (w *world) end() {
	mild := w.plan.link
	mild.Burst = nil // at one datagram a second, one that is lost with the next ten ends a session
	w.net.SetDefault(mild)
	time.Sleep(calm / 2)
	w.probe()
	time.Sleep(calm / 2)
	w.weigh()
	w.overdue(overdueAfter / 2)
	var all sync.WaitGroup
	for _, h := range w.clients() {
		all.Go(h.leave)
	}
	all.Wait()
	time.Sleep(lag)
	w.weigh()
	for _, h := range w.servers() {
		h.mu.Lock()
		h.over = true
		h.mu.Unlock()
		all.Go(func() {
			if err := h.server.shutdown(); err != nil {
				w.book.fail("host %d: its server has connections a minute after all clients have left: %v", h.number, err)
			}
			<-h.run
			w.book.awaitStall(h.number)
			h.server.check(true)
			for e := range h.ends {
				e.close()
				<-e.done
				<-e.settled
			}
			clear(h.ends)
			h.serve(nil)
			h.server = nil // what is closed may hold memory as long as somebody holds it
		})
	}
	all.Wait()
	time.Sleep(8 * lag)
	w.book.collect()
	w.book.counts.Datagrams = w.net.Stats().Sent
	w.net.Close()
}

// hostOf returns the number of the host with an address, or -1.
func (w *world) hostOf(a net.Addr) int {
	addr := a.(*net.UDPAddr).AddrPort().Addr().Unmap()
	for i := range w.hosts {
		if w.plan.addr(i) == addr {
			return i
		}
	}
	return -1
}

// schedule returns what has happened by plan: the faults and the steps of each client.
func (w *world) schedule() string {
	all := w.log.String()
	for _, h := range w.clients() {
		all += fmt.Sprintf("host %d: %x\n", h.number, sha256.Sum256([]byte(h.log.String())))
	}
	return all
}
