package main

import (
	"fmt"
	"strings"
	"time"
)

func formatDuration(d time.Duration) string {
	return fmt.Sprintf("%.1f ms", d.Seconds()*1e3)
}

func formatPercent(fraction float64) string {
	return fmt.Sprintf("%.1f %%", 100*fraction)
}

func formatRate(bits float64) string {
	switch {
	case bits >= 1e9:
		return fmt.Sprintf("%.2f Gbit/s", bits/1e9)
	case bits >= 1e6:
		return fmt.Sprintf("%.2f Mbit/s", bits/1e6)
	default:
		return fmt.Sprintf("%.0f kbit/s", bits/1e3)
	}
}

func formatSize(n int) string {
	switch {
	case n >= 10<<20:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	case n >= 1<<10 && n%(1<<10) == 0:
		return fmt.Sprintf("%d KiB", n>>10)
	case n >= 10<<10:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	case n == 1:
		return "1 byte"
	default:
		return fmt.Sprintf("%d bytes", n)
	}
}

// plural formats a number of things.
func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

func trimRight(s string) string { return strings.TrimRight(s, " ") }
