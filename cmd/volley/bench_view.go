package main

import (
	"fmt"
	"io"
	"slices"
	"sync"
	"time"
)

// A benchView prints a measurement in lines. Several goroutines may use it.
type benchView struct {
	opts *benchOptions

	mu    sync.Mutex
	w     io.Writer
	rows  int
	shown benchFigures // in the newest line
	now   benchFigures
	count *uint64 // of messages sent; nil: unknown
	rtts  samples
	notes []string
}

func newBenchView(w io.Writer, o *benchOptions) *benchView {
	return &benchView{w: w, opts: o, rtts: newSamples()}
}

func (v *benchView) begin(address string) {
	o := v.opts
	if o.json {
		return
	}
	way := "to"
	if o.reverse {
		way = "from"
	}
	rate := "as fast as it goes"
	if o.rate > 0 {
		rate = "at " + formatRate(float64(o.rate))
	}
	v.text("bench %s %s over %s, for %v", way, address, o.name(), &o.duration)
	v.text("messages of %s, %s", formatSize(int(o.size)), rate)
}

// A benchEvent is a line of JSON of bench. Rates are in bytes a second.
type benchEvent struct {
	Type       string      `json:"type"` // interval or summary
	Address    string      `json:"address,omitempty"`
	Direction  string      `json:"direction"` // forward or reverse
	Start      float64     `json:"start"`     // in seconds, since the first message came
	End        float64     `json:"end"`
	Bytes      uint64      `json:"bytes"`
	Rate       float64     `json:"bytes_per_second"`
	Messages   uint64      `json:"messages"` // received
	Expected   uint64      `json:"expected"`
	Lost       uint64      `json:"lost"`
	Loss       float64     `json:"loss"` // share of expected, 0 to 1
	OutOfOrder uint64      `json:"out_of_order"`
	Jitter     float64     `json:"jitter_ms"`
	Sent       *uint64     `json:"sent,omitempty"`
	RTT        *rttSummary `json:"rtt_ms,omitempty"` // under load
	Notes      []string    `json:"notes,omitempty"`
}

// between returns the figures of the time between two reports.
func (v *benchView) between(kind string, a, b benchFigures) benchEvent {
	e := benchEvent{
		Type: kind, Direction: "forward", Start: a.Elapsed.Seconds(), End: b.Elapsed.Seconds(),
		Bytes: b.Bytes - a.Bytes, Messages: b.Received - a.Received, Expected: b.Expected - a.Expected,
		OutOfOrder: b.OutOfOrder - a.OutOfOrder, Jitter: b.Jitter * 1e3,
	}
	if v.opts.reverse {
		e.Direction = "reverse"
	}
	if t := e.End - e.Start; t > 0 {
		e.Rate = float64(e.Bytes) / t
	}
	e.Lost = b.lost() - min(a.lost(), b.lost())
	if e.Expected > 0 {
		e.Loss = float64(min(e.Lost, e.Expected)) / float64(e.Expected)
	}
	return e
}

// show prints what has come since the last line. Overtaken reports do not count. A short
// rest, and news without time, wait.
func (v *benchView) show(f benchFigures) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if now := v.now; f.Received < now.Received || f.Bytes < now.Bytes || f.Expected < now.Expected ||
		f.OutOfOrder < now.OutOfOrder || f.Elapsed <= now.Elapsed && !f.Final {
		return
	}
	v.now = f
	e := v.between("interval", v.shown, f)
	if f.Final && e.End-e.Start <= time.Duration(v.opts.interval).Seconds()/2 {
		return
	}
	v.shown = f
	if v.opts.json {
		printJSON(v.w, e)
		return
	}
	if v.rows%headEvery == 0 {
		fmt.Fprintln(v.w)
		v.columns("time", "received", "rate", "jitter", "lost", "loss")
	}
	v.rows++
	v.line(e)
}

// columns prints a line of at most 60 columns.
func (v *benchView) columns(time, received, rate, jitter, lost, loss string) {
	fmt.Fprintf(v.w, "%11s %10s %13s %8s %7s %6s\n", time, received, rate, jitter, lost, loss)
}

func (v *benchView) line(e benchEvent) {
	v.columns(fmt.Sprintf("%.1f-%.1f s", e.Start, e.End), formatSize(int(e.Bytes)), formatRate(8*e.Rate),
		fmt.Sprintf("%.2f ms", e.Jitter), fmt.Sprint(e.Lost), formatPercent(e.Loss))
}

// final reports whether all that will come is known.
func (v *benchView) final() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.now.Final
}

func (v *benchView) sent(count uint64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.count = &count
}

func (v *benchView) roundTrip(d time.Duration) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if d > 0 {
		v.rtts.add(d)
	}
}

// note keeps texts for the end, each once.
func (v *benchView) note(texts ...string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, t := range texts {
		if !slices.Contains(v.notes, t) {
			v.notes = append(v.notes, t)
		}
	}
}

func (v *benchView) finish(address string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	e := v.between("summary", benchFigures{}, v.now)
	e.Address, e.Sent, e.RTT, e.Notes = address, v.count, newRTTSummary(&v.rtts), v.notes
	if v.opts.json {
		printJSON(v.w, e)
		return
	}
	fmt.Fprintln(v.w)
	v.line(e)
	fmt.Fprintln(v.w)
	received, order := fmt.Sprintf("%d messages", e.Messages), ""
	if e.Sent != nil {
		received = fmt.Sprintf("%d messages sent, %d", *e.Sent, e.Messages)
	}
	if e.OutOfOrder > 0 {
		order = fmt.Sprintf(", %d out of order", e.OutOfOrder)
	}
	v.text("%s received, %d lost (%s)%s", received, e.Lost, formatPercent(e.Loss), order)
	if rtt := e.RTT; rtt != nil {
		fmt.Fprintf(v.w, "round trip under load  median %s, 95 %% %s\n%22s 99 %% %s, max %s\n",
			formatTime(milliseconds(rtt.Median)), formatTime(milliseconds(rtt.P95)), "",
			formatTime(milliseconds(rtt.P99)), formatTime(milliseconds(rtt.Max)))
	}
	for _, n := range v.notes {
		v.text("%s", n)
	}
}

// text prints a line, or several where the terminal is narrow.
func (v *benchView) text(format string, args ...any) {
	fmt.Fprintln(v.w, wrap(fmt.Sprintf(format, args...), 0, textWidth(v.w)))
}
