package reliable

import "time"

// Scenes in which an endpoint begins anew, sequences jump, and garbage comes.

// playRestart has sides start anew while the other one remembers them.
func playRestart(s *stage, a, b *actor) {
	restart := func(x *actor) {
		x.e.Free()
		x.start()
	}
	s.roads(fine)
	a.begin(traffic{every: hertz(30), min: 10, max: 1500})
	b.begin(traffic{every: hertz(30), min: 10, max: 1500})
	s.phase("good", time.Second)
	restart(b)
	s.phase("restart", 2*time.Second)
	restart(a)
	s.under = nil
	s.phase("other-restart", 2*time.Second)
	a.begin(traffic{})
	s.phase("listens", time.Second)
	restart(b)
	b.begin(traffic{every: hertz(10), min: 10, max: 10})
	s.phase("heard", 2*time.Second)
	b.begin(traffic{})
	s.phase("idle", 9*time.Second)
	restart(b)
	b.begin(traffic{every: hertz(10), min: 10, max: 3000})
	s.phase("soon", 3*time.Second)
	b.begin(traffic{})
	s.phase("silence", 12*time.Second)
	restart(b)
	b.begin(traffic{every: hertz(10), min: 10, max: 3000})
	s.phase("late", 3*time.Second)
	restart(a)
	restart(b)
	a.begin(traffic{every: hertz(10), min: 10, max: 10})
	s.phase("both", 3*time.Second)
	a.begin(traffic{every: hertz(300), min: 10, max: 10})
	b.begin(traffic{every: hertz(3), min: 10, max: 10})
	s.roads(rough)
	s.phase("rough", 3*time.Second)
	restart(b)
	s.phase("rough-restart", 3*time.Second)
	b.begin(traffic{every: hertz(300), min: 10, max: 10})
	s.phase("follows", 2*time.Second)
	b.e.Inner().Renew()
	a.e.Reset()
	s.phase("renewed", time.Second)
	restart(b)
	b.begin(traffic{})
	s.phase("deaf", 40*time.Second)
	a.begin(traffic{})
	restart(b)
	b.begin(traffic{every: hertz(2), empty: 700, min: 10, max: 10})
	s.phase("hardly-a-message", 40*time.Second)
}

// playJumps gives a side packets of sequences that do not follow.
func playJumps(s *stage, a, b *actor) {
	s.roads(fine)
	a.begin(traffic{every: hertz(60), min: 10, max: 20})
	s.phase("good", 2*time.Second)
	next := a.e.NextSequence
	jump := func(by int, n int) {
		h := Header{Sequence: next() + uint16(by), Ack: uint16(b.e.NextID()) - 1, AckBits: 1}
		d := AppendHeader(nil, h)
		b.receive(append(d, noise[:n]...))
	}
	piece := func(by int, id uint8) {
		f := FragmentHeader{Sequence: next() + uint16(by), ID: id, Count: 3}
		d := AppendFragmentHeader(nil, f)
		if id == 0 {
			d = AppendHeader(d, Header{Sequence: f.Sequence, Ack: uint16(b.e.NextID()) - 1})
		}
		b.receive(append(d, noise[:1024]...))
	}
	steps := []int{1, 3, 31, 32, 33, 62, 63, 64, 65, 100, 255, 256, 257, 1000, 4000, 4095, 4096, 4097, 8000, 20000, 32000, 32766, 32767, 32768, 32769, 40000, 60000, 65000, 65300, 65500}
	for i, by := range steps {
		jump(by, 5)
		if i%3 == 0 {
			s.run(10 * milli)
		}
	}
	s.phase("alone", 200*milli)
	for _, by := range steps {
		piece(by, uint8(by%3))
	}
	s.phase("pieces", 200*milli)
	for i, by := range steps {
		for _, more := range []int{0, []int{0, 1, 15, 16, 17, -1}[i%6]} {
			jump(by+more, more&1)
		}
		s.run(time.Duration(i%2) * 20 * milli)
	}
	s.phase("pairs", 200*milli)
	a.begin(traffic{})
	s.phase("idle", 9900*milli)
	jump(64000, 1)
	s.run(50 * milli)
	jump(64001, 1)
	s.phase("behind", 20*milli)
	jump(30000, 1)
	s.run(10 * time.Second)
	jump(50000, 1)
	jump(50003, 1)
	jump(49990, 1)
	jump(49000, 1)
	s.phase("believed", 100*milli)
	piece(12000, 1)
	piece(12001, 0)
	piece(12001, 1)
	piece(12001, 2)
	a.begin(traffic{every: hertz(60), min: 10, max: 20})
	s.phase("pieces-again", 3*time.Second)
	b.e.Inner().Renew()
	jump(500, 1)
	jump(480, 1)
	piece(400, 0)
	s.phase("renewed", time.Second)
	b.e.Inner().Renew()
	piece(3000, 1)
	s.phase("renewed-piece", time.Second)
	for range 3000 {
		d := s.rng.Between(-5000, 5000)
		switch s.rng.Below(8) {
		case 0:
			d *= 7
		case 1, 2, 3:
			d /= 300
		}
		jump(d, s.rng.Below(2))
		if chance(&s.rng, 300) {
			s.run(time.Duration(s.rng.Below(10)) * milli)
		}
		if chance(&s.rng, 3) {
			a.begin(traffic{})
			s.run(10 * time.Second)
			a.begin(traffic{every: hertz(60), min: 10, max: 20})
		}
	}
	s.phase("wild", time.Second)
}

// playHostile spoils datagrams in every way.
func playHostile(s *stage, a, b *actor) {
	s.roads(fine)
	b.answer = true
	a.begin(traffic{every: hertz(60), min: 0, max: 3000, edges: 100})
	b.begin(traffic{every: hertz(10), min: 0, max: 3000, edges: 100})
	s.phase("good", time.Second)
	spoil := func() {
		l := s.old[s.rng.Below(len(s.old))]
		d := append([]byte(nil), l.d...)
		for range s.rng.Between(1, 3) {
			i := s.rng.Below(min(len(d), 14))
			switch s.rng.Below(6) {
			case 0:
				d[i] ^= 1 << s.rng.Below(8)
			case 1:
				d[i] = byte(s.rng.Uint64())
			case 2:
				d = d[:s.rng.Between(1, len(d))]
			case 3:
				d = append(d, noise[:s.rng.Below(20)]...)
			case 4:
				d[i]++
			case 5:
				d[i]--
			}
		}
		if chance(&s.rng, 10) {
			d = append(d, noise[:s.rng.Between(15000, 17000)]...)
		}
		s.sides[l.to].receive(d)
	}
	for _, name := range []string{"spoiled", "spoiled-more", "spoiled-lossy"} {
		for range 1500 {
			spoil()
			if chance(&s.rng, 200) {
				s.run(5 * milli)
			}
		}
		s.phase(name, 200*milli)
		s.roads(rough)
	}
	a.receive(nil)
	a.receive([]byte{0})
	a.receive(noise[:20000])
	a.inside, b.inside = s.old[0].d, s.old[1].d
	s.phase("reentrant", time.Second)
	a.inside, b.inside = nil, nil
	for range 1500 {
		l := s.old[s.rng.Below(len(s.old))]
		s.sides[l.to].receive(l.d)
		if chance(&s.rng, 300) {
			s.run(3 * milli)
		}
	}
	s.phase("repeated", time.Second)
	for range 300 {
		l := s.old[s.rng.Below(len(s.old))]
		s.sides[l.to^1].receive(l.d)
		s.run(5 * milli)
	}
	s.phase("reflected", time.Second)
}
