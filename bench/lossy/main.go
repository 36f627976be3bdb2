// Command lossy measures reliable messages over a link that loses datagrams. It
// compares package porous with each way of congestion control and with redundancy,
// the system's TCP with CUBIC and with BBR, quic-go, and kcp-go. It writes its
// section of docs/BENCHMARKS.md and a chart:
//
//	go run ./bench/lossy
//	go run ./bench/lossy -out "" -seeds 1 -peers 'porous|quic-go'
//
// The link is that of package simnet, in the time of a bubble, so that a run of
// seconds takes as long as its computation. These run in real time, once:
//
//   - kcp-go, whose clock is a goroutine of the whole process;
//   - quic-go, whose pacing waits actively for the next nanosecond;
//   - package porous between sockets of the system, through a simnet.Proxy;
//   - TCP, between two tun devices, each in a network namespace of its own. That
//     takes Linux and the right to make namespaces; elsewhere its rows are empty.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"volley/bench/internal/section"
)

var paths = []path{
	{"0 %", 0, 25 * time.Millisecond},
	{"1 %", 0.01, 25 * time.Millisecond},
	{"5 %", 0.05, 25 * time.Millisecond},
}

const title = "The lossy link"

var far = path{"20 %, 200 ms", 0.2, 100 * time.Millisecond}

// main is a test in form, for only tests get into a bubble.
func main() {
	seeds := flag.Int("seeds", 5, "`number` of runs of each measurement, of which the median counts")
	names := flag.String("peers", "", "regular `expression` of the names of peers (default all)")
	length := flag.Duration("length", 20*time.Second, "`time` of a stream")
	out := flag.String("out", "docs", "`directory` of BENCHMARKS.md, whose section The lossy link is written, and of the chart; \"\": print it")
	everything := func(string, string) (bool, error) { return true, nil }
	testing.Main(everything, []testing.InternalTest{{Name: "lossy", F: func(t *testing.T) {
		write(t, *seeds, *names, *length, *out)
	}}}, nil, nil)
}

// write measures and writes.
func write(t *testing.T, seeds int, names string, length time.Duration, out string) {
	wanted, err := regexp.Compile(names)
	exitOn(err)
	var chosen []peer
	for _, p := range peers {
		if wanted.MatchString(p.name) {
			chosen = append(chosen, p)
		}
	}
	r := report{t: t, peers: chosen, seeds: seeds, length: length}
	r.measure()
	if out == "" {
		fmt.Print(r.section())
		return
	}
	exitOn(section.Replace(filepath.Join(out, "BENCHMARKS.md"), title, r.section()))
	exitOn(os.WriteFile(filepath.Join(out, "bench-lossy.svg"), []byte(r.svg()), 0o644))
}

func exitOn(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "lossy:", err)
		os.Exit(1)
	}
}

// A report has the medians of what was measured.
type report struct {
	t      *testing.T
	peers  []peer
	seeds  int
	length time.Duration
	// The first index is that of the peer, the second that of the path.
	bulk, stream [][]result
}

// measure does all runs.
func (r *report) measure() {
	for i := range r.peers {
		p := &r.peers[i]
		var bulks, streams []result
		for _, path := range paths {
			if p.bulk {
				bulks = append(bulks, r.median(p, path, bulk, func(x result) float64 { return x.mbits }))
			}
			streams = append(streams, r.late(p, path))
		}
		r.bulk = append(r.bulk, bulks)
		r.stream = append(r.stream, append(streams, r.late(p, far)))
	}
}

func (r *report) late(p *peer, path path) result {
	return r.median(p, path, stream(r.length), func(x result) float64 { return x.p99.Seconds() })
}

// median returns the median result of runs with several seeds; that of one
// that failed if one did.
func (r *report) median(p *peer, path path, f measure, by func(result) float64) result {
	var list []result
	n := r.seeds
	if !p.virtual {
		n = 1
	}
	for seed := range n {
		fmt.Fprintf(os.Stderr, "\r%-70s", fmt.Sprintf("%s, %s, seed %d", p.name, path.name, seed))
		x := run(r.t, p, uint64(seed), path.link(), f)
		if x.err != nil {
			fmt.Fprintln(os.Stderr, "\n", x.err)
			return x
		}
		list = append(list, x)
	}
	slices.SortFunc(list, func(x, y result) int {
		if by(x) < by(y) {
			return -1
		}
		return 1
	})
	return list[len(list)/2]
}

// section returns the section of the report.
func (r *report) section() string {
	var b strings.Builder
	fmt.Fprintf(&b, "## %s\n\n*%s, %s, %s/%s; medians of %d seeds; `go run ./bench/lossy`.*\n\n", title,
		time.Now().Format("2006-01-02"), runtime.Version(), runtime.GOOS, runtime.GOARCH, r.seeds)
	b.WriteString(`A link of 20 Mbit/s and 50 ms there and back, with a queue of 125,000 bytes, loses datagrams at random in both directions.
The link of the last column of the second table has 200 ms. Link and time are simulated, except where the list below the
tables says so. Those figures are of one run, and depend by some tens of milliseconds on other work of the machine. Two
seconds after the handshake:

`)
	fmt.Fprintf(&b, "Bulk: messages of 16 KiB for %v, Mbit/s of their bytes; and the processor time of a message without loss, in µs, of both\n"+
		"sides and the simulated link together.\n\n| | 0 %% | 1 %% | 5 %% | CPU |\n|---|---|---|---|---|\n", bulkTime)
	for i, p := range r.peers {
		if p.bulk {
			b.WriteString("| " + p.name + " |")
			for _, x := range r.bulk[i] {
				b.WriteString(" " + cell(x, fmt.Sprintf("%.2f", x.mbits)) + " |")
			}
			x := r.bulk[i][0]
			b.WriteString(" " + cell(x, fmt.Sprintf("%.0f", float64(x.cpu)/1e3)) + " |\n")
		}
	}
	fmt.Fprintf(&b, "\nMessages of 200 bytes at 60 Hz for %v: the 99th percentile of the time one way in ms, and the kilobytes that left the "+
		"sender, headers included.\n\n| | 0 %% | 1 %% | 5 %% | %s |\n|---|---|---|---|---|\n", r.length, far.name)
	for i, p := range r.peers {
		b.WriteString("| " + p.name + " |")
		for _, x := range r.stream[i] {
			b.WriteString(" " + cell(x, fmt.Sprintf("%.0f (%.0f)", x.p99.Seconds()*1e3, float64(x.bytes)/1e3)) + " |")
		}
		b.WriteString("\n")
	}
	b.WriteString("\n")
	for _, p := range r.peers {
		fmt.Fprintf(&b, "- %s: %s.\n", p.name, p.about)
	}
	b.WriteString("\n![60 Hz over a link that loses 5 %: the 99th percentile one way in ms (less is better)](bench-lossy.svg)\n")
	return b.String()
}

func cell(x result, text string) string {
	switch {
	case errors.Is(x.err, errors.ErrUnsupported) || errors.Is(x.err, fs.ErrPermission) || errors.Is(x.err, fs.ErrNotExist):
		return "-"
	case x.err != nil:
		return "failed"
	}
	return text
}

// svg returns a chart of the streams at 5 %.
func (r *report) svg() string {
	const row, left, width = 26, 230, 420
	var b strings.Builder
	h := 44 + row*len(r.peers)
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="760" height="%d" font-family="sans-serif" font-size="13">`+"\n", h)
	fmt.Fprintf(&b, `<rect width="760" height="%d" fill="white"/><text x="10" y="22" font-weight="bold">60 Hz over a link that loses 5 %%: 99th percentile one way, ms (less is better)</text>`+"\n", h)
	most := 1.0
	for i := range r.peers {
		most = max(most, r.stream[i][2].p99.Seconds())
	}
	for i, p := range r.peers {
		v, y := r.stream[i][2].p99.Seconds(), 36+row*i
		fmt.Fprintf(&b, `<text x="%d" y="%d" text-anchor="end">%s</text><rect x="%d" y="%d" width="%.0f" height="18" fill="%s"/><text x="%.0f" y="%d">%.0f</text>`+"\n",
			left-8, y+14, p.name, left, y, max(1, v/most*width), color(p), left+6+v/most*width, y+14, v*1e3)
	}
	b.WriteString("</svg>\n")
	return b.String()
}

func color(p peer) string {
	if strings.HasPrefix(p.name, "porous") {
		return "#2a6fb0"
	}
	return "#b0b0b0"
}
