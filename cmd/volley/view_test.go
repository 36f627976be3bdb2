package main

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

var someFigures = figures{
	elapsed: 2 * time.Second, sentRate: 60, ackedRate: 52, rtt: 43_210 * time.Microsecond,
	jitter: 5 * time.Millisecond, messageLoss: 0.123, datagramLoss: 0.05, bandwidth: 812_345,
}

func TestTable(t *testing.T) {
	var b strings.Builder
	v := &table{w: &b, title: "title"}
	v.begin()
	for range headEvery + 1 {
		v.show(someFigures)
	}
	f := someFigures
	f.elapsed += time.Second / 4
	v.finish(f) // too little for a line of its own
	f.elapsed += time.Second
	v.finish(f)
	lines := strings.Split(strings.TrimSpace(b.String()), "\n")
	want := strings.Fields("2 s 60 52 43.2 ms 5.0 ms 12.3 % 5.0 % 812 kbit/s")
	if got := strings.Fields(lines[3]); strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("line = %q, want %q", got, want)
	}
	// Title, two heads with an empty line before each, the lines.
	if got, want := len(lines), 1+2*2+headEvery+2; got != want {
		t.Errorf("%d lines, want %d", got, want)
	}
	for _, l := range lines {
		if len(l) > 80 {
			t.Errorf("line of %d characters: %q", len(l), l)
		}
	}
}

func TestGraph(t *testing.T) {
	t.Setenv("LC_ALL", "C")
	var b strings.Builder
	g := newGraph(&b, "title", func() int { return 80 })
	g.begin()
	for range 200 {
		g.show(someFigures)
	}
	g.finish(someFigures)
	frames := strings.Split(b.String(), "\x1b[9A")
	if len(frames) != 202 {
		t.Fatalf("%d frames, want 202", len(frames))
	}
	for _, frame := range frames {
		lines := strings.Split(frame, "\x1b[K\n")
		if len(lines) != 2+len(rows)+2 {
			t.Fatalf("frame of %d lines: %q", len(lines), frame)
		}
		for _, l := range lines {
			if len(l) > 80 {
				t.Errorf("line of %d characters: %q", len(l), l)
			}
		}
	}
	if first, last := frames[0], frames[201]; !strings.Contains(first, "Ctrl-C") || strings.Contains(last, "Ctrl-C") {
		t.Errorf("frames %q and %q, want a hint in the first only", first, last)
	}
	if !strings.Contains(frames[200], "round trip         43.2 ms  ####") {
		t.Errorf("frame = %q", frames[200])
	}
}

func TestCurve(t *testing.T) {
	r := row{value: func(f figures) float64 { return f.ackedRate }}
	g := &graph{levels: []rune("01234567")}
	for _, v := range []float64{0, 1, 2, 7, 14} {
		g.history = append(g.history, figures{ackedRate: v})
	}
	for _, test := range []struct {
		width int
		want  string
	}{{80, "00137"}, {3, "137"}, {0, ""}, {-5, ""}} {
		if got, _ := g.curve(r, test.width); got != test.want {
			t.Errorf("curve(%d) = %q, want %q", test.width, got, test.want)
		}
	}
	g.history = g.history[:1]
	if got, _ := g.curve(r, 80); got != "0" {
		t.Errorf("curve of zeros = %q", got)
	}
}

// TestGraphEvents: the scale of each curve, the times of its ends, and the marks
// of a script, in terminals of several widths.
func TestGraphEvents(t *testing.T) {
	for _, locale := range []string{"C", "C.UTF-8"} {
		t.Setenv("LC_ALL", locale)
		for _, width := range []int{20, 60, 80, 120} {
			var b strings.Builder
			g := newGraph(&b, "title", func() int { return width })
			g.events = scriptEvents("500ms loss=30% for 1s;; 1s latency=20ms")
			for i := range 8 {
				f := someFigures
				f.elapsed = time.Duration(i+1) * graphInterval
				f.rtt += time.Duration(i) * time.Millisecond
				g.show(f)
			}
			frames := strings.Split(b.String(), "\x1b[11A")
			lines := strings.Split(frames[len(frames)-1], "\x1b[K\n")
			for _, l := range lines {
				if n := len([]rune(strings.TrimPrefix(l, "\r"))); n > width {
					t.Errorf("line of %d characters in %d columns: %q", n, width, l)
				}
			}
			if width == 20 {
				continue
			}
			last := strings.Join(lines, "\n")
			for _, want := range [2][]string{
				{"<= 50.2 ms", "  0.2 s", "  v v^", "v 1s latency=20ms"},
				{"≤ 50.2 ms", "  0.2 s", "  ▼ ▼▲", "▼ 1s latency=20ms"},
			}[strings.Count(locale, "UTF")] {
				if !strings.Contains(last, want) {
					t.Errorf("%s, %d columns: no %q in\n%s", locale, width, want, last)
				}
			}
		}
	}
}

func TestUTF8Locale(t *testing.T) {
	for _, test := range []struct {
		all, lang string
		want      bool
	}{{"", "en_US.UTF-8", true}, {"", "C.utf8", true}, {"C", "en_US.UTF-8", false}, {"", "C", false}} {
		t.Setenv("LC_ALL", test.all)
		t.Setenv("LC_CTYPE", "")
		t.Setenv("LANG", test.lang)
		if got := utf8Locale(); got != test.want {
			t.Errorf("LC_ALL=%s LANG=%s: %v, want %v", test.all, test.lang, got, test.want)
		}
	}
}

func TestMeter(t *testing.T) {
	at := time.Now()
	a := sample{at: at, totals: totals{sent: 10, acked: 5}}
	b := sample{at: at.Add(2 * time.Second), datagrams: 100, delivered: 90, totals: totals{
		sent: 130, acked: 105, unacked: 25, ackedBytes: 1000,
	}, rtt: 50 * time.Millisecond, jitter: 10 * time.Millisecond}
	f := difference(a, b, figures{})
	if f.sentRate != 60 || f.ackedRate != 50 || f.rtt != 50*time.Millisecond || f.bandwidth != 4000 ||
		f.messageLoss != 0.2 || f.datagramLoss < 0.099 || f.datagramLoss > 0.101 ||
		f.jitter != 10*time.Millisecond {
		t.Errorf("figures = %+v", f)
	}
	// Without news, what is known stays.
	b2 := b
	b2.at, b2.rtt, b2.jitter = b.at.Add(time.Second), 0, 0
	g := difference(b, b2, f)
	if g.rtt != f.rtt || g.jitter != f.jitter || g.ackedRate != 0 || g.bandwidth != 0 {
		t.Errorf("figures of a silent second = %+v", g)
	}
	if g := difference(b, b, f); g != f {
		t.Errorf("figures of no time = %+v, want those before", g)
	}
}

// TestSummaryRoundTrip: the average is that of the round trips whose range is
// told, not of how long acknowledgements took, which wait for messages.
func TestSummaryRoundTrip(t *testing.T) {
	r := result{totals: totals{sent: 2, acked: 2}}
	var b strings.Builder
	r.print(&b, 80)
	if strings.Contains(b.String(), "round trip") {
		t.Errorf("a round trip without a sample:\n%s", &b)
	}
	r.stats.RTTMin, r.stats.RTTMean, r.stats.RTTMax = 30*time.Millisecond, 40*time.Millisecond, 50*time.Millisecond
	r.print(&b, 80)
	if want := "round trip 40.0 ms on average, from 30.0 ms to 50.0 ms"; !strings.Contains(b.String(), want) {
		t.Errorf("no %q in\n%s", want, &b)
	}
}

func TestFormat(t *testing.T) {
	for _, test := range []struct{ got, want string }{
		{formatSize(1), "1 byte"},
		{formatSize(1000), "1000 bytes"},
		{formatSize(16 << 10), "16 KiB"},
		{formatSize(123456), "120.6 KiB"},
		{formatSize(12345678), "11.8 MiB"},
		{formatRate(812_345), "812 kbit/s"},
		{formatRate(1.5e6), "1.50 Mbit/s"},
		{formatRate(2e9), "2.00 Gbit/s"},
		{plural(1, "datagram", "datagrams"), "1 datagram"},
		{plural(0, "datagram", "datagrams"), "0 datagrams"},
	} {
		if test.got != test.want {
			t.Errorf("formatted as %q, want %q", test.got, test.want)
		}
	}
}

// TestSixtyColumns: what is shown at the beginning and the end fits a narrow
// terminal, in whole words.
func TestSixtyColumns(t *testing.T) {
	t.Setenv("LC_ALL", "C.UTF-8")
	const width = 60
	var b strings.Builder
	r := result{totals: totals{sent: 123456, received: 100000, acked: 90000, repeated: 3, corrupt: 5, sentBytes: 123456789}, phantoms: 4}
	r.up.Sent = 234567
	r.stats.RTTMin, r.stats.RTTMean, r.stats.RTTMax = 1030*time.Millisecond, 1040*time.Millisecond, 1050*time.Millisecond
	r.print(&b, width)
	address := "[2001:db8:1234:5678:9abc:def0:1234:5678]:40000"
	f := newPingFigures(time.Second)
	f.sent, f.answered, f.lost, f.elapsed = 123456, 100000, 23456, time.Hour
	f.rtts.add(1234 * time.Millisecond)
	printPingSummary(&b, address, f, []string{strings.Repeat("advice ", 20)}, width)
	title := "messages of 1 byte to 16 KiB at 60 Hz, over a link of 40ms +- 10ms round trip, 5% loss"
	g := newGraph(&b, title, func() int { return width })
	g.events = []demoEvent{{text: "2s loss=30% for 1s"}}
	g.show(someFigures)
	g.finish(someFigures)
	for l := range strings.Lines(b.String()) {
		l = strings.TrimSuffix(strings.TrimPrefix(strings.TrimRight(l, "\n"), "\r"), "\x1b[K")
		if n := utf8.RuneCountInString(l); n > width && !strings.Contains(l, "\x1b[") {
			t.Errorf("%d characters: %q", n, l)
		}
	}
	for _, want := range []string{"in\n" + strings.Repeat(" ", 34) + "234567 datagrams\n", "123456 sent,\n100000 answered", "link of 40ms\x1b[K\n\r± 10ms round trip"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in %q", want, b.String())
		}
	}
}
