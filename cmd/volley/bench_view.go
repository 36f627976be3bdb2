package main

import (
	"fmt"
	"io"
	"time"
)

// A benchView prints what a measurement comes to, in lines.
type benchView struct {
	w     io.Writer
	opts  *benchOptions
	rows  int
	last  benchFigures // of the newest line
	total benchFigures
	out   *benchSent
	notes []string
}

func newBenchView(w io.Writer, o *benchOptions) *benchView { return &benchView{w: w, opts: o} }

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
	fmt.Fprintf(v.w, "bench %s %s over %s, for %v\nmessages of %s, %s\n", way, address, o.name(), &o.duration, formatSize(int(o.size)), rate)
}

// A benchEvent is a line of JSON of bench. Rates are in bits per second.
type benchEvent struct {
	Type        string   `json:"type"` // interval or summary
	Address     string   `json:"address,omitempty"`
	Direction   string   `json:"direction"`
	Start       float64  `json:"start"` // in seconds, since the first message came
	End         float64  `json:"end"`
	Bytes       uint64   `json:"bytes"`
	Rate        float64  `json:"bits_per_second"`
	Messages    uint64   `json:"messages"` // received
	Expected    uint64   `json:"expected"`
	Lost        uint64   `json:"lost"`
	LossPercent float64  `json:"loss_percent"`
	OutOfOrder  uint64   `json:"out_of_order"`
	Jitter      float64  `json:"jitter_ms"`
	Sent        *uint64  `json:"sent,omitempty"`
	Notes       []string `json:"notes,omitempty"`
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
		e.Rate = 8 * float64(e.Bytes) / t
	}
	e.Lost = b.lost() - min(a.lost(), b.lost())
	if e.Expected > 0 {
		e.LossPercent = 100 * float64(min(e.Lost, e.Expected)) / float64(e.Expected)
	}
	return e
}

// show prints a line for what has come since the one before. Reports that have
// overtaken each other are left out.
func (v *benchView) show(f benchFigures) {
	if f.Received < v.last.Received || f.Elapsed <= v.last.Elapsed && !f.Final {
		return
	}
	e := v.between("interval", v.last, f)
	v.total = f
	if !f.Final || f.Elapsed-v.last.Elapsed > time.Duration(v.opts.interval)/2 {
		v.print(e)
	}
	v.last = f
}

func (v *benchView) print(e benchEvent) {
	if v.opts.json {
		printJSON(v.w, e)
		return
	}
	if v.rows%headEvery == 0 {
		io.WriteString(v.w, benchHead)
	}
	v.rows++
	v.line(e)
}

// benchRow is the form of a line; it fits 60 columns.
const benchRow = "%11s %10s %13s %8s %7s %6s\n"

var benchHead = fmt.Sprintf("\n"+benchRow, "time", "received", "rate", "jitter", "lost", "loss")

func (v *benchView) line(e benchEvent) {
	fmt.Fprintf(v.w, benchRow, fmt.Sprintf("%.1f-%.1f s", e.Start, e.End), formatSize(int(e.Bytes)), formatRate(e.Rate),
		fmt.Sprintf("%.2f ms", e.Jitter), formatCount(e.Lost), formatPercent(e.LossPercent/100))
}

// sent notes what the sender has sent.
func (v *benchView) sent(s benchSent) { v.out = &s }

func (v *benchView) note(text string) { v.notes = append(v.notes, text) }

// finish prints the summary.
func (v *benchView) finish(address string) {
	e := v.between("summary", benchFigures{}, v.total)
	if v.opts.json {
		e.Address, e.Notes = address, v.notes
		if v.out != nil {
			e.Sent = &v.out.count
		}
		printJSON(v.w, e)
		return
	}
	fmt.Fprintln(v.w)
	v.line(e)
	if v.out != nil {
		fmt.Fprintf(v.w, "\n%d messages sent, %d received, %d lost (%s)", v.out.count, e.Messages, e.Lost, formatPercent(e.LossPercent/100))
	} else {
		fmt.Fprintf(v.w, "\n%d messages received, %d lost (%s)", e.Messages, e.Lost, formatPercent(e.LossPercent/100))
	}
	if e.OutOfOrder > 0 {
		fmt.Fprintf(v.w, ", %d out of order", e.OutOfOrder)
	}
	fmt.Fprintln(v.w)
	for _, n := range v.notes {
		fmt.Fprintln(v.w, n)
	}
}
