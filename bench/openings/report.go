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
sessions, for each of them that it has dealt with, and for all that comes of it in that time. With "volley" an opening may become
a connection with a goroutine of the application's that answers. With "volley-accepted" the application does nothing with it.
With "netcode" an opening is a request with a connect token that nobody has sealed. "udp" is a bare socket that answers
everybody. Of openings that prove nothing, volley makes 8,192 connections at once and 2,048 a second. "In time" is the share of
the sessions' answers that came within %v, without openings and with them. Server, sessions and flood share the processors, so where these are
busy with other things all of the shares fall, that of the bare socket last. Medians; the ratios are of rounds, to the bare socket
of the same round.

| server | CPU for an opening, µs | ratio to udp | openings dealt with, %% | connections made, %% | in time without, %% | in time with, %% | ratio to udp |
|---|---|---|---|---|---|---|---|
`, o.sessions, o.hertz, serverMessage, o.rate, inLimit)
	for _, name := range o.servers {
		runs, bare := all[name], all[serverUDP]
		fmt.Fprintf(&b, "| %s | %.1f | %s | %.1f | %.1f | %.1f | %.1f | %s |\n", name,
			median(runs, (*run).cost), ratios(runs, bare, (*run).cost), median(runs, (*run).dealt), median(runs, (*run).made),
			median(runs, func(r *run) float64 { return r.Quiet.inTime() }), median(runs, (*run).inTime), ratios(runs, bare, (*run).inTime))
	}
	return b.String()
}

// cost returns the microseconds of processor time for an opening.
func (r *run) cost() float64 {
	return float64(r.Alone.CPU) / 1e3 / float64(max(r.Alone.Opened, 1))
}

// dealt returns the share of openings that were dealt with beside the sessions.
func (r *run) dealt() float64 { return r.Flooded.share(r.Flooded.Opened) }

// made returns the share of them that became connections.
func (r *run) made() float64 { return r.Flooded.share(r.Flooded.Conns) }

func (h *half) share(n uint64) float64 { return 100 * float64(n) / float64(max(h.Forged, 1)) }

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
