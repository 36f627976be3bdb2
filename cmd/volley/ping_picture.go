package main

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"
)

// A pingPicture redraws a graph of the round-trip times on a terminal.
type pingPicture struct {
	canvas
	lines   *pingLines
	history []float64 // round trips in ms by number, modulo its length; 0: lost or open
	fates   []rune    // the mark below: '.', or 'x' for one that is lost
	newest  uint64
	any     bool
	notes   []string
}

// maxColumns is more than any terminal is wide.
const maxColumns = 1024

// pictureHeight is the number of lines of a graph.
const pictureHeight = 8

func newPingPicture(w io.Writer, lines *pingLines, width func() int) *pingPicture {
	return &pingPicture{
		canvas: canvas{w: w, width: width}, lines: lines,
		history: make([]float64, maxColumns), fates: make([]rune, maxColumns),
	}
}

func (v *pingPicture) begin() {}

func (v *pingPicture) show(e pingEvent) {
	if e.Number == nil {
		v.notes = append(v.notes, fmt.Sprintf("%.1f s: %s", e.Seconds, e.Text))
		v.notes = v.notes[max(0, len(v.notes)-3):]
		return
	}
	v.reach(*e.Number)
	switch slot := *e.Number % maxColumns; {
	case v.newest-*e.Number >= maxColumns:
	case e.RTT == nil:
		v.fates[slot] = 'x'
	default:
		v.history[slot], v.fates[slot] = *e.RTT, ' '
	}
}

func (v *pingPicture) reach(number uint64) {
	for !v.any || v.newest < number {
		if v.any {
			v.newest++
		}
		v.any = true
		v.history[v.newest%maxColumns], v.fates[v.newest%maxColumns] = 0, ' '
	}
}

func (v *pingPicture) redraw(now time.Duration, f *pingFigures) {
	v.draw(v.compose(now, f, true))
}

func (v *pingPicture) compose(now time.Duration, f *pingFigures, running bool) []string {
	width := v.width()
	clock := fmt.Sprintf("%.0f s", now.Seconds())
	if running {
		clock += ", Ctrl-C ends it"
	}
	lines := []string{v.lines.title, clock, ""}
	lines = append(lines, v.graph(width)...)
	lines = append(lines, "", fmt.Sprintf("%-11s %d sent, %d answered, %s lost", "messages", f.sent, f.answered, formatPercent(f.loss())))
	if f.answered > 0 {
		p := f.rtts.percentiles(0.5, 0.99)
		lines = append(lines,
			fmt.Sprintf("%-11s now %s, median %s, 99 %% %s", "round trip", formatTime(f.last), formatTime(p[0]), formatTime(p[1])),
			fmt.Sprintf("%-11s min %s, max %s, jitter %s", "", formatTime(f.rtts.min), formatTime(f.rtts.max), formatTime(f.jitter())))
	}
	return append(lines, v.notes...)
}

// graph draws the last round-trip times as bars, with a scale, and marks what is lost.
// The labels stand at the bottoms of their rows.
func (v *pingPicture) graph(width int) []string {
	const scale = 12 // columns that the labels and the axis take
	times, marks := v.latest(max(8, width-scale-1))
	top := slices.Max(append(times, 0))
	if top == 0 {
		blank := make([]string, pictureHeight+2)
		blank[pictureHeight/2] = strings.Repeat(" ", scale) + "waiting for the first answer"
		return blank
	}
	axis, bars := "┤", []rune(" ▁▂▃▄▅▆▇█")
	if !utf8Locale() {
		axis, bars = "|", []rune(" ...:::##")
	}
	step := scaleStep(top)
	digits := max(0, -int(math.Floor(math.Log10(step)+1e-9)))
	var lines []string
	for row := pictureHeight; row >= 0; row-- {
		line := fmt.Sprintf("%7.*f ms %s", digits, float64(row)*step, axis)
		for _, ms := range times {
			line += string(bars[int(min(8, max(0, math.Ceil(8*(ms/step-float64(row))))))])
		}
		lines = append(lines, trimRight(line))
	}
	return append(lines, trimRight(fmt.Sprintf("%*s %s", scale-1, "lost", marks)))
}

// latest returns the last n round-trip times in milliseconds, 0 for none, and their marks.
func (v *pingPicture) latest(n int) (times []float64, marks string) {
	if !v.any {
		return nil, ""
	}
	first := v.newest + 1 - min(v.newest+1, uint64(n))
	for i := first; i <= v.newest; i++ {
		times = append(times, v.history[i%maxColumns])
		marks += string(v.fates[i%maxColumns])
	}
	return times, trimRight(marks)
}

// scaleStep returns a round distance of the labels for a scale that reaches up to top.
func scaleStep(top float64) float64 {
	least := top / pictureHeight
	unit := math.Pow(10, math.Floor(math.Log10(least)))
	for _, m := range []float64{1, 2, 3, 4, 5, 6, 8} {
		if m*unit >= least {
			return m * unit
		}
	}
	return 10 * unit
}

func (v *pingPicture) finish(address string, f *pingFigures, advice []string) {
	v.draw(v.compose(f.elapsed, f, false))
	io.WriteString(v.w, "\r\x1b[J\n") // and what the terminal echoes of a Ctrl-C
	printPingSummary(v.w, address, f, advice, v.width())
}

// A canvas redraws some lines of a terminal in place.
type canvas struct {
	w     io.Writer
	width func() int // of the terminal, at present
	drawn int        // lines that stand there
}

func (s *canvas) draw(lines []string) {
	width := s.width()
	var b strings.Builder
	if s.drawn > 0 {
		fmt.Fprintf(&b, "\x1b[%dA", s.drawn)
	}
	for _, l := range lines {
		b.WriteString("\r" + cut(l, width-1) + "\x1b[K\n")
	}
	b.WriteString("\x1b[J")
	s.drawn = len(lines)
	io.WriteString(s.w, b.String())
}
