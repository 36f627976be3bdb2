package reliable

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// TestCompactChangesNoVerdict gives the same datagrams to two endpoints of
// which one compacts all the time.
func TestCompactChangesNoVerdict(t *testing.T) {
	fixed := &Config{JumpGuard: true, ReassemblyTimeout: time.Hour}
	for name, cfg := range map[string]*Config{"growing": connConfig(), "fixed": fixed, "reference": nil} {
		t.Run(name, func(t *testing.T) {
			plain, compact := newStream(t, cfg), newStream(t, cfg)
			rng := rand.New(rand.NewPCG(5, 5))
			var back Batch
			for i := range 60_000 {
				plain.send(1)
				compact.send(1)
				if rng.IntN(5) == 0 { // lost, or late
					continue
				}
				id := i
				if rng.IntN(4) == 0 {
					id -= min(i, rng.IntN(1+1<<rng.IntN(10)))
				}
				if v, want := compact.receive(id), plain.receive(id); v != want {
					t.Fatalf("packet %d, %d late: %v, want %v", id, i-id, v, want)
				}
				if rng.IntN(10) == 0 {
					back.Reset()
					mustSend(t, plain.to, plain.now, []byte{1, 2}, &back)
					mustSend(t, compact.to, plain.now, []byte{1, 2}, &back)
					if !slices.Equal(back.At(0), back.At(1)) {
						t.Fatalf("packet %d: header %x, want %x", id, back.At(1), back.At(0))
					}
					ack := back.At(0)
					plain.from.Receive(plain.now, ack)
					compact.from.Receive(plain.now, ack)
				}
				if rng.IntN(500) == 0 {
					compact.to.Compact(compact.now)
				}
			}
			if got, want := compact.to.Counters(), plain.to.Counters(); got != want {
				t.Errorf("counters %+v, want %+v", got, want)
			}
		})
	}
}

// TestCompactKeepsReassemblies compacts in the middle of a packet.
func TestCompactKeepsReassemblies(t *testing.T) {
	delivered := 0
	to, _ := newEndpoint(connConfig(), testTime(0), HandlerFunc(func(_ uint16, p []byte) bool { delivered += len(p); return true }))
	from, _ := newEndpoint(nil, testTime(0), nil)
	var out Batch
	mustSend(t, from, testTime(0), testPayload(5000, 1), &out)
	for i := range out.Len() {
		to.Receive(testTime(0), out.At(i))
		to.Compact(testTime(0))
	}
	if delivered != 5000 {
		t.Errorf("%d bytes delivered, want 5000", delivered)
	}
	if to.MemoryUsage() > 1024 {
		t.Errorf("%d bytes held, want at most 1024", to.MemoryUsage())
	}
}

// TestCompactKeepsFigures compacts both ends of a busy link that fell silent.
func TestCompactKeepsFigures(t *testing.T) {
	cfg := connConfig()
	cfg.ReassemblyTimeout = 5 * time.Second
	s := newSim(t, cfg, simLink{delay: 5 * time.Millisecond, loss: 0.05})
	for range 5000 {
		for k, p := range s.peers {
			s.send(k, p.message(2000))
			p.Update(s.time())
		}
		s.advance(time.Millisecond)
	}
	for round := range 40 { // keepalives
		for k, p := range s.peers {
			s.send(k, nil)
			p.Update(s.time())
			before := p.Stats()
			p.Compact(s.time())
			if got := p.Stats(); got != before {
				t.Fatalf("Compact changed the figures from %+v to %+v", before, got)
			}
			if n := p.MemoryUsage(); round > 3 && n > 1024 {
				t.Fatalf("round %d: %d bytes held, want at most 1024", round, n)
			}
		}
		s.advance(5 * time.Second)
	}
	for range 1000 { // and it wakes up again
		for k, p := range s.peers {
			s.send(k, p.message(100))
		}
		s.advance(time.Millisecond)
	}
	s.settle()
	s.check()
}

// TestCompactAgain compacts a full window twice: the second time there is nothing
// to do.
func TestCompactAgain(t *testing.T) {
	cfg := connConfig()
	cfg.LostAfter = -1
	e, _ := newEndpoint(cfg, testTime(0), nil)
	var out Batch
	for range 2 * cfg.MaxWindow {
		out.Reset()
		mustSend(t, e, testTime(0), []byte{1}, &out)
	}
	full := e.MemoryUsage()
	e.Compact(testTime(1))
	before := e.MemoryUsage()
	if before > full {
		t.Errorf("%d bytes after Compact, want at most %d", before, full)
	}
	if n := testing.AllocsPerRun(10, func() { e.Compact(testTime(1)) }); n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
	if got := e.MemoryUsage(); got != before {
		t.Errorf("%d bytes, want %d", got, before)
	}
}
