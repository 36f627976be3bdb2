package main

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"time"
)

const title = "Forged openings"

// report returns the section of docs/BENCHMARKS.md.
func report(all map[string][]run, o *options) string {
	var b strings.Builder
	fmt.Fprintf(&b, "## %s\n\n*%s, %s, %d processors, %s/%s; %d rounds, each %v without openings and with them; `go run ./bench/openings`.*\n\n", title,
		time.Now().Format("2006-01-02"), runtime.Version(), runtime.NumCPU(), runtime.GOOS, runtime.GOARCH, o.rounds, o.length)
	fmt.Fprintf(&b, `%d live sessions send %d messages of %d bytes a second each, which the server answers, and then %d first datagrams a second
come beside them, each from another address of the loopback. "CPU" is user and system time of a server's process that has no
sessions, for each of them that it has taken up, and for all that comes of it in that time: "volley" is a connection each
with a goroutine of the application's that answers, "volley-accepted" one that the application does nothing with, "netcode" a
request with a connect token that nobody has sealed, and "udp" a bare socket that answers everybody. "In time" is the share of
the sessions' answers that came within %v, without openings and with them. Server, sessions and flood share the processors, so where these are
busy with other things all of the shares fall, that of the bare socket last. Medians; the ratios are of rounds, to the bare socket
of the same round.

| server | CPU for an opening, µs | ratio to udp | openings taken up, %% | in time without, %% | in time with, %% | ratio to udp |
|---|---|---|---|---|---|---|
`, o.sessions, o.hertz, serverMessage, o.rate, inLimit)
	for _, name := range o.servers {
		runs, bare := all[name], all[serverUDP]
		fmt.Fprintf(&b, "| %s | %.1f | %s | %.1f | %.1f | %.1f | %s |\n", name,
			median(runs, (*run).cost), ratios(runs, bare, (*run).cost), median(runs, (*run).taken),
			median(runs, func(r *run) float64 { return r.Quiet.inTime() }), median(runs, (*run).inTime), ratios(runs, bare, (*run).inTime))
	}
	return b.String()
}

// cost returns the microseconds of processor time for an opening.
func (r *run) cost() float64 {
	return float64(r.Alone.CPU) / 1e3 / float64(max(r.Alone.Opened, 1))
}

// taken returns the share of openings that were taken up beside the sessions.
func (r *run) taken() float64 {
	return 100 * float64(r.Flooded.Opened) / float64(max(r.Flooded.Forged, 1))
}

func (r *run) inTime() float64 { return r.Flooded.inTime() }

func (h *half) inTime() float64 { return 100 * float64(h.InTime) / float64(max(h.Due, 1)) }

func median(runs []run, figure func(*run) float64) float64 {
	var v []float64
	for i := range runs {
		v = append(v, figure(&runs[i]))
	}
	slices.Sort(v)
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}

// ratios returns the median of the ratios of rounds, with the least and the largest.
func ratios(runs, bare []run, figure func(*run) float64) string {
	var v []float64
	for i := range min(len(runs), len(bare)) {
		v = append(v, figure(&runs[i])/figure(&bare[i]))
	}
	if len(v) == 0 {
		return ""
	}
	slices.Sort(v)
	return fmt.Sprintf("%.2f (%.2f to %.2f)", (v[(len(v)-1)/2]+v[len(v)/2])/2, v[0], v[len(v)-1])
}
