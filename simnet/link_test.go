package simnet

import (
	"math"
	"math/bits"
	"testing"
	"time"
)

// sigma returns the standard deviation of the fraction of n trials that
// succeed, each with probability p.
func sigma(p float64, n int) float64 { return math.Sqrt(p * (1 - p) / float64(n)) }

// wantRate checks a count of n trials against a probability, within five
// standard deviations.
func wantRate(t *testing.T, what string, count uint64, n int, p float64) {
	t.Helper()
	s := 5 * sigma(p, n)
	wantBetween(t, what, float64(count)/float64(n), p-s, p+s)
}

const ms = time.Millisecond

func TestPerfectLink(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a, b := pair(t, 1, Link{}, Link{})
		got := collect(t, a, b, 1000, 100, 0)
		for i, g := range got {
			if g.number != i || g.at != 0 {
				t.Fatalf("arrival %d = number %d after %v, want all at once and in order", i, g.number, g.at)
			}
		}
		want := Stats{Sent: 1000, SentBytes: 100_000, Delivered: 1000, DeliveredBytes: 100_000}
		if s := a.Network().Stats(); len(got) != 1000 || s != want {
			t.Errorf("%d arrived; stats %+v, want %+v", len(got), s, want)
		}
	})
}

func TestLatency(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a, b := pair(t, 1, Link{Latency: 35 * ms}, Link{})
		for i, g := range collect(t, a, b, 100, 10, 7*ms) {
			if want := time.Duration(i)*7*ms + 35*ms; g.number != i || g.at != want {
				t.Fatalf("arrival %d = number %d at %v, want at %v", i, g.number, g.at, want)
			}
		}
	})
}

// TestMemoryOfEvents has many datagrams under way at once. The list of them is small again
// once they have arrived, and while they arrive it is never much larger than their number.
func TestMemoryOfEvents(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const count = 20000
		a, b := pair(t, 1, Link{Latency: 50 * ms, Jitter: 20 * ms}, Link{})
		n := a.Network()
		for i := range count {
			a.Write(numbered(i, 4))
		}
		if len(n.events) != count {
			t.Fatalf("%d datagrams are under way, want %d", len(n.events), count)
		}
		for range 80 {
			time.Sleep(ms)
			n.mu.Lock()
			if got, most := cap(n.events), 4*len(n.events)+2*smallHeap; got > most {
				t.Errorf("memory for %d events while %d datagrams are under way, want at most %d", got, len(n.events), most)
			}
			n.mu.Unlock()
		}
		if got := b.queued(); got != count {
			t.Errorf("%d datagrams have arrived, want %d", got, count)
		}
	})
}

func TestJitter(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a, b := pair(t, 1, Link{Latency: 50 * ms, Jitter: 20 * ms}, Link{})
		const count = 10_000
		var sum, least, most time.Duration = 0, time.Hour, 0
		got := collect(t, a, b, count, 10, ms)
		for _, g := range got {
			delay := g.at - time.Duration(g.number)*ms
			sum += delay
			least, most = min(least, delay), max(most, delay)
		}
		if least < 30*ms || most > 70*ms || least > 31*ms || most < 69*ms {
			t.Errorf("delays from %v to %v, want 30ms to 70ms", least, most)
		}
		wantBetween(t, "mean delay in ms", float64(sum)/float64(ms)/count, 49, 51)
		if s := a.Network().Stats(); s.Delivered != count || s.Reordered == 0 {
			t.Errorf("stats = %+v, want all delivered and some reordered", s)
		}
	})
}

func TestJitterBeyondLatency(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a, b := pair(t, 1, Link{Latency: 5 * ms, Jitter: 20 * ms}, Link{})
		for _, g := range collect(t, a, b, 1000, 10, 50*ms) {
			if delay := g.at - time.Duration(g.number)*50*ms; delay < 0 || delay > 25*ms {
				t.Fatalf("delay = %v, want 0 to 25ms", delay)
			}
		}
	})
}

func TestJitterOrdered(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a, b := pair(t, 1, Link{Latency: 50 * ms, Jitter: 20 * ms, Ordered: true}, Link{})
		for i, g := range collect(t, a, b, 5000, 10, ms) {
			if delay := g.at - time.Duration(i)*ms; g.number != i || delay < 30*ms || delay > 70*ms {
				t.Fatalf("arrival %d = number %d with delay %v", i, g.number, delay)
			}
		}
		if r := a.Network().Stats().Reordered; r != 0 {
			t.Errorf("Reordered = %d, want 0", r)
		}
	})
}

func TestLoss(t *testing.T) {
	for _, p := range []float64{0.01, 0.2, 0.5, 1} {
		bubble(t, func(t *testing.T) {
			a, b := pair(t, 3, Link{Loss: p}, Link{})
			got := collect(t, a, b, 20_000, 10, 0)
			s := a.Network().Stats()
			wantRate(t, "loss", s.Lost, 20_000, p)
			if len(got) != int(s.Delivered) {
				t.Errorf("%d arrived, %d counted", len(got), s.Delivered)
			}
			checkSum(t, s)
		})
	}
}

func TestBursts(t *testing.T) {
	for _, test := range []struct{ loss, length float64 }{{0.05, 1.5}, {0.05, 8}, {0.2, 20}, {0.5, 3}} {
		const count = 200_000
		lost, bursts, before := 0, 0, false
		for _, f := range fates(Link{Burst: Bursts(test.loss, test.length)}, 3, count) {
			if f.lost {
				lost++
			}
			if f.lost && !before {
				bursts++
			}
			before = f.lost
		}
		// Losses in bursts vary more than single ones do.
		s := 5 * sigma(test.loss, count) * math.Sqrt(2*test.length)
		wantBetween(t, "loss", float64(lost)/count, test.loss-s, test.loss+s)
		s = 5 * test.length / math.Sqrt(float64(bursts))
		wantBetween(t, "mean burst", float64(lost)/float64(bursts), test.length-s, test.length+s)
	}
}

// TestBurstsOnALink checks that what a network loses is what the model says.
func TestBurstsOnALink(t *testing.T) {
	bubble(t, func(t *testing.T) {
		l := Link{Burst: Bursts(0.3, 5)}
		a, b := pair(t, 3, l, Link{})
		arrived := make([]bool, 2000)
		for _, g := range collect(t, a, b, len(arrived), 4, 0) {
			arrived[g.number] = true
		}
		bad, key := false, flowKey(3, a.local.AddrPort(), b.local.AddrPort())
		for i, got := range arrived {
			if want := !l.decide(key, uint64(i), &bad).lost; got != want {
				t.Fatalf("datagram %d arrived: %v, want %v", i, got, want)
			}
		}
	})
}

func TestBurstsLimits(t *testing.T) {
	if g := Bursts(0, 5); g != nil {
		t.Errorf("Bursts(0, 5) = %+v, want nil", g)
	}
	for _, f := range fates(Link{Burst: Bursts(1, 5)}, 1, 100) {
		if !f.lost {
			t.Fatal("Bursts(1, 5) let a datagram pass")
		}
	}
	lost := 0
	for _, f := range fates(Link{Burst: &GilbertElliott{GoodToBad: 1, LossBad: -1}}, 1, 100) {
		if f.lost {
			lost++
		}
	}
	if lost != 0 {
		t.Errorf("%d datagrams lost with a negative LossBad, want 0", lost)
	}
}

func TestDuplicate(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a, b := pair(t, 3, Link{Latency: 10 * ms, Duplicate: 0.1}, Link{})
		count := make(map[int]int)
		for _, g := range collect(t, a, b, 20_000, 10, 0) {
			count[g.number]++
		}
		twice := uint64(0)
		for number, c := range count {
			if c > 2 {
				t.Errorf("number %d arrived %d times", number, c)
			}
			if c == 2 {
				twice++
			}
		}
		s := a.Network().Stats()
		wantRate(t, "duplicates", twice, 20_000, 0.1)
		if s.Duplicated != twice || s.Reordered != 0 {
			t.Errorf("stats = %+v, want %d duplicated, none reordered", s, twice)
		}
		checkSum(t, s)
	})
}

func TestReorder(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a, b := pair(t, 3, Link{Latency: 10 * ms, Reorder: 0.1, ReorderBy: 5 * ms, Ordered: true}, Link{})
		const count = 10_000
		late, newest := uint64(0), -1
		for _, g := range collect(t, a, b, count, 10, ms) {
			switch delay := g.at - time.Duration(g.number)*ms; delay {
			case 10 * ms:
			case 15 * ms:
				if g.number < newest {
					late++
				}
			default:
				t.Fatalf("delay = %v, want 10ms or 15ms", delay)
			}
			newest = max(newest, g.number)
		}
		s := a.Network().Stats()
		wantRate(t, "reordered", late, count, 0.1)
		if s.Reordered != late {
			t.Errorf("Reordered = %d, want %d", s.Reordered, late)
		}
	})
}

func TestReorderDefault(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a, b := pair(t, 3, Link{Reorder: 1}, Link{})
		if got := collect(t, a, b, 1, 10, 0); len(got) != 1 || got[0].at != 10*ms {
			t.Errorf("arrivals = %v, want one after %v", got, 10*ms)
		}
	})
}

func TestCorrupt(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a, b := pair(t, 3, Link{Corrupt: 0.1, Duplicate: 0.1}, Link{})
		const count, size = 20_000, 64
		start := time.Now()
		for range count {
			a.Write(make([]byte, size))
		}
		b.SetReadDeadline(start.Add(time.Second))
		damaged, bytes := uint64(0), make(map[int]bool)
		for buf := make([]byte, size); ; {
			if _, err := b.Read(buf); err != nil {
				break
			}
			flipped := 0
			for i, x := range buf {
				flipped += bits.OnesCount8(x)
				if x != 0 {
					bytes[i] = true
				}
			}
			if flipped > 1 {
				t.Fatalf("%d bits flipped, want 0 or 1", flipped)
			}
			damaged += uint64(flipped)
		}
		s := a.Network().Stats()
		wantRate(t, "corruption", damaged, int(s.Delivered), 0.1)
		if s.Corrupted != damaged || len(bytes) != size {
			t.Errorf("Corrupted = %d, want %d; %d places, want %d", s.Corrupted, damaged, len(bytes), size)
		}
	})
}

func TestCorruptEmpty(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a, b := pair(t, 3, Link{Corrupt: 1}, Link{})
		if _, err := a.Write(nil); err != nil {
			t.Fatal(err)
		}
		if n, err := b.Read(make([]byte, 1)); n != 0 || err != nil {
			t.Errorf("Read = %d, %v, want an empty datagram", n, err)
		}
	})
}

// TestCorruptDoesNotTouchTheSender checks that only the copy under way is
// damaged.
func TestCorruptDoesNotTouchTheSender(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a, _ := pair(t, 3, Link{Corrupt: 1}, Link{})
		b := make([]byte, 100)
		a.Write(b)
		for _, x := range b {
			if x != 0 {
				t.Fatal("Write modified its argument")
			}
		}
	})
}

// TestBandwidth checks the pacing: 972 bytes and 28 of headers take exactly
// 8 ms at 1 Mbit/s.
func TestBandwidth(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a, b := pair(t, 1, Link{Latency: 30 * ms, Bandwidth: 1e6, QueueBytes: -1}, Link{})
		got := collect(t, a, b, 100, 972, 0)
		for i, g := range got {
			if want := 30*ms + time.Duration(i+1)*8*ms; g.number != i || g.at != want {
				t.Fatalf("arrival %d = number %d at %v, want at %v", i, g.number, g.at, want)
			}
		}
		if len(got) != 100 {
			t.Errorf("%d arrived, want 100", len(got))
		}
	})
}

// TestBandwidthIsShared checks that two flows between the same hosts share the
// link, and that those between other hosts don't.
func TestBandwidthIsShared(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := New(1)
		defer n.Close()
		n.SetDefault(Link{Bandwidth: 1e6})
		dst := listen(t, n, "10.0.0.9:1")
		for _, from := range []string{"10.0.0.1:1", "10.0.0.1:2", "10.0.0.2:1"} {
			listen(t, n, from).WriteTo(make([]byte, 972), dst.LocalAddr())
		}
		start := time.Now()
		buf := make([]byte, 1000)
		for _, want := range []time.Duration{8 * ms, 8 * ms, 16 * ms} {
			if _, _, err := dst.ReadFrom(buf); err != nil || time.Since(start) != want {
				t.Errorf("arrival at %v, %v, want %v", time.Since(start), err, want)
			}
		}
	})
}

func TestQueueLimit(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a, b := pair(t, 1, Link{Bandwidth: 1e6, QueueBytes: 10_000}, Link{})
		got := collect(t, a, b, 50, 972, 0)
		if len(got) != 10 || got[9].number != 9 || got[9].at != 80*ms {
			t.Errorf("%d arrived, want the first 10 of a burst", len(got))
		}
		// A burst of 12 packets while 5 of the 10 have left finds room for 5.
		for i := range 10 {
			a.Write(numbered(i, 972))
		}
		time.Sleep(40 * ms)
		for i := range 12 {
			a.Write(numbered(i, 972))
		}
		time.Sleep(time.Second)
		if s := a.Network().Stats(); s.QueueDrops != 40+7 || s.Delivered != 10+15 {
			t.Errorf("stats = %+v, want 47 drops and 25 delivered", s)
		}
		checkSum(t, a.Network().Stats())
	})
}

func TestQueueDefault(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a, b := pair(t, 1, Link{Bandwidth: 100e6}, Link{})
		if got, want := len(collect(t, a, b, 200, 972, 0)), queueBytes/1000; got != want {
			t.Errorf("%d arrived, want %d", got, want)
		}
	})
}

func TestMTU(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := New(1)
		defer n.Close()
		n.SetDefault(Link{MTU: 1500})
		for _, test := range []struct {
			from, to string
			largest  int
		}{
			{"10.0.0.1:1", "10.0.0.2:1", 1472},
			{"[fd00::1]:1", "[fd00::2]:1", 1452},
		} {
			a, b := listen(t, n, test.from), listen(t, n, test.to)
			for _, size := range []int{test.largest + 1, test.largest} {
				if _, err := a.WriteTo(make([]byte, size), b.LocalAddr()); err != nil {
					t.Fatal(err)
				}
			}
			k, _, err := b.ReadFrom(make([]byte, 2000))
			s := n.LinkStats(addrPort(test.from).Addr(), addrPort(test.to).Addr())
			if k != test.largest || err != nil || s.MTUDrops != 1 {
				t.Errorf("ReadFrom = %d, %v with %d drops, want %d with 1", k, err, s.MTUDrops, test.largest)
			}
		}
	})
}

func TestBlackout(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a, b := pair(t, 1, Link{Latency: 20 * ms}, Link{Latency: 20 * ms})
		script, err := ParseScript("100ms blackout for 50ms")
		if err != nil {
			t.Fatal(err)
		}
		a.Network().Play(script)
		got := make(map[int]bool)
		for _, g := range collect(t, a, b, 200, 10, ms) {
			got[g.number] = true
		}
		for i := range 200 {
			if want := i < 100 || i >= 150; got[i] != want {
				t.Errorf("sent at %d ms: arrived %v, want %v", i, got[i], want)
			}
		}
		if s := a.Network().Stats(); s.BlackoutDrops != 50 {
			t.Errorf("BlackoutDrops = %d, want 50", s.BlackoutDrops)
		}
	})
}

// TestValuesOutOfRange checks that values out of range act as the nearer limit.
func TestValuesOutOfRange(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a, b := pair(t, 1, Link{Latency: -ms, Jitter: -ms, Loss: -1, Duplicate: -1, Reorder: 2, ReorderBy: -1,
			Bandwidth: -1, MTU: -1}, Link{Loss: 2})
		if got := collect(t, a, b, 10, 10, 0); len(got) != 10 || got[9].at != 0 {
			t.Errorf("%d arrived, want 10 at once", len(got))
		}
		if got := collect(t, b, a, 10, 10, 0); len(got) != 0 {
			t.Errorf("%d arrived, want none", len(got))
		}
	})
}

func TestLinkPrecedence(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := New(1)
		defer n.Close()
		src, dst := listen(t, n, "10.0.0.1:1"), listen(t, n, "10.0.0.2:1")
		delay := func(from, to *Conn) time.Duration {
			start := time.Now()
			from.WriteTo([]byte("x"), to.LocalAddr())
			if _, _, err := to.ReadFrom(make([]byte, 1)); err != nil {
				t.Fatal(err)
			}
			return time.Since(start)
		}
		want := func(what string, from, to *Conn, want time.Duration) {
			t.Helper()
			if got := delay(from, to); got != want {
				t.Errorf("%s: delay = %v, want %v", what, got, want)
			}
		}
		want("no links", src, dst, 0)
		n.SetDefault(Link{Latency: 1 * ms})
		want("default", src, dst, 1*ms)
		n.SetLink(src.local.AddrPort().Addr(), dst.local.AddrPort().Addr(), Link{Latency: 2 * ms})
		want("hosts", src, dst, 2*ms)
		want("hosts, back", dst, src, 1*ms)
		n.SetDefault(Link{Latency: 4 * ms})
		want("default again", dst, src, 4*ms)
		want("hosts again", src, dst, 2*ms)
	})
}
