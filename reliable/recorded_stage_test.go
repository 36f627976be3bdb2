package reliable

import (
	"hash/crc32"
	"slices"
	"testing"
	"time"

	"volley/internal/tape"
)

// A letter is a datagram under way.
type letter struct {
	at time.Duration
	to int
	d  []byte
}

// A stage is where a scene is played.
type stage struct {
	t     *testing.T
	name  string
	rng   tape.Rand
	now   time.Duration
	tick  time.Duration // between two updates; 0 for none
	lag   time.Duration // timers go off at multiples of this
	next  time.Duration // update
	sides [2]*actor
	post  func(from *actor, d []byte)
	under []letter // under way, by time
	old   []letter // the newest of those that came
	out   Batch
	lines []string
}

// A scene is what happens between two endpoints.
type scene struct {
	name string
	a, b Config
	play func(s *stage, a, b *actor)
}

func (sc *scene) run(t *testing.T) []string {
	s := &stage{t: t, name: sc.name, rng: tape.Rand(crc32.ChecksumIEEE([]byte(sc.name))), tick: time.Second / 60}
	s.post = s.carry
	for i, cfg := range []Config{sc.a, sc.b} {
		x := &actor{st: s, index: i, name: string(rune('a' + i)), cfg: &cfg}
		if cfg.Reserve != nil {
			cfg.Reserve = x.reserve
		}
		s.sides[i] = x
	}
	s.sides[0].start()
	s.sides[1].start()
	sc.play(s, s.sides[0], s.sides[1])
	return s.lines
}

func (s *stage) time() time.Time { return testTime(0).Add(s.now) }

// carry sends a datagram on its way to the other side.
func (s *stage) carry(from *actor, d []byte) {
	r := from.road
	if r.dead {
		return
	}
	copies := 1
	if chance(&s.rng, r.dup) {
		copies = 2
	}
	for range copies {
		if from.losing > 0 {
			from.losing--
			continue
		}
		if chance(&s.rng, r.loss) {
			from.losing = r.burst
			continue
		}
		at := s.now + r.delay
		if r.jitter > 0 {
			at += time.Duration(s.rng.Below(int(r.jitter)))
		}
		if chance(&s.rng, r.late) {
			at += r.lateBy
		}
		s.put(letter{at, from.index ^ 1, slices.Clone(d)})
	}
}

func (s *stage) put(l letter) {
	i := len(s.under)
	for i > 0 && s.under[i-1].at > l.at {
		i--
	}
	s.under = slices.Insert(s.under, i, l)
}

// roads sets both directions.
func (s *stage) roads(r road) { s.sides[0].road, s.sides[1].road = r, r }

// run lets time pass.
func (s *stage) run(d time.Duration) {
	end := s.now + d
	for {
		at, do := end, func() {}
		consider := func(when time.Duration, f func()) {
			if when < at {
				at, do = max(when, s.now), f
			}
		}
		if len(s.under) > 0 {
			consider(s.under[0].at, s.deliver)
		}
		for _, x := range s.sides {
			if x.control {
				consider(x.controlAt, x.sendControl)
			}
			if x.traffic.every > 0 {
				consider(x.nextSend, x.turn)
			}
		}
		if s.tick > 0 {
			consider(s.next, s.update)
		}
		if at > s.now {
			s.sides[0].hasty, s.sides[1].hasty = 0, 0
		}
		s.now = at
		if at == end {
			return
		}
		do()
	}
}

func (s *stage) deliver() {
	l := s.under[0]
	s.under = s.under[1:]
	s.old = append(s.old, l)
	if len(s.old) > 2000 {
		s.old = slices.Clone(s.old[1000:])
	}
	s.sides[l.to].receive(l.d)
}

func (s *stage) update() {
	for s.next <= s.now {
		s.next += s.tick
	}
	for _, x := range s.sides {
		x.e.Update(s.time())
		x.look()
		x.ponder()
	}
}

// phase runs for a time and ends a phase.
func (s *stage) phase(name string, d time.Duration) {
	s.run(d)
	for _, x := range s.sides {
		s.lines = append(s.lines, x.report(name))
	}
}

// each calls f for both sides.
func (s *stage) each(f func(x *actor)) {
	f(s.sides[0])
	f(s.sides[1])
}
