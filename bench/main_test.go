package main

import (
	"html"
	"math"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"volley/internal/testenv"
)

// TestMain lets the test binary be the processes of its runs.
func TestMain(m *testing.M) {
	if text := os.Getenv(jobEnv); text != "" {
		exitOn(runChild(text))
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// TestRuns has every peer take part in every mode for a moment; where time is
// short, only some.
func TestRuns(t *testing.T) {
	o := &options{peers: peers, modes: allModes, sizes: []int{usualSize, 4096}, loads: someLoads, fanOut: 5}
	if testing.Short() || testenv.Race {
		o.peers = []*peer{volleyPeer, udpPeer, tcpPeer}
	}
	plan, err := o.plan()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range plan {
		for _, p := range o.peers {
			if !p.takesPart(m) {
				continue
			}
			t.Run(m.String()+"/"+p.name, func(t *testing.T) { testRun(t, m, p) })
		}
	}
}

func testRun(t *testing.T, m measurement, p *peer) {
	j := job{Peer: p.name, Mode: m.mode, Size: m.size, Clients: 2, Warmup: 10 * time.Millisecond, Duration: 50 * time.Millisecond}
	if m.mode != modeFanIn && m.mode != modeIdle {
		j.Clients = 1
	}
	if m.load != (load{}) {
		j.Clients, j.Style, j.Rate = m.load.clients, m.load.style, m.load.rate
		j.Duration = 100 * time.Millisecond
	}
	r := testJob(t, j, m.processes)
	for nothing := m.mode != modeIdle; nothing && j.Duration < 10*time.Second; {
		if nothing = r.Sent == 0 || m.load != (load{}) && r.Handled == 0; nothing { // the machine may have stood still
			j.Duration *= 4
			r = testJob(t, j, m.processes)
		}
	}
	if r.Bad > 0 {
		t.Errorf("%d of %d messages came corrupt", r.Bad, r.Sent)
	}
	if m.mode != modeIdle && r.Sent == 0 {
		t.Error("no message was sent")
	}
	if m.load != (load{}) {
		testLoad(t, m.load, j.Duration, r)
	}
}

// testJob runs a job, which must not fail.
func testJob(t *testing.T, j job, processes int) *result {
	t.Helper()
	r, err := runJob(j, processes)
	if err != nil {
		t.Fatal(err)
	}
	if r.Error != "" {
		t.Fatal(r.Error)
	}
	return r
}

func TestHistogram(t *testing.T) {
	var h histogram
	for i := range 1000 {
		h.add(time.Duration(i+1) * time.Microsecond)
	}
	for _, test := range []struct {
		q    float64
		want time.Duration
	}{{0, time.Microsecond}, {.5, 501 * time.Microsecond}, {.99, 991 * time.Microsecond}} {
		got := h.quantile(test.q)
		if off := math.Abs(float64(got-test.want)) / float64(test.want); off > 0.02 {
			t.Errorf("quantile(%v) = %v, want %v within 2 %%", test.q, got, test.want)
		}
	}
	for _, d := range []time.Duration{0, 63, 64, 127, 128, math.MaxInt64} {
		if v := valueOf(bucketOf(uint64(d))); v > d || float64(d-v) > float64(d)/subBuckets {
			t.Errorf("%d lies in the bucket from %d", d, v)
		}
	}
}

func TestFigure(t *testing.T) {
	var rs []*result
	for _, n := range []uint64{30, 10, 20, 40} {
		rs = append(rs, &result{Messages: n})
	}
	got := figureOf(rs, func(r *result) float64 { return float64(r.Messages) })
	if want := (figure{25, 10, 40, 4}); got != want {
		t.Errorf("figureOf = %v, want %v", got, want)
	}
	if got.spread() != 60 {
		t.Errorf("spread = %v, want 60", got.spread())
	}
}

// TestReport makes a report of made-up results.
func TestReport(t *testing.T) {
	o := &options{peers: []*peer{volleyPeer, udpPeer}, modes: allModes, sizes: []int{64, usualSize}, loads: someLoads, fanOut: 1000, rounds: 2}
	plan, err := o.plan()
	if err != nil {
		t.Fatal(err)
	}
	tl := make(tally)
	for _, m := range plan {
		tl[m] = make(map[string][]*result)
		for _, p := range o.peers {
			if p.takesPart(m) {
				tl[m][p.name] = []*result{
					{Messages: 5000, Seconds: 1, CPU: time.Millisecond, P50: time.Millisecond, Bytes: 1000},
					{Error: "made up"},
				}
			}
		}
	}
	r := &report{options: o, plan: plan, tally: tl}
	text := r.document("")
	for _, want := range []string{"| volley | 5.00 ±0 % (200) |", "## Idle connections", "bench-oneway.svg"} {
		if !strings.Contains(text, want) {
			t.Errorf("the report lacks %q", want)
		}
	}
	for _, c := range r.charts() {
		if svg := c.svg(); !strings.Contains(svg, ">volley</text>") || strings.Contains(svg, "NaN") {
			t.Errorf("chart %s is not as it should be:\n%s", c.file, svg)
		}
	}
}

// TestChart: a bar is as long as its value says, from zero, and no line of the title
// is wider than the picture.
func TestChart(t *testing.T) {
	_, title := (&report{options: &options{}, plan: []measurement{{mode: modeGame, load: load{styleEcho, 500, 30}}}}).gameChart()
	c := chart{title: title, unit: "µs", bars: []bar{{"volley", 5}, {"other", 28.5}, {"none", 0}}}
	svg := c.svg()
	var widths []float64
	for _, m := range regexp.MustCompile(`<rect x="160" y="\d+" width="([\d.]+)"`).FindAllStringSubmatch(svg, -1) {
		w, err := strconv.ParseFloat(m[1], 64)
		if err != nil {
			t.Fatal(err)
		}
		widths = append(widths, w)
	}
	if len(widths) != 3 || math.Abs(widths[1]/widths[0]-5.7) > 0.01 || widths[1] != chartWidth-labelWidth-valueWidth {
		t.Errorf("bars of %v pixels for %v", widths, c.bars)
	}
	lines := regexp.MustCompile(`font-weight="bold"[^>]*>([^<]*)<`).FindAllStringSubmatch(svg, -1)
	words := ""
	for _, l := range lines {
		text := html.UnescapeString(l[1])
		words += text + " "
		if n := utf8.RuneCountInString(text); n > titleWidth {
			t.Errorf("a line of the title has %d characters, want %d at most: %q", n, titleWidth, text)
		}
	}
	if strings.TrimSpace(words) != title || len(lines) < 2 {
		t.Errorf("the title is %q in %d lines, want %q in several", words, len(lines), title)
	}
}

// BenchmarkHarness is what the harness itself costs a message.
func BenchmarkHarness(b *testing.B) {
	msg := newMessage(usualSize)
	var s score
	b.ReportAllocs()
	var n uint64
	for b.Loop() {
		number(msg, 1, n)
		if _, k, _, ok := inspect(msg, usualSize); ok {
			s.count(k)
		}
		n++
	}
}
