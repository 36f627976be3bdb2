package world

import (
	"fmt"
	"math"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"time"

	"volley/simnet"
)

// A plan is everything that a seed decides about a world, before it begins.
type plan struct {
	seed    uint64
	mad     float64       // 0 for a mild world, 1 for a mad one
	span    time.Duration // until the faults are over
	link    simnet.Link   // of all hosts, where no fault changes it
	servers []serverPlan
	clients []clientPlan
	faults  []fault // in the order of their times
}

// A serverPlan is what a server runs.
type serverPlan struct {
	stack  stack
	config int // which of its configurations
}

// A mode is how a server reads its connections.
type mode int

const (
	accepting mode = iota // a goroutine for each
	serving               // a Handler
	polling               // a Handler, now and then
)

func (p serverPlan) mode() mode {
	switch p.stack {
	case volleyAccepted:
		return accepting
	case volleyServed:
		return serving
	case volleyPolled:
		return polling
	}
	return mode(p.config / 16 % 3)
}

// A clientPlan is what a client does.
type clientPlan struct {
	server int
	steps  []step
}

// A step is one choice of an application.
type step struct {
	at     time.Duration // since the start of the world
	kind   stepKind
	n      int // how many messages
	size   int // of each, in bytes
	answer int // the size of an answer to each; 0: none
	lasts  time.Duration
}

type stepKind int

const (
	write stepKind = iota // n messages
	leave                 // close the connection, and dial again
	rest                  // read nothing for a while
	hurry                 // read with a deadline
	look                  // ask for figures
	stepKinds
)

var stepNames = [stepKinds]string{"write", "leave", "rest", "hurry", "look"}

func (s step) String() string {
	return fmt.Sprintf("%v %s %d of %d answer %d for %v", s.at, stepNames[s.kind], s.n, s.size, s.answer, s.lasts)
}

const (
	// margin is how long before the end of the span a fault is over.
	margin = time.Second
	// budget is how many messages the clients of a world write, about.
	budget = 12000
)

// A lot draws what the seed decides about one subject. Each subject has random numbers of
// its own, so that a change of one leaves the others as they were.
type lot struct{ *rand.Rand }

func newLot(seed uint64, subject string, n int) lot {
	h := seed
	for _, b := range []byte(subject) {
		h = (h ^ uint64(b)) * 0x100000001b3
	}
	return lot{rand.New(rand.NewPCG(h, uint64(n)))}
}

// chance reports true with a probability.
func (l lot) chance(p float64) bool { return l.Float64() < p }

// between returns a number from a to b, evenly in its logarithm.
func (l lot) between(a, b float64) float64 { return a * math.Pow(b/a, l.Float64()) }

// duration returns a time from a to b, evenly in its logarithm, in whole milliseconds.
func (l lot) duration(a, b time.Duration) time.Duration {
	return time.Duration(l.between(float64(a), float64(b))).Round(time.Millisecond)
}

// pick returns an index by weights.
func (l lot) pick(weights []float64) int {
	sum := 0.0
	for _, w := range weights {
		sum += w
	}
	x := l.Float64() * sum
	for i, w := range weights {
		if x -= w; x < 0 {
			return i
		}
	}
	return len(weights) - 1
}

// newPlan draws a world.
func newPlan(seed uint64) *plan {
	l := newLot(seed, "world", 0)
	p := &plan{seed: seed}
	if !l.chance(0.25) {
		p.mad = math.Pow(l.Float64(), 1.5)
	}
	spans := []time.Duration{time.Minute, 5 * time.Minute, 20 * time.Minute, 3 * time.Hour}
	p.span = l.duration(spans[l.pick([]float64{4, 3, 2, 1})]/2, spans[l.pick([]float64{4, 3, 2, 1})]+time.Minute)
	p.link = drawLink(newLot(seed, "link", 0), p.mad)
	for i := range 1 + l.IntN(3) {
		s := newLot(seed, "server", i)
		p.servers = append(p.servers, serverPlan{stack: stack(s.pick(stackWeights)), config: s.IntN(1 << 16)})
	}
	clients := int(l.between(1, 12))
	if l.chance(0.1) {
		clients = int(l.between(20, 400))
	}
	for i := range clients {
		p.clients = append(p.clients, p.drawClient(newLot(seed, "client", i), budget/clients))
	}
	p.faults = p.drawFaults(newLot(seed, "faults", 0))
	return p
}

// drawLink draws the links of a world.
func drawLink(l lot, mad float64) simnet.Link {
	link := simnet.Link{Latency: l.duration(time.Millisecond, 150*time.Millisecond)}
	if l.chance(0.7) {
		link.Jitter = time.Duration(l.Float64() * float64(link.Latency) / 2)
		link.Distribution = []string{"uniform", "normal", "long-tail"}[l.IntN(3)]
		if link.Distribution == "long-tail" {
			link.Jitter = min(link.Jitter, 3*time.Millisecond)
		}
		link.Ordered = l.chance(0.3)
	}
	if l.chance(0.2 + mad/2) {
		link.Loss = l.between(0.001, 0.01+0.2*mad)
	}
	if l.chance(mad / 2) {
		link.Burst = simnet.Bursts(l.between(0.001, 0.05), l.between(2, 20))
	}
	if l.chance(mad / 2) {
		link.Duplicate = l.between(0.001, 0.2)
	}
	if l.chance(mad / 2) {
		link.Reorder, link.ReorderBy = l.between(0.001, 0.2), l.duration(time.Millisecond, time.Second)
	}
	return link
}

// drawClient draws what a client does, with about the given number of messages.
func (p *plan) drawClient(l lot, messages int) clientPlan {
	c := clientPlan{server: l.IntN(len(p.servers))}
	burst := 1
	if l.chance(0.5) {
		burst = int(l.between(1, 300))
	}
	gap := p.span / time.Duration(1+messages/burst)
	gap = max(gap, 5*time.Millisecond)
	weights := []float64{write: 40, leave: l.between(0.01, 1), rest: 0.2 + p.mad, hurry: 1, look: 1}
	idle := l.chance(0.3) // whether it falls silent for long
	at, left := l.duration(time.Millisecond, time.Second), time.Duration(0)
	for at < p.span && messages > 0 {
		s := step{at: at, kind: stepKind(l.pick(weights)), n: 1, lasts: l.duration(time.Millisecond, 20*time.Second)}
		if burst > 1 {
			s.n = 1 + l.IntN(2*burst)
		}
		s.size = headerSize + int(l.between(1, 400))
		if l.chance(0.05) {
			s.size, s.n = int(l.between(headerSize, largestSize)), min(s.n, 4)
		}
		if l.chance(0.5) {
			s.answer = headerSize + int(l.between(1, 600))
		}
		switch {
		case s.kind == write:
			messages -= s.n
		case s.kind == leave && at-left < 10*time.Second:
			s.kind = look // because messages of a short life are lost
		case s.kind == leave:
			left = at
		}
		c.steps = append(c.steps, s)
		at += time.Duration(l.ExpFloat64() * float64(gap)).Round(time.Microsecond)
		if idle && l.chance(0.01) {
			at += l.duration(time.Second, p.span/3)
		}
	}
	return c
}

// drawFaults draws the faults of a world.
func (p *plan) drawFaults(l lot) []fault {
	n := int(float64(len(p.clients)+2) * l.between(0.2, 2+10*p.mad))
	n = min(n, 150)
	if p.mad == 0 {
		n = l.IntN(3)
	}
	weights := slices.Clone(faultWeights)
	for i := range weights {
		weights[i] *= l.Float64() // each world has its own mix
	}
	if l.chance(0.75) {
		weights[corrupt] = 0 // because it weakens what can be checked
	}
	if !l.chance(0.2) {
		weights[forge], weights[lie] = 0, 0
	}
	var faults []fault
	for range n {
		f := fault{kind: faultKind(l.pick(weights))}
		f.lasts = l.duration(100*time.Millisecond, min(90*time.Second, p.span/2))
		if last := p.span - margin - f.lasts; last > 0 {
			f.at = time.Duration(l.Float64() * float64(last)).Round(time.Millisecond)
		}
		f.host = l.IntN(len(p.servers) + len(p.clients))
		if l.chance(0.3) || f.kind == drain || f.kind == hoard && l.chance(0.7) {
			f.host = l.IntN(len(p.servers))
		}
		switch f.kind {
		case rebind: // clients are behind a NAT
			f.host = len(p.servers) + l.IntN(len(p.clients))
		case drain:
			f.host = p.drainer(l)
			if f.host < 0 {
				f.kind, f.host = kill, l.IntN(len(p.servers))
			}
		}
		f.way = way(l.IntN(3))
		f.amount = l.between(0.01, 0.9)
		f.seed = l.Uint64()
		faults = append(faults, f)
	}
	slices.SortStableFunc(faults, func(a, b fault) int { return int(a.at - b.at) })
	return faults
}

// drainer returns a server that can send its clients away, or -1.
func (p *plan) drainer(l lot) int {
	var able []int
	for i, s := range p.servers {
		if s.stack >= secureSessions {
			able = append(able, i)
		}
	}
	if len(able) == 0 {
		return -1
	}
	return able[l.IntN(len(able))]
}

// hosts returns how many hosts there are: first the servers, then the clients.
func (p *plan) hosts() int { return len(p.servers) + len(p.clients) }

// stackOf returns what two hosts speak to each other.
func (p *plan) stackOf(a, b int) stack { return p.servers[min(a, b)].stack }

// addr returns the address of a host.
func (p *plan) addr(host int) netip.Addr {
	if host < len(p.servers) {
		return netip.AddrFrom4([4]byte{10, 0, 0, byte(1 + host)})
	}
	host -= len(p.servers)
	return netip.AddrFrom4([4]byte{10, 1, byte(host / 250), byte(1 + host%250)})
}

// keep returns the plan with some of its faults, by their numbers.
func (p *plan) keep(numbers []int) *plan {
	q := *p
	q.faults = nil
	for _, n := range numbers {
		if n >= 0 && n < len(p.faults) {
			q.faults = append(q.faults, p.faults[n])
		}
	}
	return &q
}

// String describes the world in a line.
func (p *plan) String() string {
	var stacks []string
	for _, s := range p.servers {
		stacks = append(stacks, stackNames[s.stack])
	}
	return fmt.Sprintf("seed %d: %v, madness %.2f, %s, %d clients, %d faults, latency %v, loss %.3f",
		p.seed, p.span, p.mad, strings.Join(stacks, " + "), len(p.clients), len(p.faults), p.link.Latency, p.link.Loss)
}
