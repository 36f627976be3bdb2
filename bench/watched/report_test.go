package main

import (
	"strings"
	"testing"
	"time"
)

// TestReport: ratios are those of pairs, and figures medians.
func TestReport(t *testing.T) {
	half := func(us time.Duration) half {
		return half{Messages: 1000, Mallocs: 500, CPU: 1000 * us * time.Microsecond, Time: 2000 * us * time.Microsecond}
	}
	all := []pair{
		{loadEcho, half(10), half(20)}, {loadFlood, half(1), half(1)}, {loadEcho, half(30), half(15)}, {loadFlood, half(1), half(1)},
	}
	got := report(all, 500, 4*time.Second)
	for _, want := range []string{
		"## Being watched\n", "; 2 pairs, each twice 4s of both;",
		"| echo | CPU for a message, µs | 20.000 | 17.500 | 1.250 (0.500 to 2.000) | 1.000 |\n",
		"| echo | time for a message, µs | 40.000 | 35.000 | 1.250 (0.500 to 2.000) | 1.000 |\n",
		"| flood | CPU for a message, µs | 1.000 | 1.000 | 1.000 (1.000 to 1.000) | 1.000 |\n",
		"| flood | allocations for a message | 0.500 | 0.500 |  |  |\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("report has no %q:\n%s", want, got)
		}
	}
}
