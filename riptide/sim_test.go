package riptide

import (
	"container/heap"
	"math/rand/v2"
	"testing"
	"time"

	"volley/internal/wire"
)

// A simulation is two connections and a network between them, in a time of
// their own.
type simulation struct {
	t        testing.TB
	now      time.Time
	rng      *rand.Rand
	ends     [2]*connection // by side
	events   [2]*recorder
	flight   flight
	n        int // datagrams sent
	latency  time.Duration
	jitter   time.Duration
	loss     float64
	dup      float64
	blackout func(at time.Time) bool
	sent     func(from side, b []byte)
	arrives  func(at side, b []byte)
}

type travelling struct {
	at   time.Time
	n    int
	to   side
	data []byte
}

type flight []travelling

func (f flight) Len() int { return len(f) }
func (f flight) Less(i, j int) bool {
	return f[i].at.Before(f[j].at) || f[i].at.Equal(f[j].at) && f[i].n < f[j].n
}
func (f flight) Swap(i, j int) { f[i], f[j] = f[j], f[i] }
func (f *flight) Push(x any)   { *f = append(*f, x.(travelling)) }
func (f *flight) Pop() any {
	last := len(*f) - 1
	x := (*f)[last]
	*f = (*f)[:last]
	return x
}

func newSimulation(t testing.TB, cfg *Config, seed uint64) *simulation {
	s := &simulation{t: t, now: start, rng: rand.New(rand.NewPCG(seed, 1)), latency: 20 * time.Millisecond}
	set, err := newSettings(cfg)
	if err != nil {
		t.Fatal(err)
	}
	for i := range s.ends {
		s.ends[i], s.events[i] = new(connection), new(recorder)
		s.ends[i].init(set, side(i), s.now, s.events[i])
	}
	return s
}

// connect connects the ends.
func (s *simulation) connect() {
	s.t.Helper()
	var out wire.Batch
	s.ends[clientSide].connect(s.now, nil, &out)
	s.transmit(clientSide, &out)
	s.ends[serverSide].accept(s.now, 1, &out)
	s.transmit(serverSide, &out)
	for range 4000 {
		if s.ends[0].state == stateConnected && s.ends[1].state == stateConnected {
			return
		}
		s.step(s.now.Add(10 * time.Millisecond))
	}
	s.t.Fatalf("not connected: %v, %v", s.events[0].log, s.events[1].log)
}

// transmit puts what an end has appended on the network.
func (s *simulation) transmit(from side, out *wire.Batch) {
	for i := range out.Len() {
		b := out.At(i)
		if s.sent != nil {
			s.sent(from, b)
		}
		copies := 1
		if s.rng.Float64() < s.dup {
			copies = 2
		}
		for range copies {
			s.n++
			if s.rng.Float64() < s.loss || s.blackout != nil && s.blackout(s.now) {
				continue
			}
			delay := s.latency
			if s.jitter > 0 {
				delay += time.Duration(s.rng.Int64N(int64(s.jitter)))
			}
			heap.Push(&s.flight, travelling{s.now.Add(delay), s.n, 1 - from, append([]byte(nil), b...)})
		}
	}
	out.Reset()
}

// watchIDs watches the ids of reliable messages that are under way: over how many
// they extend, and how far one that arrives is ahead of those that have come.
func (s *simulation) watchIDs() (span, jump *int) {
	span, jump = new(int), new(int)
	s.sent = func(from side, _ []byte) {
		*span = max(*span, int(s.ends[from].sender.next-s.ends[from].sender.oldest))
	}
	was := s.arrives
	s.arrives = func(at side, b []byte) {
		if p, ok := s.ends[at].set.parse(1-at, b); ok && p.typ.reliable() {
			*jump = max(*jump, gap(p.seq, s.ends[at].history.newest))
		}
		if was != nil {
			was(at, b)
		}
	}
	return span, jump
}

// send sends a user message from an end.
func (s *simulation) send(from side, m Mode, msg *Message) (uint16, error) {
	var out wire.Batch
	id, err := s.ends[from].send(s.now, m, msg.body(), &out)
	s.transmit(from, &out)
	return id, err
}

// step lets time pass until the given one.
func (s *simulation) step(until time.Time) {
	var out wire.Batch
	for {
		at, end := until, -1
		for i, c := range s.ends {
			if next := c.next(); !next.IsZero() && next.Before(at) {
				at, end = next, i
			}
		}
		if len(s.flight) > 0 && !s.flight[0].at.After(at) && s.flight[0].at.Before(until) {
			d := heap.Pop(&s.flight).(travelling)
			s.now = d.at
			if s.arrives != nil {
				s.arrives(d.to, d.data)
			}
			s.ends[d.to].receive(s.now, d.data, &out)
			s.transmit(d.to, &out)
			continue
		}
		if end < 0 {
			break
		}
		if at.After(s.now) {
			s.now = at
		}
		s.ends[end].tick(s.now, false, &out)
		s.transmit(side(end), &out)
		if next := s.ends[end].next(); !next.IsZero() && !next.After(at) {
			s.t.Fatalf("tick at %v wants the next one at %v", at.Sub(start), next.Sub(start))
		}
	}
	s.now = until
}

// numbered returns a message that holds a number.
func numbered(cfg *Config, m Mode, n int) *Message {
	msg := cfg.NewMessage(m, 1)
	if m == Notify {
		msg = cfg.NewMessage(Notify, 0)
	}
	Add[uint32](msg, uint32(n))
	return msg
}

// numbersOf returns how often each number was received, by mode.
func numbersOf(t testing.TB, r *recorder, layout layout) (counts [numModes]map[int]int) {
	for i := range counts {
		counts[i] = make(map[int]int)
	}
	m := new(Message)
	for _, body := range r.messages {
		mode := Mode(body[0])
		m.loadUser(layout, mode, []byte(body[1:]))
		counts[mode][int(Read[uint32](m))]++
		if m.Err() != nil {
			t.Fatal(m.Err())
		}
	}
	return counts
}
