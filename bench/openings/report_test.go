package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A row has the figures of the median round, and ratios to the bare socket of the same.
func TestReport(t *testing.T) {
	round := func(cpu time.Duration, inTime uint64) run {
		return run{
			Alone:   half{CPU: cpu, Forged: 1000, Opened: 1000},
			Quiet:   half{Due: 100, InTime: 100},
			Flooded: half{Forged: 1000, Opened: 500, Conns: 100, Due: 100, InTime: inTime},
		}
	}
	all := map[string][]run{
		serverUDP:    {round(10*time.Millisecond, 100), round(20*time.Millisecond, 50), round(30*time.Millisecond, 100)},
		serverVolley: {round(30*time.Millisecond, 90), round(40*time.Millisecond, 50), round(30*time.Millisecond, 80)},
	}
	text := report(all, &options{rounds: 3, servers: []string{serverUDP, serverVolley}})
	require.Contains(t, text, "| volley | 30.0 | 2.00 (1.00 to 3.00) | 50.0 | 10.0 | 100.0 | 80.0 | 0.90 (0.80 to 1.00) |")
}
