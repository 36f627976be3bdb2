package main

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"time"

	"golang.org/x/term"
)

// A view shows the figures of a demo as it runs.
type view interface {
	// interval returns how often figures are to be shown.
	interval() time.Duration
	begin()
	show(figures)
	// finish shows the last figures, if there is something new in them.
	finish(figures)
}

// newView returns a graph for a terminal, and lines for everything else.
func newView(w io.Writer, o *options, about string) view {
	title := fmt.Sprintf("%s at %g Hz, over a link of %v +- %v round trip, %v loss", about, o.rate, o.rtt, o.jitter, &o.loss)
	f, ok := w.(*os.File)
	if ok && !o.plain && isTerminal(f) {
		return newGraph(f, title, func() int { return terminalWidth(f) })
	}
	return &table{w: w, title: title}
}

// isTerminal reports whether f is a terminal that can move its cursor.
func isTerminal(f *os.File) bool {
	t := os.Getenv("TERM")
	return term.IsTerminal(int(f.Fd())) && t != "dumb" && (t != "" || runtime.GOOS != "windows")
}

func terminalWidth(f *os.File) int {
	width, _, err := term.GetSize(int(f.Fd()))
	if err != nil || width <= 0 {
		return 80
	}
	return width
}

// A table shows one line a second.
type table struct {
	w     io.Writer
	title string
	rows  int
	last  time.Duration // elapsed at the last row
}

// headEvery is how many lines of a table follow one head.
const headEvery = 30

func (t *table) interval() time.Duration { return time.Second }

func (t *table) begin() { fmt.Fprintln(t.w, t.title) }

// finish shows a second that is nearly complete.
func (t *table) finish(f figures) {
	if f.elapsed-t.last > time.Second/2 {
		t.show(f)
	}
}

func (t *table) show(f figures) {
	if t.rows%headEvery == 0 {
		fmt.Fprintf(t.w, "\n%6s %8s %8s %10s %9s %9s %9s %14s\n",
			"time", "sent/s", "acked/s", "rtt", "jitter", "loss", "dgrams", "bandwidth")
	}
	t.rows++
	t.last = f.elapsed
	fmt.Fprintf(t.w, "%4.0f s %8.0f %8.0f %10s %9s %9s %9s %14s\n",
		f.elapsed.Seconds(), f.sentRate, f.ackedRate, formatDuration(f.rtt), formatDuration(f.jitter),
		formatPercent(f.messageLoss), formatPercent(f.datagramLoss), formatRate(f.bandwidth))
}

// A graph redraws some lines of a terminal, each with a figure and how it has
// gone so far.
type graph struct {
	w       io.Writer
	width   func() int // of the terminal, at present
	title   string
	hint    string
	levels  []rune
	history []figures
	drawn   int // lines on the screen
}

// graphInterval is the time from one column of a graph to the next.
const graphInterval = 250 * time.Millisecond

func newGraph(w io.Writer, title string, width func() int) *graph {
	g := &graph{w: w, width: width, title: title, hint: ", Ctrl-C ends it", levels: []rune(" .:-=+*#")}
	if utf8Locale() {
		g.levels = []rune("▁▂▃▄▅▆▇█")
		g.title = strings.ReplaceAll(title, "+-", "±")
	}
	return g
}

// utf8Locale reports whether the terminal is likely to show more than ASCII.
func utf8Locale() bool {
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if v := strings.ToLower(os.Getenv(name)); v != "" {
			return strings.Contains(v, "utf-8") || strings.Contains(v, "utf8")
		}
	}
	return runtime.GOOS == "darwin"
}

func (g *graph) interval() time.Duration { return graphInterval }

func (g *graph) begin() { g.draw() }

func (g *graph) show(f figures) {
	g.history = append(g.history, f)
	g.draw()
}

// finish also wipes away what the terminal echoes of a Ctrl-C.
func (g *graph) finish(f figures) {
	g.hint = ""
	g.show(f)
	io.WriteString(g.w, "\r\x1b[J")
}

// A row of the graph is one of the figures.
type row struct {
	name   string
	value  func(figures) float64
	format func(figures) string
}

var rows = []row{
	{"round trip", func(f figures) float64 { return f.rtt.Seconds() }, func(f figures) string { return formatDuration(f.rtt) }},
	{"jitter", func(f figures) float64 { return f.jitter.Seconds() }, func(f figures) string { return formatDuration(f.jitter) }},
	{"message loss", func(f figures) float64 { return f.messageLoss }, func(f figures) string { return formatPercent(f.messageLoss) }},
	{"datagram loss", func(f figures) float64 { return f.datagramLoss }, func(f figures) string { return formatPercent(f.datagramLoss) }},
	{"acknowledged", func(f figures) float64 { return f.ackedRate }, func(f figures) string { return fmt.Sprintf("%.0f /s", f.ackedRate) }},
	{"bandwidth", func(f figures) float64 { return f.bandwidth }, func(f figures) string { return formatRate(f.bandwidth) }},
}

// draw writes all lines over those drawn before.
func (g *graph) draw() {
	width := g.width()
	var last figures
	if len(g.history) > 0 {
		last = g.history[len(g.history)-1]
	}
	clock := fmt.Sprintf("%.1f s%s", last.elapsed.Seconds(), g.hint)
	lines := []string{clip(g.title, width), clip(clock, width)}
	for _, r := range rows {
		left := fmt.Sprintf("%-13s %12s  ", r.name, r.format(last))
		lines = append(lines, clip(left+g.curve(r, width-len(left)-1), width))
	}
	var b strings.Builder
	if g.drawn > 0 {
		fmt.Fprintf(&b, "\x1b[%dA", g.drawn)
	}
	for _, l := range lines {
		b.WriteString("\r" + l + "\x1b[K\n")
	}
	g.drawn = len(lines)
	io.WriteString(g.w, b.String())
}

// curve draws the latest values of a row in at most width characters.
func (g *graph) curve(r row, width int) string {
	h := g.history
	if len(h) > width {
		h = h[len(h)-max(0, width):]
	}
	top := 0.0
	for _, f := range h {
		top = max(top, r.value(f))
	}
	out := make([]rune, len(h))
	for i, f := range h {
		level := 0
		if top > 0 {
			level = int(r.value(f) / top * float64(len(g.levels)-1))
		}
		out[i] = g.levels[level]
	}
	return string(out)
}

// clip cuts a line to the width of the terminal, so that it doesn't wrap.
func clip(s string, width int) string {
	r := []rune(s)
	if len(r) < width {
		return s
	}
	return string(r[:max(0, width-1)])
}
