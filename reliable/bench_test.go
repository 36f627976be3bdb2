package reliable

import (
	"testing"
	"time"
)

// The benchmarks do the work that the C reference was measured with; see
// docs/reliable.md for its figures.

// benchPayload returns the payload of the workloads.
func benchPayload(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i*131 + 7)
	}
	return b
}

// benchTime is what the clock said: it has a monotonic part, as in use.
var benchTime = time.Now()

// benchSum is what the workloads' callbacks add to.
var benchSum int

type benchHandler struct{}

func (benchHandler) HandleMessage(_ uint16, payload []byte) bool {
	benchSum += int(payload[0]) + len(payload)
	return true
}

func benchEndpoint(tb testing.TB) *Endpoint {
	tb.Helper()
	e, err := newEndpoint(nil, benchTime, benchHandler{})
	if err != nil {
		tb.Fatal(err)
	}
	return e
}

func mustSend(tb testing.TB, e *Endpoint, now time.Time, payload []byte, out *Batch) {
	if _, err := e.Send(now, payload, out); err != nil {
		tb.Fatal(err)
	}
}

// Workloads 1 and 2.
func BenchmarkSend256(b *testing.B)  { benchmarkSend(b, 256) }
func BenchmarkSend4096(b *testing.B) { benchmarkSend(b, 4096) }

func benchmarkSend(b *testing.B, size int) {
	from, e := benchEndpoint(b), benchEndpoint(b)
	now := benchTime
	var out Batch
	for range 300 {
		out.Reset()
		mustSend(b, from, now, benchPayload(256), &out)
		e.Receive(now, out.At(0))
	}
	payload := benchPayload(size)
	send := func() {
		out.Reset()
		mustSend(b, e, now, payload, &out)
	}
	for range 2000 {
		send()
	}
	b.ReportAllocs()
	for b.Loop() {
		send()
	}
}

// Workloads 3 and 4. An operation is one batch, of which making the packets is
// part; ns/packet is the time to receive one, and the figure to compare.
func BenchmarkReceive256(b *testing.B)  { benchmarkReceive(b, 256, 256) }
func BenchmarkReceive4096(b *testing.B) { benchmarkReceive(b, 4096, 64) }

func benchmarkReceive(b *testing.B, size, batch int) {
	from, e := benchEndpoint(b), benchEndpoint(b)
	now := benchTime
	payload := benchPayload(size)
	var out Batch
	var took time.Duration
	var datagrams [][]byte
	b.ReportAllocs()
	for b.Loop() {
		out.Reset()
		for range batch {
			mustSend(b, from, now, payload, &out)
		}
		datagrams = datagrams[:0]
		for i := range out.Len() {
			datagrams = append(datagrams, out.At(i))
		}
		start := time.Now()
		for _, d := range datagrams {
			e.Receive(now, d)
		}
		took += time.Since(start)
	}
	b.ReportMetric(float64(took.Nanoseconds())/float64(batch*b.N), "ns/packet")
	if got, want := e.Counters().PacketsReceived, from.Counters().PacketsSent; got != want || e.Counters().PacketsStale > 0 {
		b.Fatalf("%d packets received, want %d", got, want)
	}
}

// A benchPair is two endpoints with a mailbox between them.
type benchPair struct {
	tb      testing.TB
	a, b    *Endpoint
	out     Batch
	mailbox [4][1200]byte
	sizes   [4]int
	boxed   int
}

func newBenchPair(tb testing.TB) *benchPair {
	return &benchPair{tb: tb, a: benchEndpoint(tb), b: benchEndpoint(tb)}
}

// send puts the datagrams of a packet into the mailbox.
func (p *benchPair) send(e *Endpoint, now time.Time, payload []byte) {
	p.out.Reset()
	mustSend(p.tb, e, now, payload, &p.out)
	p.boxed = p.out.Len()
	for i := range p.boxed {
		p.sizes[i] = copy(p.mailbox[i][:], p.out.At(i))
	}
}

func (p *benchPair) receive(e *Endpoint, now time.Time) {
	for i := range p.boxed {
		e.Receive(now, p.mailbox[i][:p.sizes[i]])
	}
}

func (p *benchPair) round(now time.Time, payload []byte) {
	p.send(p.a, now, payload)
	p.receive(p.b, now)
	p.send(p.b, now, payload)
	p.receive(p.a, now)
	p.a.ClearAcks()
	p.b.ClearAcks()
}

// Workload 5. An operation is two packets, one each way; ns/packet is the
// figure to compare.
func BenchmarkRound256(b *testing.B)  { benchmarkRound(b, 256) }
func BenchmarkRound4096(b *testing.B) { benchmarkRound(b, 4096) }

func benchmarkRound(b *testing.B, size int) {
	p := newBenchPair(b)
	now := benchTime
	payload := benchPayload(size)
	for range 2000 {
		p.round(now, payload)
	}
	b.ReportAllocs()
	for b.Loop() {
		p.round(now, payload)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(2*b.N), "ns/packet")
	if want := p.a.Counters().PacketsSent; p.a.Counters().PacketsAcked != want {
		b.Fatalf("%d packets acked, want %d", p.a.Counters().PacketsAcked, want)
	}
}

// fullPair does the rounds before workload 6.
func fullPair(tb testing.TB) (*benchPair, time.Time) {
	p := newBenchPair(tb)
	payload := benchPayload(256)
	for range 1000 {
		p.round(benchTime, payload)
	}
	now := benchTime
	p.boxed = 0
	for i := range 1000 {
		now = benchTime.Add(time.Duration(i) * time.Second / 60)
		p.a.Update(now)
		p.b.Update(now)
		p.receive(p.a, now)
		p.a.ClearAcks()
		p.send(p.a, now, payload)
		p.receive(p.b, now)
		p.b.ClearAcks()
		p.send(p.b, now, payload)
	}
	return p, now
}

// Workload 6.
func BenchmarkUpdate(b *testing.B) {
	p, now := fullPair(b)
	b.ReportAllocs()
	for b.Loop() {
		now = now.Add(time.Microsecond)
		p.a.Update(now)
	}
}

// BenchmarkUpdateChanged has a packet sent, and another acknowledged, between
// two updates. Their time is part of it.
func BenchmarkUpdateChanged(b *testing.B) {
	p, now := fullPair(b)
	payload := benchPayload(1)
	b.ReportAllocs()
	for b.Loop() {
		now = now.Add(time.Microsecond)
		p.round(now, payload)
		p.a.Update(now)
	}
}

// BenchmarkRoundOnly is what BenchmarkUpdateChanged does beside the update.
func BenchmarkRoundOnly(b *testing.B) {
	p, now := fullPair(b)
	payload := benchPayload(1)
	b.ReportAllocs()
	for b.Loop() {
		now = now.Add(time.Microsecond)
		p.round(now, payload)
	}
}
