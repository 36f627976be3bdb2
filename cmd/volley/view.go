package main

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"time"

	"golang.org/x/term"

	"volley/simnet"
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
func newView(w io.Writer, o *options) view {
	title := fmt.Sprintf("messages of %s to %s at %g Hz, over a link of %v +- %v round trip, %v loss", formatSize(o.minSize), formatSize(o.maxSize), o.rate, o.rtt, o.jitter, &o.loss)
	f, ok := w.(*os.File)
	if ok && !o.plain && isTerminal(f) {
		g := newGraph(f, title, func() int { return terminalWidth(f) })
		g.events = scriptEvents(o.script)
		return g
	}
	return &table{w: w, title: title}
}

// isTerminal reports whether f is a terminal that can move its cursor.
func isTerminal(f *os.File) bool {
	t := os.Getenv("TERM")
	return term.IsTerminal(int(f.Fd())) && t != "dumb" && (t != "" || runtime.GOOS != "windows")
}

func terminalWidth(f *os.File) int {
	width, _ := terminalSize(f)
	return width
}

// terminalSize returns the columns and lines of a terminal.
func terminalSize(f *os.File) (width, height int) {
	width, height, err := term.GetSize(int(f.Fd()))
	if err != nil || width <= 0 || height <= 0 {
		return 80, 24
	}
	return width, height
}

// textWidth returns the length of lines of text: 80 characters, or less on a
// terminal that is narrower.
func textWidth(w io.Writer) int {
	if f, ok := w.(*os.File); ok && isTerminal(f) {
		return min(80, terminalWidth(f))
	}
	return 80
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
	canvas
	title   string
	hint    string
	levels  []rune
	marks   [2]string // of the begin and the end of an event
	events  []demoEvent
	history []figures
}

// graphInterval is the time from one column of a graph to the next.
const graphInterval = 250 * time.Millisecond

func newGraph(w io.Writer, title string, width func() int) *graph {
	g := &graph{canvas: canvas{w: w, width: width}, title: title, hint: ", Ctrl-C ends it", levels: []rune(" .:-=+*#"), marks: [2]string{"v", "^"}}
	if utf8Locale() {
		g.levels = []rune("▁▂▃▄▅▆▇█")
		g.marks = [2]string{"▼", "▲"}
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
	room := max(0, width-len(leftOf("", ""))-scaleWidth-1)
	lines := append(strings.Split(wrap(g.title, 0, width-1), "\n"), clock)
	for _, r := range rows {
		curve, top := g.curve(r, room)
		scale := ""
		if top.value > 0 {
			scale = " <= " + r.format(top.figures)
		}
		lines = append(lines, leftOf(r.name, r.format(last))+pad(curve, room)+g.symbols(scale))
	}
	lines = append(lines, leftOf("", "")+g.axis(room))
	if len(g.events) > 0 {
		lines = append(lines, leftOf("events", "")+g.marked(room), "  "+g.latest(last.elapsed))
	}
	g.canvas.draw(lines)
}

// scaleWidth is the room for what the top of a curve stands for.
const scaleWidth = 15

// leftOf returns what stands to the left of a curve.
func leftOf(name, value string) string { return fmt.Sprintf("%-13s %12s  ", name, value) }

// pad fills text up to a width.
func pad(s string, width int) string {
	return s + strings.Repeat(" ", max(0, width-len([]rune(s))))
}

// symbols returns a text as the terminal may show it better.
func (g *graph) symbols(s string) string {
	if g.marks[0] != "v" {
		return strings.Replace(s, "<=", "≤", 1)
	}
	return s
}

// visible returns the latest figures, of which there is one a column.
func (g *graph) visible(width int) []figures {
	return g.history[max(0, len(g.history)-max(0, width)):]
}

// A peak is the largest value of a curve, and the figures it is of.
type peak struct {
	value   float64
	figures figures
}

// curve draws the latest values of a row in at most width characters. The
// highest level stands for the top.
func (g *graph) curve(r row, width int) (line string, top peak) {
	h := g.visible(width)
	for _, f := range h {
		if v := r.value(f); v > top.value {
			top = peak{v, f}
		}
	}
	out := make([]rune, len(h))
	for i, f := range h {
		level := 0
		if top.value > 0 {
			level = int(r.value(f) / top.value * float64(len(g.levels)-1))
		}
		out[i] = g.levels[level]
	}
	return string(out), top
}

// axis tells the time of the first and the last column.
func (g *graph) axis(width int) string {
	h := g.visible(width)
	if len(h) == 0 {
		return ""
	}
	first := fmt.Sprintf("%.1f s", h[0].elapsed.Seconds())
	last := fmt.Sprintf("%.1f s", h[len(h)-1].elapsed.Seconds())
	if gap := len(h) - len(first) - len(last); gap > 0 {
		return first + strings.Repeat(" ", gap) + last
	}
	return first
}

// A demoEvent is a change of the link by the script.
type demoEvent struct {
	begin, end time.Duration // end 0: never
	text       string
}

// scriptEvents returns the steps of a valid script.
func scriptEvents(script string) (events []demoEvent) {
	for text := range strings.FieldsFuncSeq(script, func(r rune) bool { return r == ';' || r == '\n' }) {
		steps, err := simnet.ParseScript(text)
		if err != nil || len(steps) == 0 {
			continue
		}
		e := demoEvent{begin: steps[0].At, text: strings.TrimSpace(text)}
		if steps[0].For > 0 {
			e.end = e.begin + steps[0].For
		}
		events = append(events, e)
	}
	return events
}

// marked returns the columns with the begins and ends of events marked.
func (g *graph) marked(width int) string {
	h := g.visible(width)
	line := make([]string, len(h))
	before := time.Duration(0)
	if n := len(g.history) - len(h); n > 0 {
		before = g.history[n-1].elapsed
	}
	for i, f := range h {
		line[i] = " "
		for _, e := range g.events {
			if e.end > before && e.end <= f.elapsed {
				line[i] = g.marks[1]
			}
		}
		for _, e := range g.events {
			if e.begin >= before && e.begin < f.elapsed {
				line[i] = g.marks[0]
			}
		}
		before = f.elapsed
	}
	return strings.Join(line, "")
}

// latest tells of the event that has begun last.
func (g *graph) latest(now time.Duration) string {
	text, at := "", time.Duration(-1)
	for _, e := range g.events {
		if e.begin < now && e.begin >= at {
			text, at = g.marks[0]+" "+e.text, e.begin
		}
	}
	return text
}
