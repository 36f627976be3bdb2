package simnet

import (
	"math"
	"slices"
	"testing"
	"time"
)

// TestDistributions checks percentiles of delays, and their limits.
func TestDistributions(t *testing.T) {
	const latency, jitter = 1000 * ms, 10 * ms
	for _, test := range []struct {
		d                       string
		low, p10, p50, p90, top float64 // over the latency, in jitters
	}{
		{"uniform", -1, -0.8, 0, 0.8, 1},
		{"normal", -4, -1.2816, 0, 1.2816, 4},
		{"long-tail", 0, 1 / 11.42, 1, 11.42, 300},
	} {
		t.Run(test.d, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				a, b := pair(t, 3, Link{Latency: latency, Jitter: jitter, Distribution: test.d}, Link{})
				var got []float64
				for _, x := range collect(t, a, b, 20_000, 4, time.Second) {
					got = append(got, float64(x.at-time.Duration(x.number)*time.Second-latency)/float64(jitter))
				}
				if len(got) != 20_000 {
					t.Fatalf("%d have arrived", len(got))
				}
				slices.Sort(got)
				if got[0] < test.low || got[len(got)-1] > test.top {
					t.Errorf("from %.2f to %.2f, want %.2f to %.2f", got[0], got[len(got)-1], test.low, test.top)
				}
				for share, want := range map[float64]float64{0.1: test.p10, 0.5: test.p50, 0.9: test.p90} {
					p := got[int(share*float64(len(got)))]
					if math.Abs(p-want) > 0.02+0.05*math.Abs(want) {
						t.Errorf("percentile %.0f = %.3f, want %.3f", 100*share, p, want)
					}
				}
			})
		})
	}
}

// TestVary checks the ends of the range of a generator.
func TestVary(t *testing.T) {
	for _, d := range []string{"", "uniform", "normal", "long-tail"} {
		for _, u := range []float64{0, math.Nextafter(1, 0)} {
			l := Link{Jitter: time.Second, Distribution: d}
			if v := l.vary(u); v < -4*time.Second || v > 300*time.Second {
				t.Errorf("%v at %v: %v", d, u, v)
			}
		}
	}
}
