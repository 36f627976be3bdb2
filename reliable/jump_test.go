package reliable

import (
	"math/rand/v2"
	"testing"
	"time"
)

// A stream sends packets in sequence to a receiver and remembers them all.
type stream struct {
	t        *testing.T
	from, to *Endpoint
	now      time.Time
	packets  [][]byte // by id
	times    []int    // how often each was delivered, by id
	current  int      // id of the packet being received
}

func (s *stream) HandleMessage(uint16, []byte) bool {
	s.times[s.current]++
	return true
}

func newStream(t *testing.T, cfg *Config) *stream {
	s := &stream{t: t, now: testTime(0)}
	s.from, _ = newEndpoint(nil, s.now, nil)
	to, err := newEndpoint(cfg, s.now, s)
	if err != nil {
		t.Fatal(err)
	}
	s.to = to
	return s
}

// send makes the next n packets.
func (s *stream) send(n int) {
	var out Batch
	for range n {
		out.Reset()
		mustSend(s.t, s.from, s.now, []byte{1}, &out)
		s.packets = append(s.packets, append([]byte(nil), out.At(0)...))
		s.times = append(s.times, 0)
	}
}

// receive delivers packet id, a microsecond after the one before.
func (s *stream) receive(id int) Verdict {
	s.now = s.now.Add(time.Microsecond)
	s.current = id
	return s.to.Receive(s.now, s.packets[id])
}

// run sends and delivers n packets and returns how many were not delivered.
func (s *stream) run(n int) (refused int) {
	first := len(s.packets)
	s.send(n)
	for id := first; id < first+n; id++ {
		if s.receive(id) != Delivered {
			refused++
		}
	}
	return refused
}

func (s *stream) checkOnce() {
	s.t.Helper()
	for id, n := range s.times {
		if n > 1 {
			s.t.Errorf("packet %d was delivered %d times", id, n)
		}
	}
}

func TestJumpGuardLateDuplicate(t *testing.T) {
	for _, late := range []int{300, 5000, 16000, 20000, 30000, 32767, 32768, 32769, 33100, 40000, 61000} {
		s := newStream(t, connConfig())
		if n := s.run(80_000); n > 0 {
			t.Fatalf("%d packets refused in order", n)
		}
		if v := s.receive(len(s.packets) - late); v == Delivered {
			t.Errorf("%d late: %v", late, v)
		}
		if n := s.run(70_000); n > 0 {
			t.Errorf("%d late: %d good packets refused", late, n)
		}
		s.checkOnce()
	}
}

func TestJumpGuardGap(t *testing.T) {
	for _, gap := range []int{100, 4000, 4095, 4096, 5000, 16000, 32000, 32700} {
		s := newStream(t, connConfig())
		s.run(80_000)
		s.send(gap)
		if n := s.run(70_000); n > 16 {
			t.Errorf("gap of %d: %d good packets refused", gap, n)
		}
		s.checkOnce()
	}
}

// TestJumpGuardLongGap shows gaps of more than half the range, which look like
// steps back: they cost the rest of the range, or end with a silence.
func TestJumpGuardLongGap(t *testing.T) {
	for _, gap := range []int{32768, 40000, 49000} {
		s := newStream(t, connConfig())
		s.run(80_000)
		s.send(gap)
		if n, rest := s.run(70_000), 65536-gap; n > rest {
			t.Errorf("gap of %d: %d good packets refused, want at most %d", gap, n, rest)
		}
		s.send(gap)
		s.now = s.now.Add(10 * time.Second)
		if n := s.run(70_000); n > 1 {
			t.Errorf("gap of %d and silence: %d good packets refused", gap, n)
		}
		s.checkOnce()
	}
}

// TestJumpGuardNoStepBack sends late copies in pairs that look as if they
// confirmed each other.
func TestJumpGuardNoStepBack(t *testing.T) {
	for _, window := range []int{256, 4096, 16384} {
		cfg := connConfig()
		cfg.MaxWindow = window
		s := newStream(t, cfg)
		s.run(window + 1100)
		for id := 100; id < 200; id++ {
			if v := s.receive(id); v == Delivered || v == parked {
				t.Fatalf("MaxWindow %d: packet %d again: %v", window, id, v)
			}
		}
		if n := s.run(100); n > 0 {
			t.Errorf("MaxWindow %d: %d packets refused in order", window, n)
		}
		s.checkOnce()
	}
}

// TestJumpGuardTurn loses nearly a whole turn of the sequence in a row, so that
// the next packet fills a hole of the window, which is a turn behind. Packets
// that were sent before it and arrive now must not move the window to where it
// has forgotten that one.
func TestJumpGuardTurn(t *testing.T) {
	s := newStream(t, connConfig())
	const hole, last = 37_000, 37_000 + 65_536
	s.send(last + 1)
	for id := range 40_000 {
		if id != hole {
			s.receive(id)
		}
	}
	if v := s.receive(last); v != Delivered {
		t.Fatalf("packet in the hole: %v", v)
	}
	for id := last - 31_000; id < last; id++ {
		s.receive(id)
	}
	s.receive(last)
	s.checkOnce()
}

// TestJumpGuardFragments jumps with packets in fragments, the parts of which
// must not be mistaken for a confirmation.
func TestJumpGuardFragments(t *testing.T) {
	cfg := connConfig()
	delivered := 0
	to, _ := newEndpoint(cfg, testTime(0), HandlerFunc(func(uint16, []byte) bool { delivered++; return true }))
	from, _ := newEndpoint(nil, testTime(0), nil)
	var out Batch
	send := func() (last Verdict) {
		out.Reset()
		mustSend(t, from, testTime(0), make([]byte, 3000), &out)
		for i := range out.Len() {
			last = to.Receive(testTime(0), out.At(i))
		}
		return last
	}
	send()
	from.out.nextID += 20000
	if v := send(); v != parked {
		t.Errorf("first packet after the gap: %v, want Parked", v)
	}
	for range 5 {
		if v := send(); v != Delivered {
			t.Errorf("later packet after the gap: %v, want Delivered", v)
		}
	}
	if delivered != 6 {
		t.Errorf("%d packets delivered, want 6", delivered)
	}
	if wait, owed := to.ControlDue(testTime(0)); !owed || wait > 0 {
		t.Error("no ack is due after a jump")
	}
}

// TestJumpGuardConfirmation says what confirms a jump and what does not.
func TestJumpGuardConfirmation(t *testing.T) {
	from := func(s uint16) []byte { return AppendHeader(nil, Header{s, 65535, 0}) }
	for _, test := range []struct {
		sequences []uint16
		want      []Verdict
	}{
		{[]uint16{0, 64, 128}, []Verdict{Delivered, Delivered, Delivered}},
		{[]uint16{0, 65, 66}, []Verdict{Delivered, parked, Delivered}},
		{[]uint16{0, 65, 66, 3}, []Verdict{Delivered, parked, Delivered, Delivered}},
		{[]uint16{0, 65, 1, 2}, []Verdict{Delivered, parked, Delivered, Delivered}},
		{[]uint16{0, 3000, 3001, 2950}, []Verdict{Delivered, parked, Delivered, Delivered}},
		{[]uint16{0, 9000, 9001}, []Verdict{Delivered, parked, Delivered}},
		{[]uint16{0, 9000, 9016}, []Verdict{Delivered, parked, Delivered}},
		{[]uint16{0, 9000, 9017}, []Verdict{Delivered, parked, parked}},
		{[]uint16{0, 9000, 9000}, []Verdict{Delivered, parked, parked}},
		{[]uint16{0, 9001, 9000, 9002}, []Verdict{Delivered, parked, parked, Delivered}},
		{[]uint16{0, 9000, 1, 9001}, []Verdict{Delivered, parked, Delivered, parked}},
		{[]uint16{0, 9000, 0, 9001}, []Verdict{Delivered, parked, Duplicate, Delivered}},
		{[]uint16{0, 9000, 9001, 9000, 9002}, []Verdict{Delivered, parked, Delivered, Duplicate, Delivered}},
		{[]uint16{0, 4096, 4097}, []Verdict{Delivered, parked, Delivered}},
		{[]uint16{0, 4097, 4098}, []Verdict{Delivered, parked, Delivered}},
		{[]uint16{0, 9000, 65535 - 30000, 9001}, []Verdict{Delivered, parked, stale, Delivered}},
		{[]uint16{0, 65535 - 30000, 65535 - 29999}, []Verdict{Delivered, stale, stale}},
		{[]uint16{0, 32769, 32770}, []Verdict{Delivered, stale, stale}},
		{[]uint16{0, 32766, 32767}, []Verdict{Delivered, parked, Delivered}},
		{[]uint16{40000, 40001, 40002}, []Verdict{parked, Delivered, Delivered}}, // nothing came before
	} {
		e, _ := newEndpoint(connConfig(), testTime(0), HandlerFunc(func(uint16, []byte) bool { return true }))
		for i, s := range test.sequences {
			if v := e.Receive(testTime(0), from(s)); v != test.want[i] {
				t.Errorf("%v: packet %d: %v, want %v", test.sequences, i, v, test.want[i])
			}
		}
	}
}

// TestJumpGuardGrown shows that a window that has grown believes jumps within
// it, up to 4096.
func TestJumpGuardGrown(t *testing.T) {
	for ahead, want := range map[int]Verdict{1000: Delivered, 2047: Delivered, 2048: parked, 4095: parked} {
		s := newStream(t, connConfig())
		for s.to.in.seen.Track() < 2048 {
			s.run(1)
		}
		next := len(s.packets)
		s.send(ahead + 1)
		if v := s.receive(next + ahead); v != want {
			t.Errorf("packet %d ahead: %v, want %v", ahead, v, want)
		}
	}
	s := newStream(t, connConfig())
	s.run(80_000)
	s.send(4097)
	if v := s.receive(80_000 + 4095); v != Delivered {
		t.Errorf("packet 4095 ahead: %v, want Delivered", v)
	}
	s.send(4096)
	if v := s.receive(80_000 + 4096 + 4096); v != parked {
		t.Errorf("packet 4096 ahead: %v, want Parked", v)
	}
}

// TestForgedSequence puts one packet with a wrong sequence into a slow stream,
// whose windows are small. Hardly anything may come of it.
func TestForgedSequence(t *testing.T) {
	for _, ahead := range []uint16{1, 40, 63, 64, 65, 300, 1000, 3000, 4095, 4096, 20000, 32768, 65000} {
		s := newSim(t, connConfig(), simLink{delay: 20 * time.Millisecond})
		for i := range 60 * 20 {
			if i == 60*5 {
				h := Header{s.peers[1].in.seen.Next() + ahead, 65535, 0}
				s.peers[1].Receive(s.time(), AppendHeader(nil, h))
			}
			for k, p := range s.peers {
				s.send(k, p.message(50))
				p.Update(s.time())
			}
			s.advance(time.Second / 60)
		}
		s.settle()
		from, to := s.peers[0], s.peers[1]
		if missing := int(from.messages) - len(to.seen); missing > 1 {
			t.Errorf("%d ahead: %d messages were not delivered", ahead, missing)
		}
		unacked := 0
		for id := range to.seen {
			if from.fates[id] != FateDelivered {
				unacked++
			}
		}
		if unacked > 64 {
			t.Errorf("%d ahead: %d delivered messages were presumed lost", ahead, unacked)
		}
	}
}

// TestGrownWindow compares a growing window with a fixed one of its full size:
// it delivers the same, but for what is later than it has ever looked back.
func TestGrownWindow(t *testing.T) {
	growing := newStream(t, connConfig())
	fixed := newStream(t, &Config{ReceivedBuffer: 16384})
	rng := rand.New(rand.NewPCG(3, 3))
	var held []int
	for i := range 150_000 {
		for _, s := range []*stream{growing, fixed} {
			s.send(1)
		}
		id := i
		switch r := rng.IntN(20); {
		case r == 0:
			held = append(held, id)
			continue
		case r == 1 && len(held) > 0: // one that was held back, or again
			k := rng.IntN(len(held))
			id = held[k]
			if i-id > 12000 {
				held = append(held[:k], held[k+1:]...)
				continue
			}
		}
		late := i - id
		v, want := growing.receive(id), fixed.receive(id)
		if v != want && (late < growing.to.in.seen.Track() || v == Delivered) && i > 30000 {
			t.Fatalf("packet %d, %d late: %v, want %v", id, late, v, want)
		}
		if late < 32 && v != want {
			t.Fatalf("packet %d, %d late: %v, want %v", id, late, v, want)
		}
		if growing.to.in.seen.Next() != fixed.to.in.seen.Next() {
			t.Fatalf("packet %d: the windows differ", id)
		}
		_, a := growing.to.in.seen.Acks()
		if _, b := fixed.to.in.seen.Acks(); a != b {
			t.Fatalf("packet %d: ack bits %x, want %x", id, a, b)
		}
	}
	growing.checkOnce()
}
