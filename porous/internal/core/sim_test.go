package core

import (
	"container/heap"
	"math/rand/v2"
	"testing"
	"time"

	"volley/internal/wire"
)

// A simLink is one direction of a network.
type simLink struct {
	delay, jitter time.Duration // each datagram takes delay to delay+jitter
	loss, dup     float64
	rate          float64 // bytes/s, 0: unlimited
	queue         int     // bytes that wait for the rate
	dark          func(now Clock) bool

	shared            *simLink // whose queue it goes through; nil: its own
	busy              Clock    // until when what was sent occupies the link
	sent, lost, bytes int
}

type simEvent struct {
	at   Clock
	n    int
	to   *simNode
	data []byte // nil: f, or a wake-up
	f    func()
}

type simHeap []simEvent

func (h simHeap) Len() int { return len(h) }
func (h simHeap) Less(i, j int) bool {
	return h[i].at < h[j].at || h[i].at == h[j].at && h[i].n < h[j].n
}
func (h simHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *simHeap) Push(x any)   { *h = append(*h, x.(simEvent)) }
func (h *simHeap) Pop() any {
	x := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return x
}

// A simNode is a Peer in a sim, with what it has been told.
type simNode struct {
	recorder
	name     string
	s        *sim
	p        Peer
	link     simLink // towards the other one
	other    *simNode
	wakeAt   Clock
	onPacket func(channel int, b []byte)
	silent   bool // fates are not recorded
}

func (n *simNode) HandleEvent(e Event) {
	n.s.notes.event(n, e)
	n.recorder.HandleEvent(e)
}

func (n *simNode) HandleFate(f Fate) {
	n.s.notes.fate(n, f)
	if !n.silent {
		n.recorder.HandleFate(f)
	}
}

func (n *simNode) HandlePacket(channel int, b []byte) {
	n.s.notes.packet(n, channel, b)
	if n.onPacket != nil {
		n.onPacket(channel, b)
		return
	}
	n.recorder.HandlePacket(channel, b)
}

// A sim runs two peers in virtual time.
type sim struct {
	now    Clock
	n      int
	events simHeap
	a, b   *simNode
	rand   *rand.Rand
	out    wire.Batch
	notes  *notebook // nil: nothing is written down
}

func newSim(seed uint64, a, b *Config, link simLink) *sim {
	s := &sim{rand: rand.New(rand.NewPCG(seed, 7))}
	s.a, s.b = s.pair(a, b, link)
	return s
}

// pair adds two peers that talk to each other.
func (s *sim) pair(a, b *Config, link simLink) (x, y *simNode) {
	x, y = &simNode{s: s, name: "a", link: link}, &simNode{s: s, name: "b", link: link}
	x.other, y.other = y, x
	x.p.Init(s.now, a, s.rand.Uint32(), x)
	y.p.Init(s.now, b, s.rand.Uint32(), y)
	return x, y
}

// connected runs s until the handshake is done.
func (s *sim) connect(t testing.TB) {
	t.Helper()
	s.a.step()
	s.b.step()
	s.until(t, time.Minute, func() bool { return s.a.p.State() == Connected && s.b.p.State() == Connected })
}

func (s *sim) push(e simEvent) {
	s.n++
	e.n = s.n
	heap.Push(&s.events, e)
}

// at calls f at a time.
func (s *sim) at(t Clock, f func()) { s.push(simEvent{at: t, f: f}) }

// run lets a duration pass.
func (s *sim) run(d time.Duration) {
	end := s.now + d
	for len(s.events) > 0 && s.events[0].at <= end {
		s.next()
	}
	s.now = end
}

// until runs s until the condition holds, and fails after a duration.
func (s *sim) until(t testing.TB, d time.Duration, cond func() bool) {
	t.Helper()
	for end := s.now + d; !cond(); s.next() {
		if len(s.events) == 0 || s.events[0].at > end {
			t.Fatalf("nothing happened within %v: a %+v, b %+v", d, s.a.p.Stats(), s.b.p.Stats())
		}
	}
}

func (s *sim) next() {
	e := heap.Pop(&s.events).(simEvent)
	s.now = max(s.now, e.at)
	switch {
	case e.f != nil:
		e.f()
	case e.data != nil:
		e.to.p.Receive(s.now, e.data, &s.out)
		for len(s.events) > 0 && s.events[0].to == e.to && s.events[0].data != nil && s.events[0].at == e.at {
			e = heap.Pop(&s.events).(simEvent)
			e.to.p.Receive(s.now, e.data, &s.out)
		}
		e.to.p.EndBatch(s.now, &s.out)
		e.to.flush()
		e.to.transmit()
	case e.to.wakeAt == e.at:
		e.to.wakeAt = -1
		e.to.step()
	}
}

// step is what a timer does.
func (n *simNode) step() {
	n.p.Tick(n.s.now, &n.s.out)
	n.flush()
	n.transmit()
}

func (n *simNode) transmit() {
	for more := true; more; {
		more = n.p.Transmit(n.s.now, &n.s.out, 16)
		n.flush()
	}
	at, ok := n.p.Next(n.s.now)
	n.s.notes.step(n, at, ok)
	if ok && at != n.wakeAt {
		n.wakeAt = max(at, n.s.now)
		n.s.push(simEvent{at: n.wakeAt, to: n})
	}
}

// flush gives what was appended to the link.
func (n *simNode) flush() {
	out := &n.s.out
	for i := range out.Len() {
		n.s.notes.datagram(n, out.At(i))
		n.link.send(n.s, n.other, out.At(i))
	}
	out.Reset()
}

const simHeaders = 28

func (l *simLink) send(s *sim, to *simNode, b []byte) {
	l.sent++
	l.bytes += len(b) + simHeaders
	copies := 1
	if s.rand.Float64() < l.dup {
		copies = 2
	}
	for range copies {
		if s.rand.Float64() < l.loss || l.dark != nil && l.dark(s.now) {
			l.lost++
			continue
		}
		at := s.now
		if l.rate > 0 {
			q := l
			if l.shared != nil {
				q = l.shared
			}
			q.busy = max(q.busy, s.now)
			if float64(q.queue) < float64((q.busy-s.now).Seconds()*q.rate)+float64(len(b)+simHeaders) {
				l.lost++
				continue
			}
			q.busy += time.Duration(float64(len(b)+simHeaders) / q.rate * float64(time.Second))
			at = q.busy
		}
		at += l.delay
		if l.jitter > 0 {
			at += time.Duration(s.rand.Int64N(int64(l.jitter)))
		}
		s.push(simEvent{at: at, to: to, data: append([]byte(nil), b...)})
	}
}
