package simnet

import (
	"fmt"
	"math"
	"reflect"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"
)

// badLink is a link with some of everything that chance decides.
var badLink = Link{
	Latency:   20 * time.Millisecond,
	Jitter:    10 * time.Millisecond,
	Loss:      0.1,
	Burst:     Bursts(0.05, 4),
	Duplicate: 0.1,
	Reorder:   0.1,
	Corrupt:   0.1,
}

// fates returns the first n fates of a flow.
func fates(l Link, seed uint64, n int) []fate {
	key := flowKey(seed, addrPort("10.0.0.1:1"), addrPort("10.0.0.2:2"))
	out := make([]fate, n)
	bad := false
	for i := range out {
		out[i] = l.decide(key, uint64(i), &bad)
	}
	return out
}

// TestFateIsFixed pins the generator: a seed means the same run in each
// version of the package.
func TestFateIsFixed(t *testing.T) {
	var lost []int
	for i, f := range fates(Link{Loss: 0.2}, 42, 50) {
		if f.lost {
			lost = append(lost, i)
		}
	}
	if want := []int{7, 8, 13, 26, 30, 41, 42}; !slices.Equal(lost, want) {
		t.Errorf("lost = %v, want %v", lost, want)
	}
}

func TestFateOfSeeds(t *testing.T) {
	a, b, c := fates(badLink, 1, 1000), fates(badLink, 1, 1000), fates(badLink, 2, 1000)
	if !reflect.DeepEqual(a, b) {
		t.Error("the same seed made different fates")
	}
	if reflect.DeepEqual(a, c) {
		t.Error("different seeds made the same fates")
	}
}

// TestFateOfFlows checks that flows have unlike generators, whatever part of
// their addresses differs.
func TestFateOfFlows(t *testing.T) {
	from := []string{"10.0.0.1:1", "10.0.0.1:2", "10.0.0.2:1", "[fd00::1]:1", "[fd00::1:0:0:0:1]:1"}
	seen := make(map[uint64]string)
	for _, f := range from {
		for _, to := range from {
			for seed := range uint64(3) {
				k := flowKey(seed, addrPort(f), addrPort(to))
				name := fmt.Sprint(seed, " ", f, " to ", to)
				if other, ok := seen[k]; ok {
					t.Errorf("%s has the key of %s", name, other)
				}
				seen[k] = name
			}
		}
	}
}

// TestImpairmentsAreIndependent checks that turning one impairment on leaves
// what the others do with the same seed.
func TestImpairmentsAreIndependent(t *testing.T) {
	const n = 5000
	all := fates(badLink, 7, n)
	loss := fates(Link{Loss: badLink.Loss, Burst: badLink.Burst}, 7, n)
	dup := fates(Link{Duplicate: badLink.Duplicate}, 7, n)
	late := fates(Link{Reorder: badLink.Reorder}, 7, n)
	corrupt := fates(Link{Corrupt: badLink.Corrupt}, 7, n)
	for i, f := range all {
		if f.lost != loss[i].lost || f.copies != dup[i].copies || f.copy[0].held != late[i].copy[0].held ||
			f.copy[0].corrupt != corrupt[i].copy[0].corrupt {
			t.Fatalf("datagram %d: %+v differs from its impairments alone", i, f)
		}
	}
}

func TestDrawsAreUniform(t *testing.T) {
	const n, bins = 200_000, 100
	for slot := range uint64(drawCopy + 2*drawsPerCopy) {
		var count [bins]int
		for i := range uint64(n) {
			count[int(newDraws(99, i).float64(slot)*bins)]++
		}
		chi := 0.0
		for _, c := range count {
			d := float64(c) - n/bins
			chi += d * d / (n / bins)
		}
		// Mean 99, standard deviation 14.
		wantBetween(t, fmt.Sprintf("chi-squared of slot %d", slot), chi, 99-5*14, 99+5*14)
	}
}

func TestDrawsAreUncorrelated(t *testing.T) {
	const n = 200_000
	correlation := func(x, y func(i uint64) float64) float64 {
		sum := 0.0
		for i := range uint64(n) {
			sum += (x(i) - 0.5) * (y(i) - 0.5)
		}
		return sum / n * 12
	}
	at := func(key, shift, slot uint64) func(uint64) float64 {
		return func(i uint64) float64 { return newDraws(key, i+shift).float64(slot) }
	}
	limit := 5 / math.Sqrt(n)
	for name, other := range map[string]func(uint64) float64{
		"next index": at(1, 1, 0),
		"next slot":  at(1, 0, 1),
		"next key":   at(2, 0, 0),
	} {
		wantBetween(t, "correlation with "+name, correlation(at(1, 0, 0), other), -limit, limit)
	}
}

// outcome is what a run delivered of each flow, in the order of indexes.
type outcome map[string][]arrival

// runFlows sends 300 datagrams on each of 6 flows to one socket, from a
// goroutine each, which yield at random moments; with procs processors.
func runFlows(t *testing.T, procs int, yield func(flow, i int) bool) outcome {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(procs))
	got := make(outcome)
	bubble(t, func(t *testing.T) {
		n := New(5)
		defer n.Close()
		n.SetDefault(badLink)
		dst := listen(t, n, "10.0.0.1:1")
		dst.SetReadBuffer(1 << 30)
		start := time.Now()
		var wg sync.WaitGroup
		for f := range 6 {
			src := listen(t, n, fmt.Sprintf("10.0.1.%d:9", f))
			wg.Go(func() {
				for i := range 300 {
					src.WriteTo(numbered(i, 8), dst.LocalAddr())
					if yield(f, i) {
						runtime.Gosched()
					}
					if i%10 == 9 {
						time.Sleep(10 * time.Millisecond)
					}
				}
			})
		}
		wg.Go(func() {
			buf := make([]byte, 100)
			dst.SetReadDeadline(start.Add(time.Second))
			for {
				k, from, err := dst.ReadFrom(buf)
				if err != nil {
					return
				}
				a := arrival{at: time.Since(start), data: slices.Clone(buf[:k])}
				got[from.String()] = append(got[from.String()], a)
			}
		})
		wg.Wait()
	})
	return got
}

// TestRunIsReproducible checks that a seed means the same run, to the byte and
// nanosecond, however goroutines are scheduled.
func TestRunIsReproducible(t *testing.T) {
	want := runFlows(t, 1, func(int, int) bool { return false })
	if len(want) != 6 {
		t.Fatalf("%d flows arrived, want 6", len(want))
	}
	for run := range 4 {
		got := runFlows(t, 1+run, func(f, i int) bool { return (f*31+i*17+run)%(run+2) == 0 })
		if !reflect.DeepEqual(got, want) {
			t.Errorf("run %d differs", run)
		}
	}
}
