package reliable

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"volley/internal/testenv"
)

// A costly is one run of a search for the datagram that takes longest to receive: an endpoint
// as that of a connection sends and receives whatever chance says. Runs of one seed do the
// same, so the least time of a datagram in several is that without disturbances.
type costly struct {
	testing.TB
	rng  *rand.Rand
	e, p *Endpoint // p is a peer that keeps the rules
	now  time.Time
	out  Batch
	sent [][]byte // by p, to be changed
}

// A takesAll keeps fates until there are 256, as a connection does for its program.
type takesAll struct{ fates []packetFate }

type packetFate struct {
	id   uint64
	fate Fate
	rtt  time.Duration
}

func (*takesAll) HandleMessage(uint16, []byte) bool { return true }

func (a *takesAll) HandleFate(id uint64, fate Fate, rtt time.Duration) {
	if len(a.fates) == 256 {
		a.fates = a.fates[:0]
	}
	a.fates = append(a.fates, packetFate{id, fate, rtt})
}

func newCostly(tb testing.TB, seed uint64, fragments int) *costly {
	cfg := &Config{
		AckGuard: true, AckRefused: true, AckDelay: 10 * time.Millisecond, AckBuffer: -1,
		JumpGuard: true, MidStream: true, MaxWindow: 16384, ReassemblyBytes: fragments, ReassemblyTimeout: 5 * time.Second,
	}
	c := &costly{TB: tb, rng: rand.New(rand.NewPCG(seed, 1)), now: benchTime}
	for _, e := range []**Endpoint{&c.e, &c.p} {
		*e = new(Endpoint)
		if err := (*e).Init(cfg, c.now, 0, new(takesAll)); err != nil {
			tb.Fatal(err)
		}
	}
	return c
}

// step lets some time pass, and returns a datagram for e of at most 1,500 bytes.
func (c *costly) step() []byte {
	r := c.rng
	c.now = c.now.Add(time.Duration(r.Int64N(int64(3 * time.Millisecond))))
	if r.IntN(200) == 0 {
		c.now = c.now.Add(time.Duration(r.Int64N(int64(2 * time.Second))))
	}
	c.out.Reset()
	for range []int{0, 1, 1, 3, 40, 1000}[min(5, r.IntN(60)/10+r.IntN(2)*r.IntN(2))] {
		mustSend(c.TB, c.e, c.now, make([]byte, 1+r.IntN(100)), &c.out)
		if r.IntN(3) > 0 {
			c.p.Receive(c.now, c.out.At(c.out.Len()-1))
		}
		c.out.Reset()
	}
	if r.IntN(50) == 0 {
		c.e.Update(c.now)
		c.e.Compact(c.now)
	}
	size := []int{1, 200, 1200, 4000}[r.IntN(4)]
	mustSend(c.TB, c.p, c.now, make([]byte, 1+r.IntN(size)), &c.out)
	for i := range c.out.Len() {
		c.sent = append(c.sent, slices.Clone(c.out.At(i)))
	}
	c.sent = c.sent[max(0, len(c.sent)-100):]
	return c.mutation()
}

// mutation returns one of the last datagrams of p, mostly changed.
func (c *costly) mutation() []byte {
	r := c.rng
	d := slices.Clone(c.sent[len(c.sent)-1-r.IntN(min(len(c.sent), 1+r.IntN(100)))])
	newest := c.e.NextSequence() - 1
	switch r.IntN(6) {
	case 0: // a header that acknowledges as it likes
		h := Header{Sequence: uint16(r.Uint32()), Ack: newest - uint16(r.IntN(1+r.IntN(16384))), AckBits: r.Uint32()}
		if r.IntN(2) == 0 {
			h.Sequence = c.p.NextSequence() + uint16(r.IntN(8192))
		}
		return append(AppendHeader(d[:0], h), make([]byte, r.IntN(1480))...)
	case 1: // a fragment of a large packet
		h := FragmentHeader{Sequence: c.p.NextSequence() + uint16(r.IntN(300)), ID: uint8(r.IntN(256)), Count: 2 + r.IntN(255)}
		d = AppendFragmentHeader(d[:0], h)
		if h.ID == 0 {
			d = AppendHeader(d, Header{Sequence: h.Sequence, Ack: newest, AckBits: r.Uint32()})
		}
		return append(d, make([]byte, 1024)...)
	case 2: // damage
		for range 1 + r.IntN(4) {
			d[r.IntN(min(len(d), 12))] = byte(r.Uint32())
		}
	case 3:
		for i := range d {
			d[i] = byte(r.Uint32())
		}
	}
	return d
}

// Whatever comes, an endpoint does not panic, and holds no more than its limits.
func TestMutations(t *testing.T) {
	const fragments = 16 << 10
	c := newCostly(t, 1, fragments)
	for i := range testenv.Sized(testenv.Raced(100_000, 10_000), 40_000_000) {
		d := c.mutation
		if i%100 == 0 {
			d = c.step
		}
		c.e.Receive(c.now, d())
		if most := fragments + 16384*(sentRecordSize+1) + 4096; c.e.parts.bytes > fragments || c.e.mem > most {
			t.Fatalf("%d bytes are held, %d of them for fragments, want at most %d and %d", c.e.mem, c.e.parts.bytes, most, fragments)
		}
	}
}

// BenchmarkWorstDatagram searches for the datagram of at most 1,500 bytes that takes longest,
// among 20,000 of each seed, at an endpoint with up to 16,384 packets in flight and 1 MiB of
// fragments.
func BenchmarkWorstDatagram(b *testing.B) {
	const runs, datagrams = 7, 20_000
	var worst, sum time.Duration
	count := 0
	for seed := uint64(0); b.Loop(); seed++ {
		least := make([]time.Duration, datagrams)
		for run := range runs {
			c := newCostly(b, seed, 1<<20)
			for i := range least {
				d := c.step()
				begin := time.Now()
				c.e.Receive(c.now, d)
				if took := time.Since(begin); run == 0 || took < least[i] {
					least[i] = took
				}
			}
		}
		for _, t := range least {
			sum += t
			worst = max(worst, t)
		}
		count += datagrams
	}
	b.ReportMetric(float64(worst), "worst-ns")
	b.ReportMetric(float64(sum)/float64(count), "mean-ns")
}
