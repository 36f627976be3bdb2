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
			Alone:  half{CPU: cpu, Sent: 1000, Opened: 1000},
			Quiet:  half{Due: 100, InTime: 100},
			Beside: half{Sent: 1000, Opened: 500, Conns: 100, Due: 100, InTime: inTime},
		}
	}
	all := map[string][]run{
		serverUDP:    {round(10*time.Millisecond, 100), round(20*time.Millisecond, 50), round(30*time.Millisecond, 100)},
		serverVolley: {round(30*time.Millisecond, 90), round(40*time.Millisecond, 50), round(30*time.Millisecond, 80)},
	}
	text := reportOpenings(all, &options{rounds: 3, servers: []string{serverUDP, serverVolley}})
	require.Contains(t, text, "| volley | 30.0 | 2.00 (1.00 to 3.00) | 50.0 | 10.0 | 100.0 | 80.0 | 0.90 (0.80 to 1.00) |")
}

// The ratio of slow readers is that of a server to itself, in each round.
func TestReportReaders(t *testing.T) {
	round := func(read, unread time.Duration) run {
		return run{
			Quiet:  half{Due: 100, InTime: 100, P99: read},
			Beside: half{Due: 100, InTime: 90, Held: 2048, P99: unread},
		}
	}
	all := map[string][]run{serverVolley: {round(2*time.Millisecond, time.Millisecond), round(time.Millisecond, 2*time.Millisecond), round(time.Millisecond, time.Millisecond)}}
	text := reportReaders(all, &options{rounds: 3, servers: []string{serverVolley}})
	require.Contains(t, text, "| volley | 2 | 100.0 | 90.0 | 1.00 | 1.00 | 1.00 (0.50 to 2.00) |")
}
