package main

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// A pingView shows how a ping goes.
type pingView interface {
	begin()
	show(pingEvent)
	// redraw is called several times a second.
	redraw(now time.Duration, f *pingFigures)
	finish(address string, f *pingFigures, advice []string)
}

// A pingEvent is something that happens in a ping, and a line of its JSON.
type pingEvent struct {
	Type    string   `json:"type"` // answer; lost: the time for it is over; or note
	Number  *uint64  `json:"number,omitempty"`
	RTT     *float64 `json:"rtt_ms,omitempty"`
	Bytes   int      `json:"bytes,omitempty"`
	Seconds float64  `json:"seconds"` // since the beginning
	Text    string   `json:"text,omitempty"`
}

func answerEvent(number uint64, rtt, at time.Duration, size int) pingEvent {
	ms := inMilliseconds(rtt)
	return pingEvent{Type: "answer", Number: &number, RTT: &ms, Bytes: size, Seconds: at.Seconds()}
}

func lostEvent(number uint64, at time.Duration) pingEvent {
	return pingEvent{Type: "lost", Number: &number, Seconds: at.Seconds()}
}

func noteEvent(at time.Duration, text string) pingEvent {
	return pingEvent{Type: "note", Seconds: at.Seconds(), Text: text}
}

func newPingView(w io.Writer, o *pingOptions, title string) pingView {
	if o.json {
		return &pingJSON{w: w, quiet: o.quiet}
	}
	lines := &pingLines{w: w, title: title, quiet: o.quiet}
	if f, ok := liveTerminal(w); ok && !o.plain && !o.quiet {
		return newPingPicture(f, lines, func() int { return terminalWidth(f) })
	}
	return lines
}

// pingLines prints a line for each answer.
type pingLines struct {
	w     io.Writer
	title string
	quiet bool
	notes int
}

func (v *pingLines) begin() { fmt.Fprintln(v.w, v.title) }

// maxNotes keeps a server that is not there from filling the screen.
const maxNotes = 10

func (v *pingLines) show(e pingEvent) {
	if v.quiet {
		return
	}
	switch e.Type {
	case "answer":
		fmt.Fprintf(v.w, "%s: number %d, time %s\n", formatSize(e.Bytes), *e.Number, formatTime(milliseconds(*e.RTT)))
	case "lost":
		fmt.Fprintf(v.w, "no answer to number %d\n", *e.Number)
	default:
		if v.notes++; v.notes <= maxNotes {
			fmt.Fprintln(v.w, e.Text)
		}
	}
}

func (v *pingLines) redraw(time.Duration, *pingFigures) {}

func (v *pingLines) finish(address string, f *pingFigures, advice []string) {
	fmt.Fprintln(v.w)
	printPingSummary(v.w, address, f, advice, textWidth(v.w))
}

// printPingSummary prints what a ping has come to, in lines of at most width characters.
func printPingSummary(w io.Writer, address string, f *pingFigures, advice []string, width int) {
	fmt.Fprintln(w, wrap(fmt.Sprintf("%s: %d sent, %d answered, %s lost, in %.1f s", address, f.sent, f.answered, formatPercent(f.loss()), f.elapsed.Seconds()), 0, width))
	for _, line := range f.details() {
		fmt.Fprintln(w, line)
	}
	if f.answered > 0 {
		p := f.rtts.percentiles(0.5, 0.95, 0.99)
		fmt.Fprintf(w, "round trip  min %s  median %s  mean %s\n", formatTime(f.rtts.min), formatTime(p[0]), formatTime(f.rtts.mean()))
		fmt.Fprintf(w, "            95 %% %s  99 %% %s  max %s\n", formatTime(p[1]), formatTime(p[2]), formatTime(f.rtts.max))
		fmt.Fprintf(w, "jitter      %s, standard deviation %s\n", formatTime(f.jitter()), formatTime(f.rtts.deviation()))
	}
	if f.answered > 1 {
		fmt.Fprintln(w)
		printHistogram(w, f.rtts.histogram(histogramBars), width)
	}
	for _, line := range advice {
		fmt.Fprintln(w, wrap(line, 0, width))
	}
}

// details returns lines about what got lost, and what was unusual.
func (f *pingFigures) details() (lines []string) {
	if there, back, ok := f.split(); ok && f.lost > 0 {
		lines = append(lines, fmt.Sprintf("lost on the way there: %d, on the way back: %d", there, back))
	}
	if n := f.open(); n > 0 {
		lines = append(lines, fmt.Sprintf("%d more had no answer yet", n))
	}
	if f.late > 0 {
		lines = append(lines, fmt.Sprintf("%s came later than the timeout of %v", plural(int(f.late), "answer", "answers"), f.timeout))
	}
	if f.repeated > 0 {
		lines = append(lines, fmt.Sprintf("%s came more than once", plural(int(f.repeated), "answer", "answers")))
	}
	return lines
}

// histogramBars is how many bars a histogram has at most, give or take one.
const histogramBars = 12

// printHistogram prints bars, the longest of which fills the width.
func printHistogram(w io.Writer, bins []bin, width int) {
	bar := "#"
	if utf8Locale() {
		bar = "█"
	}
	most, total := 0, 0
	for _, b := range bins {
		most, total = max(most, b.count), total+b.count
	}
	unit, name, digits := timeUnit(bins)
	for _, b := range bins {
		label := fmt.Sprintf("%9.*f - %.*f %s", digits, b.low.Seconds()*unit, digits, b.high.Seconds()*unit, name)
		if b.open {
			label = fmt.Sprintf("%9.*f and more %s", digits, b.low.Seconds()*unit, name)
		}
		label = fmt.Sprintf("%-26s %6d ", label, b.count)
		n := (b.count*max(0, width-len(label)-1) + most - 1) / most
		fmt.Fprintln(w, trimRight(label+strings.Repeat(bar, n)))
	}
}

// timeUnit chooses how the bounds of bars are written, as a factor to seconds.
func timeUnit(bins []bin) (factor float64, name string, digits int) {
	width := bins[0].high - bins[0].low
	if bins[len(bins)-1].low < time.Millisecond {
		return 1e6, "µs", 0
	}
	for w := width; w < time.Millisecond; w *= 10 {
		digits++
	}
	return 1e3, "ms", digits
}

// formatTime formats a round-trip time: to the microsecond if it is short.
func formatTime(d time.Duration) string {
	switch {
	case d < 10*time.Millisecond:
		return fmt.Sprintf("%.3f ms", d.Seconds()*1e3)
	case d < 100*time.Millisecond:
		return fmt.Sprintf("%.2f ms", d.Seconds()*1e3)
	default:
		return fmt.Sprintf("%.1f ms", d.Seconds()*1e3)
	}
}

// pingJSON prints lines of JSON.
type pingJSON struct {
	w     io.Writer
	quiet bool
}

// A pingSummary is the last line of JSON of ping.
type pingSummary struct {
	Type      string          `json:"type"` // summary
	Address   string          `json:"address"`
	Seconds   float64         `json:"seconds"`
	Sent      uint64          `json:"sent"`
	Answered  uint64          `json:"answered"`
	Lost      uint64          `json:"lost"`
	Open      int             `json:"open"` // without an answer, and too young to be lost
	Loss      float64         `json:"loss"` // 0 to 1
	LostThere *uint64         `json:"lost_there,omitempty"`
	LostBack  *uint64         `json:"lost_back,omitempty"`
	Late      uint64          `json:"late"`
	Repeated  uint64          `json:"repeated"`
	RTT       *pingRTT        `json:"rtt_ms,omitempty"`
	Histogram []pingHistogram `json:"histogram,omitempty"`
	Advice    []string        `json:"advice,omitempty"`
}

type pingRTT struct {
	rttSummary
	Jitter    float64 `json:"jitter"`
	Deviation float64 `json:"deviation"`
}

// rttSummary are round-trip times in milliseconds.
type rttSummary struct {
	Min    float64 `json:"min"`
	Median float64 `json:"median"`
	Mean   float64 `json:"mean"`
	P90    float64 `json:"p90"`
	P95    float64 `json:"p95"`
	P99    float64 `json:"p99"`
	Max    float64 `json:"max"`
}

// newRTTSummary returns nil if there are no samples.
func newRTTSummary(s *samples) *rttSummary {
	if s.count == 0 {
		return nil
	}
	p := s.percentiles(0.5, 0.9, 0.95, 0.99)
	return &rttSummary{
		Min: inMilliseconds(s.min), Median: inMilliseconds(p[0]), Mean: inMilliseconds(s.mean()),
		P90: inMilliseconds(p[1]), P95: inMilliseconds(p[2]), P99: inMilliseconds(p[3]), Max: inMilliseconds(s.max),
	}
}

type pingHistogram struct {
	From  float64 `json:"from_ms"`
	To    float64 `json:"to_ms"`
	Count int     `json:"count"`
}

func (v *pingJSON) begin() {}

func (v *pingJSON) show(e pingEvent) {
	if !v.quiet {
		printJSON(v.w, e)
	}
}

func (v *pingJSON) redraw(time.Duration, *pingFigures) {}

func (v *pingJSON) finish(address string, f *pingFigures, advice []string) {
	s := pingSummary{
		Type: "summary", Address: address, Seconds: f.elapsed.Seconds(),
		Sent: f.sent, Answered: f.answered, Lost: f.lost, Open: f.open(), Loss: f.loss(),
		Late: f.late, Repeated: f.repeated, Advice: advice,
	}
	if there, back, ok := f.split(); ok {
		s.LostThere, s.LostBack = &there, &back
	}
	if f.answered > 0 {
		s.RTT = &pingRTT{*newRTTSummary(&f.rtts), inMilliseconds(f.jitter()), inMilliseconds(f.rtts.deviation())}
		for _, b := range f.rtts.histogram(histogramBars) {
			s.Histogram = append(s.Histogram, pingHistogram{inMilliseconds(b.low), inMilliseconds(b.high), b.count})
		}
	}
	printJSON(v.w, s)
}

func inMilliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func milliseconds(ms float64) time.Duration { return seconds(ms / 1e3) }
