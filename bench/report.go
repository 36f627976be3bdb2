package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"time"
)

// A report makes text and charts of a tally.
type report struct {
	options *options
	plan    []measurement
	tally   tally
	date    time.Time
}

const introduction = `# Benchmarks

Written by ` + "`go run ./bench`" + `; run it to get the figures of your machine. ` + "`go run ./bench -modes game,fan-out`" + ` renews only what
it measures, and so on for the other modes.

Each section says over which device its messages went, or it was the loopback device. Figures are medians of rounds in which all peers take turns. Every message is checked
byte by byte. Peers without flow control are held back by a window, so that all are compared without loss, except at game
rates. "CPU" is user and system time of both sides, divided by the messages received. Absolute figures depend on the machine
and on what else it does; trust the ratios inside one table.

`

// peerList says who takes part.
func (r *report) peerList(b *strings.Builder) {
	for _, p := range peers {
		fmt.Fprintf(b, "- **%s**%s: %s.\n", p.name, versionText(p), p.about)
	}
}

// remarks say what the tables do not.
const remarks = `- **Bulk over a buffered stream.** A bufio.Writer in front of TCP makes one system call for hundreds of small messages and leaves
  no work for each of them to the kernel. Compare tcp-buffered with gso, the best that datagrams can do. But a message waits
  until the buffer is flushed, and behind lost ones.
- **The least latency.** A bare UDP socket has no header to write, no state to keep, and nobody to acknowledge to.
- **A few messages at a time.** Acknowledgements wake the sender, a cost for a sender that writes at a measured pace (Paced).
- **Memory of an idle connection.** A bare socket, and one of TCP, costs its descriptor and the stack of its reader; a volley
  connection also knows its peer's past. (Memory inside the kernel, which every socket needs, is not counted here.)
- **Encryption.** quic and dtls encrypt and volley's bare connections do not, so compare them with that in mind.
- **A virtual machine has moods.** Round trips within one process come in two kinds, some 3 µs apart, those of bare sockets too;
  which kind a median meets is chance. Small differences need a quiet machine and many rounds.
- **Loopback flatters runs.** The kernel hands a run of datagrams over whole. A real network device splits it on the way out,
  which is still most of the gain for the sender; the receiver gains where driver or stack put runs together again.
`

// A cell prints the results of one peer.
type cell func([]*result) string

func oneWayCell(rs []*result) string {
	rate := figureOf(rs, thousandsPerSecond)
	text := fmt.Sprintf("%s ±%.0f %% (%s)", short(rate.median), rate.spread(), short(figureOf(rs, cpuPerMessage).median))
	if loss := figureOf(rs, lossPercent).median; loss >= 0.005 {
		text += fmt.Sprintf(" %.2f %% lost", loss)
	}
	return text
}

func pingPongCell(rs []*result) string {
	return fmt.Sprintf("%s / %s / %s (%s)", short(figureOf(rs, p50).median), short(figureOf(rs, p99).median),
		short(figureOf(rs, p999).median), short(figureOf(rs, cpuPerMessage).median))
}

// sizeTable writes a table with a column for each size, and one for two
// processes.
func (r *report) sizeTable(b *strings.Builder, mode, about string, text cell) {
	ms := r.measurements(mode)
	fmt.Fprintf(b, "%s\n\n| |", about)
	for _, m := range ms {
		fmt.Fprintf(b, " %d B", m.size)
		if m.processes > 1 {
			b.WriteString(", two processes")
		}
		b.WriteString(" |")
	}
	b.WriteString(" allocations a message |\n|---|" + strings.Repeat("---|", len(ms)+1) + "\n")
	for _, p := range r.options.peers {
		row, any := fmt.Sprintf("| %s |", p.name), false
		for _, m := range ms {
			if rs := r.tally.of(m, p.name); len(rs) > 0 {
				row += " " + text(rs) + " |"
				any = true
			} else {
				row += " - |"
			}
		}
		if any {
			usual := r.tally.of(usualOf(ms), p.name)
			fmt.Fprintf(b, "%s %.2f |\n", row, figureOf(usual, allocsPerMessage).median)
		}
	}
	r.volleyLine(b, ms)
	b.WriteString("\n")
}

// usualOf returns the measurement with the usual size, or the first.
func usualOf(ms []measurement) measurement {
	for _, m := range ms {
		if m.size == usualSize {
			return m
		}
	}
	return ms[0]
}

// volleyLine says whether volley's own figures were true.
func (r *report) volleyLine(b *strings.Builder, ms []measurement) {
	rs := r.tally.of(usualOf(ms), "volley")
	if len(rs) == 0 || usualOf(ms).mode == modePingPong {
		return
	}
	acked := figureOf(rs, func(r *result) float64 { return r.Acked })
	loss := figureOf(rs, func(r *result) float64 { return r.LossFigure })
	fmt.Fprintf(b, "\nOf volley's messages with a known fate at %d bytes, %.3f %% were acknowledged (worst round %.3f %%); its loss figure was at most %.2f %%.\n",
		usualOf(ms).size, acked.median, acked.low, loss.high)
}

// A column is a quantity with a heading.
type column struct {
	head     string
	quantity func(*result) float64
}

var (
	rateColumns = []column{{"thousand messages/s", thousandsPerSecond}, {"CPU ns a message", cpuPerMessage},
		{"allocations a message", allocsPerMessage}, {"lost %", lossPercent}}
	latencyColumns = []column{{"CPU µs a message", func(r *result) float64 { return cpuPerMessage(r) / 1000 }},
		{"one way p50 µs", p50}, {"p99 µs", p99}, {"p99.9 µs", p999}, {"lost %", lossPercent}}
	idleColumns = []column{{"bytes resident, server in Read", idleServing}, {"both in Read", idleBytes}, {"goroutines", idleGoroutines}, {"CPU µs a second", idleCPU}}
)

// modeTable writes a table with a column for each quantity.
func (r *report) modeTable(b *strings.Builder, mode, about string, columns []column) {
	for _, m := range r.measurements(mode) {
		fmt.Fprintf(b, "%s\n\n| |", about)
		for _, c := range columns {
			fmt.Fprintf(b, " %s |", c.head)
		}
		b.WriteString("\n|---|" + strings.Repeat("---|", len(columns)) + "\n")
		for _, p := range r.options.peers {
			rs := r.tally.of(m, p.name)
			if len(rs) == 0 {
				continue
			}
			fmt.Fprintf(b, "| %s |", p.name)
			for i, c := range columns {
				f := figureOf(rs, c.quantity)
				fmt.Fprintf(b, " %s", short(f.median))
				if i == 0 && f.n > 1 {
					fmt.Fprintf(b, " ±%.0f %%", f.spread())
				}
				b.WriteString(" |")
			}
			b.WriteString("\n")
		}
		b.WriteString("\n")
	}
}

// measurements returns those of a mode.
func (r *report) measurements(mode string) (ms []measurement) {
	for _, m := range r.plan {
		if m.mode == mode {
			ms = append(ms, m)
		}
	}
	return ms
}

// kernelText returns the version of the kernel, where it is easy to find.
func kernelText() string {
	b, err := os.ReadFile(filepath.FromSlash("/proc/sys/kernel/osrelease"))
	if err != nil {
		return ""
	}
	release, _, _ := strings.Cut(string(b), "-")
	return " " + strings.TrimSpace(release)
}

// versionText returns the version of the module of a peer.
func versionText(p *peer) string {
	info, ok := debug.ReadBuildInfo()
	if !ok || p.module == "" {
		return ""
	}
	for _, dep := range info.Deps {
		if dep.Path == p.module {
			return " (" + dep.Version + ")"
		}
	}
	return ""
}
