package main

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"time"
)

// head returns the beginning of a section of docs/BENCHMARKS.md.
func head(title, name string, o *options) string {
	return fmt.Sprintf("## %s\n\n*%s, %s, %d processors, %s/%s; %d rounds, each %v without the attack and with it; `go run ./bench/hostile -attacks %s`.*\n\n", title,
		time.Now().Format("2006-01-02"), runtime.Version(), runtime.NumCPU(), runtime.GOOS, runtime.GOARCH, o.rounds, o.length, name)
}

func reportOpenings(all map[string][]run, o *options) string {
	var b strings.Builder
	b.WriteString(head("Forged openings", "openings", o))
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

func reportFragments(all map[string][]run, o *options) string {
	return head("Unfinished messages", "fragments", o) + fmt.Sprintf(
		`%d live sessions send %d messages of %d bytes a second each, which the server answers. A further client sends %d first fragments
of 1,024 bytes a second, and never the second ones of their messages. A bare socket gets datagrams of %d bytes instead, and answers
them.
`, o.sessions, o.hertz, serverMessage, o.rate, unfinished) +
		beside(all, o, "without the attack and with it", "without", "with", "p99 with, ratio to udp",
			func(runs []run) string { return ratios(runs, all[serverUDP], (*run).p99) })
}

func reportReaders(all map[string][]run, o *options) string {
	return head("Slow readers", "readers", o) + fmt.Sprintf(
		`%d live sessions send %d messages of %d bytes a second each, which the server answers. %d other clients send %d messages of
%d bytes a second in all. At first the server reads them, and then none of them any more, which a bare socket cannot do. When
it holds %d KiB for each of the clients, it is measured again.
`,
		o.sessions, o.hertz, serverMessage, stalled, o.rate, unread, readBuffer>>10) +
		beside(all, o, "while the other messages are read and while they are unread", "read", "unread", "p99, unread : read",
			func(runs []run) string {
				return spread(runs, func(i int) float64 { return runs[i].p99() / runs[i].Quiet.p99() })
			})
}

// beside returns the figures of both halves of runs, and of a ratio.
func beside(all map[string][]run, o *options, when, first, second, last string, ratio func(runs []run) string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\"Held\" are bytes of messages and fragments that the server holds at the end. \"In time\" is the share of the sessions'\n"+
		`answers that came within %v, and "p99" the time in which 99 of 100 answers came,
%s. Server, sessions and other clients share the processors. Medians; ratios are of rounds.

| server | held, KiB | in time %s, %% | in time %s, %% | p99 %s, ms | p99 %s, ms | %s |
|---|---|---|---|---|---|---|
`, inLimit, when, first, second, first, second, last)
	for _, name := range o.servers {
		runs := all[name]
		fmt.Fprintf(&b, "| %s | %.0f | %.1f | %.1f | %.2f | %.2f | %s |\n", name,
			median(runs, func(r *run) float64 { return float64(r.Beside.Held) / 1024 }),
			median(runs, func(r *run) float64 { return r.Quiet.inTime() }), median(runs, (*run).inTime),
			median(runs, func(r *run) float64 { return r.Quiet.p99() }), median(runs, (*run).p99), ratio(runs))
	}
	return b.String()
}

// cost returns the microseconds of processor time for an opening.
func (r *run) cost() float64 {
	return float64(r.Alone.CPU) / 1e3 / float64(max(r.Alone.Opened, 1))
}

// dealt returns the share of openings that were dealt with beside the sessions.
func (r *run) dealt() float64 { return r.Beside.share(r.Beside.Opened) }

// made returns the share of them that became connections.
func (r *run) made() float64 { return r.Beside.share(r.Beside.Conns) }

func (h *half) share(n uint64) float64 { return 100 * float64(n) / float64(max(h.Sent, 1)) }

func (r *run) inTime() float64 { return r.Beside.inTime() }

func (h *half) inTime() float64 { return 100 * float64(h.InTime) / float64(max(h.Due, 1)) }

func median(runs []run, figure func(*run) float64) float64 {
	var v []float64
	for i := range runs {
		v = append(v, figure(&runs[i]))
	}
	slices.Sort(v)
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}

// ratios returns the spread of the ratios of rounds.
func ratios(runs, bare []run, figure func(*run) float64) string {
	return spread(runs[:min(len(runs), len(bare))], func(i int) float64 { return figure(&runs[i]) / figure(&bare[i]) })
}

// spread returns the median of a figure of rounds, with the least and the largest.
func spread(runs []run, figure func(i int) float64) string {
	var v []float64
	for i := range runs {
		v = append(v, figure(i))
	}
	if len(v) == 0 {
		return ""
	}
	slices.Sort(v)
	return fmt.Sprintf("%.2f (%.2f to %.2f)", (v[(len(v)-1)/2]+v[len(v)/2])/2, v[0], v[len(v)-1])
}

func (h *half) p99() float64 { return float64(h.P99) / 1e6 }

func (r *run) p99() float64 { return r.Beside.p99() }
