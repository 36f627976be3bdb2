package main

import (
	"fmt"
	"io"
	"slices"
	"sync"
	"time"
)

// A benchView prints what a measurement comes to, in lines. Its connections may
// use it at the same time.
type benchView struct {
	opts *benchOptions

	mu    sync.Mutex
	w     io.Writer
	rows  int
	ways  []*benchWay // one, or with --bidir two
	rtts  samples
	notes []string
}

// A benchWay is a direction, with the connections whose data goes there.
type benchWay struct {
	reverse bool
	streams []*benchStream
}

// A benchStream is what the receiver of one connection's data has told.
type benchStream struct {
	way   *benchWay
	shown benchFigures // in the newest line
	now   benchFigures
	fresh bool // there is something new since that line
	sent  *benchSent
}

func newBenchView(w io.Writer, o *benchOptions) *benchView {
	return &benchView{w: w, opts: o, rtts: newSamples()}
}

func (v *benchView) addWay(reverse bool) *benchWay {
	w := &benchWay{reverse: reverse}
	v.ways = append(v.ways, w)
	return w
}

func (w *benchWay) add() *benchStream {
	s := &benchStream{way: w}
	w.streams = append(w.streams, s)
	return s
}

// name tells the direction in JSON.
func (w *benchWay) name() string {
	if w.reverse {
		return "reverse"
	}
	return "forward"
}

func (v *benchView) begin(address string) {
	o := v.opts
	if o.json {
		return
	}
	way := "to"
	switch {
	case o.bidir:
		way = "to (->) and from (<-)"
	case o.reverse:
		way = "from"
	}
	rate := "as fast as it goes"
	if o.rate > 0 {
		rate = "at " + formatRate(float64(o.rate))
	}
	if o.streams > 1 {
		rate += fmt.Sprintf(" on each of %d connections", o.streams)
	}
	v.text("bench %s %s over %s, for %v", way, address, o.name(), &o.duration)
	v.text("messages of %s, %s", formatSize(int(o.size)), rate)
}

// A benchEvent is a line of JSON of bench. Rates are in bits per second.
type benchEvent struct {
	Type        string       `json:"type"` // interval or summary
	Address     string       `json:"address,omitempty"`
	Direction   string       `json:"direction"`
	Start       float64      `json:"start"` // in seconds, since the first message came
	End         float64      `json:"end"`
	Bytes       uint64       `json:"bytes"`
	Rate        float64      `json:"bits_per_second"`
	Messages    uint64       `json:"messages"` // received
	Expected    uint64       `json:"expected"`
	Lost        uint64       `json:"lost"`
	LossPercent float64      `json:"loss_percent"`
	OutOfOrder  uint64       `json:"out_of_order"`
	Jitter      float64      `json:"jitter_ms"` // of several connections, their mean
	Sent        *uint64      `json:"sent,omitempty"`
	RTT         *rttSummary  `json:"rtt_ms,omitempty"`  // under load
	Streams     []benchEvent `json:"streams,omitempty"` // of a summary, if there are several
	Notes       []string     `json:"notes,omitempty"`
}

// benchBetween returns the figures of the time between two reports.
func benchBetween(kind string, a, b benchFigures) benchEvent {
	e := benchEvent{
		Type: kind, Start: a.Elapsed.Seconds(), End: b.Elapsed.Seconds(),
		Bytes: b.Bytes - a.Bytes, Messages: b.Received - a.Received, Expected: b.Expected - a.Expected,
		OutOfOrder: b.OutOfOrder - a.OutOfOrder, Jitter: b.Jitter * 1e3,
	}
	if t := e.End - e.Start; t > 0 {
		e.Rate = 8 * float64(e.Bytes) / t
	}
	e.Lost = b.lost() - min(a.lost(), b.lost())
	return e
}

// sum returns the figures of all connections of a direction, each since what
// since returns.
func (w *benchWay) sum(kind string, since func(*benchStream) benchFigures) (e benchEvent) {
	e.Type, e.Direction = kind, w.name()
	for _, s := range w.streams {
		x := benchBetween(kind, since(s), s.now)
		e.Start, e.End = max(e.Start, x.Start), max(e.End, x.End)
		e.Bytes, e.Rate = e.Bytes+x.Bytes, e.Rate+x.Rate
		e.Messages, e.Expected, e.Lost = e.Messages+x.Messages, e.Expected+x.Expected, e.Lost+x.Lost
		e.OutOfOrder += x.OutOfOrder
		e.Jitter += x.Jitter / float64(len(w.streams))
	}
	e.setLoss()
	return e
}

func (e *benchEvent) setLoss() {
	if e.Expected > 0 {
		e.LossPercent = 100 * float64(min(e.Lost, e.Expected)) / float64(e.Expected)
	}
}

// show takes what has come on a connection, and prints a line when there is news
// of all that go the same way, or news of one for the second time. Reports that
// have overtaken each other are left out.
func (v *benchView) show(s *benchStream, f benchFigures) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if now := s.now; f.Received < now.Received || f.Bytes < now.Bytes || f.Expected < now.Expected ||
		f.OutOfOrder < now.OutOfOrder || f.Elapsed <= now.Elapsed && !f.Final {
		return
	}
	if s.fresh && !f.Final {
		v.flush(s.way)
	}
	s.now, s.fresh = f, true
	if !slices.ContainsFunc(s.way.streams, func(s *benchStream) bool { return !s.fresh && !s.now.Final }) {
		v.flush(s.way)
	}
}

// flush prints a line of what has come since the one before. A short rest at the
// end has none. Where those with news have only caught up with others, whose next
// reports got lost, the news wait for the next line, since no time has passed.
func (v *benchView) flush(w *benchWay) {
	e := w.sum("interval", func(s *benchStream) benchFigures { return s.shown })
	over := !slices.ContainsFunc(w.streams, func(s *benchStream) bool { return !s.now.Final })
	if !over && e.End <= e.Start {
		return
	}
	if !over || e.End-e.Start > time.Duration(v.opts.interval).Seconds()/2 {
		v.print(e)
	}
	for _, s := range w.streams {
		s.shown, s.fresh = s.now, false
	}
}

func (v *benchView) print(e benchEvent) {
	if v.opts.json {
		printJSON(v.w, e)
		return
	}
	if v.rows%headEvery == 0 {
		fmt.Fprintln(v.w)
		v.columns("", "time", "received", "rate", "jitter", "lost", "loss")
	}
	v.rows++
	v.line(fmt.Sprintf("%.1f-%.1f s", e.Start, e.End), e)
}

// columns prints a line that fits 60 columns. Where both sides send it begins
// with an arrow.
func (v *benchView) columns(arrow, time, received, rate, jitter, lost, loss string) {
	if v.opts.bidir {
		fmt.Fprintf(v.w, "%2s %11s %10s %11s %8s %6s %6s\n", arrow, time, received, rate, jitter, lost, loss)
		return
	}
	fmt.Fprintf(v.w, "%11s %10s %13s %8s %7s %6s\n", time, received, rate, jitter, lost, loss)
}

func (v *benchView) line(title string, e benchEvent) {
	arrow := "->"
	if e.Direction == "reverse" {
		arrow = "<-"
	}
	v.columns(arrow, title, formatSize(int(e.Bytes)), formatRate(e.Rate),
		fmt.Sprintf("%.2f ms", e.Jitter), fmt.Sprint(e.Lost), formatPercent(e.LossPercent/100))
}

// final reports whether all that will come on the connection is known.
func (v *benchView) final(s *benchStream) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return s.now.Final
}

// sent notes what the sender has sent.
func (v *benchView) sent(s *benchStream, x benchSent) {
	v.mu.Lock()
	defer v.mu.Unlock()
	s.sent = &x
}

// roundTrip takes a round-trip time.
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

// complete reports whether something has come each way.
func (v *benchView) complete() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return !slices.ContainsFunc(v.ways, func(w *benchWay) bool { return w.total().Messages == 0 })
}

// total returns the figures of all the time.
func (w *benchWay) total() benchEvent {
	e := w.sum("summary", func(*benchStream) benchFigures { return benchFigures{} })
	known := true
	sent := uint64(0)
	for _, s := range w.streams {
		if known = known && s.sent != nil; known {
			sent += s.sent.count
		}
	}
	if known {
		e.Sent = &sent
	}
	if len(w.streams) > 1 {
		for _, s := range w.streams {
			one := (&benchWay{reverse: w.reverse, streams: []*benchStream{s}}).total()
			one.Type = "stream"
			e.Streams = append(e.Streams, one)
		}
	}
	return e
}

// finish prints the summary.
func (v *benchView) finish(address string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	rtt := newRTTSummary(&v.rtts)
	if !v.opts.json {
		fmt.Fprintln(v.w)
	}
	var totals []benchEvent
	for i, w := range v.ways {
		e := w.total()
		if e.Address, e.RTT = address, rtt; i == len(v.ways)-1 {
			e.Notes = v.notes
		}
		totals = append(totals, e)
		if v.opts.json {
			printJSON(v.w, e)
			continue
		}
		for i, s := range e.Streams {
			v.line(fmt.Sprintf("stream %d", i+1), s)
		}
		v.line(fmt.Sprintf("%.1f-%.1f s", e.Start, e.End), e)
	}
	if v.opts.json {
		return
	}
	fmt.Fprintln(v.w)
	for _, e := range totals {
		v.account(e)
	}
	if rtt != nil {
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

// account prints where the messages of a direction have gone.
func (v *benchView) account(e benchEvent) {
	way, received, order := "", fmt.Sprintf("%d messages", e.Messages), ""
	if v.opts.bidir {
		way = map[string]string{"forward": "-> ", "reverse": "<- "}[e.Direction]
	}
	if e.Sent != nil {
		received = fmt.Sprintf("%d messages sent, %d", *e.Sent, e.Messages)
	}
	if e.OutOfOrder > 0 {
		order = fmt.Sprintf(", %d out of order", e.OutOfOrder)
	}
	v.text("%s%s received, %d lost (%s)%s", way, received, e.Lost, formatPercent(e.LossPercent/100), order)
}
