package main

import (
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"time"
)

const title = "Being watched"

// report returns the section of docs/BENCHMARKS.md.
func report(all []pair, clients int, length time.Duration) string {
	var b strings.Builder
	fmt.Fprintf(&b, "## %s\n\n*%s, %s, %d processors, %s/%s; %d pairs, each twice %v of both; `go run ./bench/watched`.*\n\n", title,
		time.Now().Format("2006-01-02"), runtime.Version(), runtime.NumCPU(), runtime.GOOS, runtime.GOARCH, len(of(all, loads[0])), length)
	fmt.Fprintf(&b, `The cost of being watched: a client of the debug page reads its stream, with all connections explained
each second, and a scrape of volleyprom comes each second. Load "%s" is one client that sends messages of %d bytes as
fast as they go, held back by a window. Load "%s" is %d clients that send %d messages of %d bytes a second each and are
answered. "CPU" is user and system time of the server's process for each message that comes in, and its
allocations are counted likewise. Ratios are of pairs: their median, with the least and the largest, and their geometric mean; above
1 it is worse to be watched. Where they spread by more than some percent the machine was busy with other things, and the means
say as much about those.

| load | | unwatched | watched | ratio | geometric mean |
|---|---|---|---|---|---|
`, loadFlood, floodSize, loadEcho, clients, echoRate, echoSize)
	for _, load := range loads {
		ps := of(all, load)
		row(&b, load, "time for a message, µs", ps, true, func(h half) float64 { return h.per(float64(h.Time)) / 1e3 })
		row(&b, load, "CPU for a message, µs", ps, true, func(h half) float64 { return h.per(float64(h.CPU)) / 1e3 })
		row(&b, load, "allocations for a message", ps, false, func(h half) float64 { return h.per(float64(h.Mallocs)) })
	}
	return b.String()
}

func (h half) per(v float64) float64 { return v / float64(h.Messages) }

// of returns the pairs of one load.
func of(all []pair, load string) []pair {
	return slices.DeleteFunc(slices.Clone(all), func(p pair) bool { return p.Load != load })
}

// row writes the medians of a figure, and how the halves compare.
func row(b *strings.Builder, load, name string, ps []pair, compare bool, figure func(half) float64) {
	var off, on, ratios []float64
	product := 0.0
	for _, p := range ps {
		x, y := figure(p.Unwatched), figure(p.Watched)
		off, on, ratios = append(off, x), append(on, y), append(ratios, y/x)
		product += math.Log(y / x)
	}
	ratio := " | "
	if compare {
		ratio = fmt.Sprintf("%.3f (%.3f to %.3f) | %.3f", median(ratios), slices.Min(ratios), slices.Max(ratios), math.Exp(product/float64(len(ps))))
	}
	fmt.Fprintf(b, "| %s | %s | %.3f | %.3f | %s |\n", load, name, median(off), median(on), ratio)
}

func median(v []float64) float64 {
	slices.Sort(v)
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}
