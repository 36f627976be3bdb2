package main

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// A figure is the median of a quantity over some runs, and its extremes.
type figure struct {
	median, low, high float64
	n                 int
}

// figureOf takes a quantity of each result.
func figureOf(rs []*result, quantity func(*result) float64) figure {
	if len(rs) == 0 {
		return figure{}
	}
	vs := make([]float64, len(rs))
	for i, r := range rs {
		vs[i] = quantity(r)
	}
	slices.Sort(vs)
	mid := len(vs) / 2
	median := vs[mid]
	if len(vs)%2 == 0 {
		median = (vs[mid-1] + vs[mid]) / 2
	}
	return figure{median, vs[0], vs[len(vs)-1], len(vs)}
}

// spread returns half the distance of the extremes, in percent of the median.
func (f figure) spread() float64 {
	if f.median == 0 {
		return 0
	}
	return 50 * (f.high - f.low) / f.median
}

// Quantities of a result.
var (
	thousandsPerSecond = func(r *result) float64 { return float64(r.Messages) / r.Seconds / 1000 }
	cpuPerMessage      = func(r *result) float64 { return r.perMessage(float64(r.CPU)) } // ns
	allocsPerMessage   = func(r *result) float64 { return r.perMessage(float64(r.Mallocs)) }
	lossPercent        = func(r *result) float64 { return 100 * float64(r.Lost) / math.Max(1, float64(r.Sent)) }
	p50                = func(r *result) float64 { return micros(r.P50) }
	p99                = func(r *result) float64 { return micros(r.P99) }
	p999               = func(r *result) float64 { return micros(r.P999) }
	idleServing        = func(r *result) float64 { return r.BytesServing }
	idleBytes          = func(r *result) float64 { return r.Bytes }
	idleGoroutines     = func(r *result) float64 { return r.Goroutines }
	idleCPU            = func(r *result) float64 { return r.IdleCPU }
)

func micros(d time.Duration) float64 { return float64(d) / 1000 }

// short prints v with three digits or all in front of the point.
func short(v float64) string {
	switch {
	case v >= 100 || v == 0:
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}
