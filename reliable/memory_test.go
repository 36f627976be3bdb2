package reliable

import (
	"math/rand/v2"
	"runtime"
	"testing"
	"time"
	"unsafe"

	"volley/internal/testenv"
)

// A budget is a Config.Reserve with a limit.
type budget struct {
	t           *testing.T
	held, limit int
	refused     int
}

func (b *budget) reserve(delta int, _ bool) bool {
	if delta == 0 {
		b.t.Error("Reserve(0)")
	}
	if delta > 0 && b.limit > 0 && b.held+delta > b.limit {
		b.refused++
		return false
	}
	b.held += delta
	if b.held < 0 {
		b.t.Errorf("%d bytes more given back than taken", -b.held)
	}
	return true
}

func TestFreshEndpoint(t *testing.T) {
	for name, cfg := range map[string]*Config{"reference": nil, "growing": connConfig()} {
		const n = 4000
		endpoints := make([]*Endpoint, n)
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		for i := range endpoints {
			endpoints[i], _ = newEndpoint(cfg, testTime(0), nil)
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		each := int(after.HeapAlloc-before.HeapAlloc) / n
		t.Logf("%s: %d bytes, of them the struct %d", name, each, unsafe.Sizeof(Endpoint{}))
		if each > 1024 {
			t.Errorf("%s: a fresh endpoint takes %d bytes, want at most 1024", name, each)
		}
		runtime.KeepAlive(endpoints)
	}
}

// TestFullEndpoint fills windows of 256.
func TestFullEndpoint(t *testing.T) {
	cfg := connConfig()
	cfg.MaxWindow = 256
	for name, cfg := range map[string]*Config{"reference": nil, "growing": cfg} {
		s := newSim(t, &Config{}, simLink{delay: 20 * time.Millisecond})
		if cfg != nil {
			s = newSim(t, cfg, simLink{delay: 20 * time.Millisecond})
		}
		for range 3000 {
			for k, p := range s.peers {
				s.send(k, p.message(100))
				p.Update(s.time())
				p.ClearAcks()
			}
			s.advance(100 * time.Microsecond)
		}
		p := s.peers[0]
		total := p.MemoryUsage() + int(unsafe.Sizeof(Endpoint{}))
		t.Logf("%s: %d bytes, sent window %d, received %d", name, total, len(p.Endpoint.out.ring), p.in.seen.Track())
		if total > 24<<10 || len(p.Endpoint.out.ring) != 256 {
			t.Errorf("%s: an endpoint in use takes %d bytes, want at most 24 KiB", name, total)
		}
	}
}

// TestFlood opens reassemblies and finishes none.
func TestFlood(t *testing.T) {
	const limit = 20_000
	for name, cfg := range map[string]Config{
		"limit":   {ReassemblyBytes: limit},
		"reserve": {},
		"growing": {ReassemblyBytes: limit, MaxWindow: 1024, JumpGuard: true},
	} {
		t.Run(name, func(t *testing.T) {
			b := &budget{t: t}
			if name == "reserve" {
				b.limit = limit
			}
			cfg.Reserve = b.reserve
			e, _ := newEndpoint(&cfg, testTime(0), HandlerFunc(func(uint16, []byte) bool { return true }))
			rng := rand.New(rand.NewPCG(2, 2))
			for i := range 50_000 {
				f := FragmentHeader{Sequence: uint16(i / 3), ID: uint8(rng.IntN(16)), Count: 16}
				d := AppendFragmentHeader(nil, f)
				if f.ID == 0 {
					d = AppendHeader(d, Header{Sequence: f.Sequence})
				}
				size := 1024
				if f.ID == 15 {
					size = rng.IntN(1025)
				}
				e.Receive(testTime(float64(i)/1000), append(d, make([]byte, size)...))
				if e.parts.bytes > limit || e.MemoryUsage() > limit+4096 {
					t.Fatalf("%d bytes held for reassemblies, %d in all, want at most %d", e.parts.bytes, e.MemoryUsage(), limit)
				}
				if got, want := e.MemoryUsage(), measure(e); got != want {
					t.Fatalf("MemoryUsage = %d, want %d", got, want)
				}
			}
			if e.Counters().FragmentsInvalid == 0 {
				t.Error("no fragment was refused")
			}
			e.Free()
			if b.held != 0 || e.MemoryUsage() != 0 {
				t.Errorf("after Free, %d bytes are reserved and %d held", b.held, e.MemoryUsage())
			}
		})
	}
}

// measure adds up what e holds.
func measure(e *Endpoint) int {
	n := e.in.seen.Bytes()
	if e.in.ring != nil {
		n += cap(e.in.ring.records) * receivedRecordSize
	}
	if e.out.ring != nil {
		n += sentBytes(len(e.out.ring))
	}
	if e.meter.flows != nil {
		n += flowsSize
	}
	if e.acks.talk != nil {
		n += talkSize
	}
	if r := e.extras.made; r != nil {
		n += extraSize + 2*cap(r.acks)
	}
	n += historyBytes(len(e.meter.rtt.samples))
	if e.parts.table != nil {
		n += tableSize(len(e.parts.table))
	}
	for _, r := range e.parts.table {
		if r != nil {
			n += partSize(&e.env) + cap(r.buf)
		}
	}
	for _, r := range e.parts.spare {
		n += partSize(&e.env) + cap(r.buf)
	}
	return n
}

// TestTinyDatagrams opens reassemblies with 5 bytes each, which must not take
// what they announce.
func TestTinyDatagrams(t *testing.T) {
	e, _ := newEndpoint(nil, testTime(0), nil)
	for i := range 64 {
		e.Receive(testTime(0), AppendFragmentHeader(nil, FragmentHeader{uint16(i), 15, 16}))
	}
	t.Logf("%d bytes", e.MemoryUsage())
	if e.parts.open != 64 || e.MemoryUsage() > 64*512 {
		t.Errorf("%d reassemblies take %d bytes, want at most 512 each", e.parts.open, e.MemoryUsage())
	}
}

func TestReassemblyTimeout(t *testing.T) {
	cfg := &Config{ReassemblyTimeout: time.Second}
	e, _ := newEndpoint(cfg, testTime(0), HandlerFunc(func(uint16, []byte) bool { return true }))
	from, _ := newEndpoint(nil, testTime(0), nil)
	var out Batch
	mustSend(t, from, testTime(0), make([]byte, 2000), &out)
	e.Receive(testTime(0.5), out.At(0))
	e.Update(testTime(1.4))
	if e.parts.open != 1 {
		t.Error("the reassembly was given up too early")
	}
	e.Update(testTime(1.5))
	if e.parts.open != 0 {
		t.Error("the reassembly was not given up")
	}
	if v := e.Receive(testTime(1.6), out.At(1)); v != fragmentStored {
		t.Errorf("late fragment: %v, want FragmentStored", v)
	}
	if v := e.Receive(testTime(1.7), out.At(0)); v != Delivered {
		t.Errorf("the fragment again: %v, want Delivered", v)
	}
}

// TestReserve runs a link whose ends are short of memory, and checks that all
// is accounted for.
func TestReserve(t *testing.T) {
	for _, limit := range []int{0, 1, 1000, 5000, 20000} {
		b := &budget{t: t, limit: limit}
		cfg := connConfig()
		cfg.Reserve = b.reserve
		s := newSim(t, cfg, simLink{delay: 3 * time.Millisecond, loss: 0.1, jitter: time.Millisecond})
		for i := range 3000 {
			for k, p := range s.peers {
				s.send(k, p.message(8+s.rng.IntN(1500)))
				p.Update(s.time())
				if i%1000 == 999 {
					p.Compact(s.time())
				}
				if got, want := p.MemoryUsage(), measure(p.Endpoint); got != want {
					t.Fatalf("MemoryUsage = %d, want %d", got, want)
				}
			}
			s.advance(time.Millisecond)
		}
		s.settle()
		s.check()
		if limit > 0 && b.refused == 0 {
			t.Errorf("limit %d: nothing was refused", limit)
		}
		for _, p := range s.peers {
			p.Free()
		}
		if b.held != 0 {
			t.Errorf("limit %d: after Free, %d bytes are reserved", limit, b.held)
		}
	}
}

func TestReserveOfFixedWindow(t *testing.T) {
	b := &budget{t: t, limit: 1}
	e, _ := newEndpoint(&Config{Reserve: b.reserve}, testTime(0), HandlerFunc(func(uint16, []byte) bool { return true }))
	var out Batch
	if _, err := e.Send(testTime(0), []byte{1}, &out); err != ErrNoMemory || out.Len() != 0 || e.NextID() != 0 {
		t.Errorf("Send = %v, %d datagrams, want ErrNoMemory", err, out.Len())
	}
	if v := e.Receive(testTime(0), AppendHeader(nil, Header{0, 65535, 0})); v != Delivered {
		t.Errorf("Receive = %v, want Delivered", v)
	}
}

// TestNoAllocation: not one, once the endpoint is warm.
func TestNoAllocation(t *testing.T) {
	if testenv.Race {
		t.Skip("the race detector allocates")
	}
	for name, cfg := range map[string]*Config{"reference": nil, "growing": connConfig()} {
		for _, size := range []int{0, 1, 256, 4096, 16384} {
			a, _ := newEndpoint(cfg, benchTime, nil)
			b, _ := newEndpoint(cfg, benchTime, nil)
			payload := benchPayload(size)
			now := benchTime
			var out Batch
			round := func() {
				now = now.Add(time.Millisecond)
				for _, pair := range [2][2]*Endpoint{{a, b}, {b, a}} {
					out.Reset()
					mustSend(t, pair[0], now, payload, &out)
					for i := range out.Len() {
						pair[1].Receive(now, out.At(i))
					}
					pair[0].Update(now)
					pair[1].ClearAcks()
					if wait, ok := pair[1].ControlDue(now); ok && wait == 0 {
						out.Reset()
						pair[1].SendControl(now, &out)
					}
				}
			}
			for range 20000 {
				round()
			}
			if n := testing.AllocsPerRun(1000, round); n != 0 {
				t.Errorf("%s, %d bytes: %v allocations a round, want none", name, size, n)
			}
		}
	}
}

// TestAckOfFragmentWithoutRoom refuses memory until the other side has
// acknowledged something, which it can only do in the header of a fragment.
func TestAckOfFragmentWithoutRoom(t *testing.T) {
	cfg := connConfig()
	refused := 0
	cfg.Reserve = func(delta int, acked bool) bool {
		if delta > 0 && !acked {
			refused++
			return false
		}
		return true
	}
	delivered := 0
	to, _ := newEndpoint(cfg, testTime(0), HandlerFunc(func(uint16, []byte) bool { delivered++; return true }))
	from, _ := newEndpoint(nil, testTime(0), nil)
	var out Batch
	send := func(from, to *Endpoint, size int) (last Verdict) {
		out.Reset()
		mustSend(t, from, testTime(0), make([]byte, size), &out)
		for i := range out.Len() {
			last = to.Receive(testTime(0), out.At(i))
		}
		return last
	}
	if v := send(from, to, 3000); v != noRoom || refused == 0 {
		t.Fatalf("fragments of a stranger: %v, want NoRoom", v)
	}
	if wait, owed := to.ControlDue(testTime(0)); !owed || wait > to.cfg.AckDelay/2 {
		t.Error("no packet is due for a stranger who was refused")
	}
	send(to, from, 0)
	if _, owed := to.ControlDue(testTime(0)); owed {
		t.Error("a second packet is due")
	}
	invalid := to.Counters().FragmentsInvalid
	if v := send(from, to, 3000); v != Delivered || delivered != 1 {
		t.Errorf("fragments of one who acknowledges: %v, want Delivered", v)
	}
	if n := to.Counters().FragmentsInvalid - invalid; n > 0 {
		t.Errorf("%d fragments were refused", n)
	}
}

// TestReassemblyDue follows the time at which something may expire.
func TestReassemblyDue(t *testing.T) {
	e, _ := newEndpoint(&Config{ReassemblyTimeout: 5 * time.Second}, testTime(0), nil)
	open := func(at float64, s uint16) {
		f := AppendFragmentHeader(nil, FragmentHeader{s, 1, 3})
		if v := e.Receive(testTime(at), append(f, make([]byte, 1024)...)); v != fragmentStored {
			t.Fatalf("fragment of packet %d: %v", s, v)
		}
	}
	check := func(at, want float64, open int) {
		t.Helper()
		e.Inner().ExpireReassemblies(testTime(at))
		wait, pending := e.Inner().ReassemblyDue(testTime(at))
		if pending != (want >= 0) || pending && wait != testTime(want).Sub(testTime(at)) {
			t.Errorf("at %v s: ReassemblyDue = %v, %v, want %v s", at, wait, pending, want-at)
		}
		if e.parts.open != open {
			t.Errorf("at %v s: %d packets open, want %d", at, e.parts.open, open)
		}
	}
	check(0, -1, 0)
	open(1, 0)
	open(2, 1)
	open(3, 2)
	check(3, 6, 3)
	check(5.9, 6, 3)
	check(6, 7, 2)
	e.parts.close(&e.env, e.parts.find(1))
	check(6.5, 7, 1) // no later than what is open
	check(7, 8, 1)
	check(8, -1, 0)
	open(9, 3)
	e.parts.close(&e.env, e.parts.find(3))
	check(9, 14, 0) // its buffer is kept
	check(14, -1, 0)
}

func TestRareSize(t *testing.T) {
	if size := unsafe.Sizeof(extra{}); size > extraSize {
		t.Errorf("an extra has %d bytes, and %d are counted", size, extraSize)
	}
}
