package main

import (
	"fmt"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"volley/simnet"
)

// A fakeProxy is a network in virtual time that lines control, and that writes
// down what is reported.
type fakeProxy struct {
	*simnet.Network
	control *control
	rebinds int

	mu       sync.Mutex
	reported []string
}

var clientSide, serverSide = netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")

func newFakeProxy(up, down simnet.Link) *fakeProxy {
	f := &fakeProxy{Network: simnet.New(1)}
	f.SetLink(clientSide, serverSide, up)
	f.SetLink(serverSide, clientSide, down)
	f.control = &control{
		proxy: f, up: up, down: down, start: time.Now(), report: f,
		after: func(d time.Duration, do func()) { time.AfterFunc(d, do) },
		quit:  func() { f.note("quit") },
	}
	return f
}

func (f *fakeProxy) Play(up, down []simnet.Step) {
	for i := range up {
		up[i].From = clientSide
	}
	for i := range down {
		down[i].From = serverSide
	}
	f.Network.Play(up)
	f.Network.Play(down)
}

func (f *fakeProxy) Links() (up, down simnet.Link) {
	return f.Link(clientSide, serverSide), f.Link(serverSide, clientSide)
}

func (f *fakeProxy) Rebind() error { f.rebinds++; return nil }

func (f *fakeProxy) note(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reported = append(f.reported, fmt.Sprintf("%v ", time.Since(f.control.start))+fmt.Sprintf(format, args...))
}
func (f *fakeProxy) changed(text string, up, down simnet.Link) {
	f.note("%s: %s | %s", text, describeLink(up), describeLink(down))
}
func (f *fakeProxy) failed(text string, err error) { f.note("%s failed: %v", text, err) }
func (f *fakeProxy) show(up, down simnet.Link) {
	f.note("show %s | %s", describeLink(up), describeLink(down))
}
func (f *fakeProxy) stats() { f.note("stats") }
func (f *fakeProxy) help()  { f.note("help") }

// TestControl runs lines in virtual time, where "at once" is exact.
func TestControl(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeProxy(simnet.Link{MTU: 1000}, simnet.Link{MTU: 2000})
		defer f.Close()
		time.Sleep(time.Millisecond)
		for _, line := range []string{
			"", " # nothing", "loss 10%", "in 5ms up loss 20% for 10ms", "at 10ms down preset bad for 1ms",
			"in 20ms down reset", "in 21ms reset", "at 0ms both latency 1ms", "in 30ms rebind", "in 31ms show", "stats", "help",
			"in 40ms quit", "los 5%",
		} {
			f.control.do(line)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		const bad = "latency 500ms loss 10% rate 1Mbit/s queue 65536B ordered"
		require.Equal(t, []string{
			"1ms loss 10%: loss 10% mtu 1000 | loss 10% mtu 2000",
			"1ms latency 1ms: latency 1ms loss 10% mtu 1000 | latency 1ms loss 10% mtu 2000",
			"1ms stats",
			"1ms help",
			`1ms los 5% failed: unknown setting "los"; "help" lists them`,
			"6ms up loss 20% for 10ms: latency 1ms loss 20% mtu 1000 | latency 1ms loss 10% mtu 2000",
			"10ms down preset bad for 1ms: latency 1ms loss 20% mtu 1000 | " + bad,
			"11ms end of down preset bad: latency 1ms loss 20% mtu 1000 | latency 1ms loss 10% mtu 2000",
			"16ms end of up loss 20%: latency 1ms loss 10% mtu 1000 | latency 1ms loss 10% mtu 2000",
			"21ms down reset: latency 1ms loss 10% mtu 1000 | mtu 2000",
			"22ms reset: mtu 1000 | mtu 2000",
			"31ms rebind: mtu 1000 | mtu 2000",
			"32ms show mtu 1000 | mtu 2000",
			"41ms quit",
		}, f.reported)
		require.Equal(t, 1, f.rebinds)
	})
}

func TestParseControlErrors(t *testing.T) {
	for _, test := range []struct{ line, want string }{
		{"at", "a time is missing"},
		{"at noon loss 1%", `"noon" is not a time`},
		{"in -5s loss 1%", "is not a time"},
		{"at 5s", "nothing to change"},
		{"up", "nothing to change"},
		{"up for 5s", "nothing to change"},
		{"loss 5% for ever", "for: "},
		{"loss 5% for 0s", "for: "},
		{"loss", "loss: no value"},
		{"loss 5", "loss: 5 has no unit"},
		{"loss=0.05", "0.05 has no unit"},
		{"loss +1", "+1 has no unit"},
		{"latency 5ms corrupt 1", "corrupt: 1 has no unit"},
		{"duplicate 1", "1 has no unit"},
		{"reorder .5", ".5 has no unit"},
		{"burst 0.02/8", "burst: 0.02 has no unit"},
		{"rate 5", "5 has no unit"},
		{"bandwidth=5", "5 has no unit"},
		{"latency 5", "missing unit"},
		{"preset", "one of cable"},
		{"preset 4g now", "one of cable"},
		{"preset 9g", `no preset "9g", only cable`},
		{"up rebind", "no direction"},
		{"rebind for 5s", "no direction and no duration"},
		{"reset everything", `takes nothing more, but got "everything"`},
		{"quit now", `takes nothing more`},
	} {
		_, err := parseControl(test.line)
		require.ErrorContains(t, err, test.want, test.line)
	}
}

func FuzzParseControl(f *testing.F) {
	f.Add("at 5s up loss 5% rate 2Mbit/s for 3s # why")
	f.Add("in 1ms down preset 4g")
	f.Add("rebind")
	f.Fuzz(func(t *testing.T, line string) {
		l, err := parseControl(line)
		if err != nil {
			return
		}
		up, down := l.steps(simnet.Link{}, simnet.Link{})
		switch l.verb {
		case verbSet, verbReset, verbPreset:
			if (up == nil) == l.up || (down == nil) == l.down {
				t.Errorf("%q: directions %v and %v", line, l.up, l.down)
			}
		default:
			if up != nil || down != nil {
				t.Errorf("%q changes links", line)
			}
		}
	})
}

// TestDescribeLink: what is shown can be typed again.
func TestDescribeLink(t *testing.T) {
	links := []simnet.Link{{}, {
		Latency: 5 * time.Millisecond, Jitter: time.Millisecond, Distribution: "long-tail", Ordered: true, Loss: 0.125,
		Burst: simnet.Bursts(0.02, 8), Duplicate: 0.01, Reorder: 0.5, ReorderBy: time.Second, Corrupt: 0.001,
		Bandwidth: 2_500_000, QueueBytes: 12345, MTU: 1280, Blackout: true,
	}, {Bandwidth: 999}, {Bandwidth: 12_000}, {Bandwidth: 3e9}}
	for _, l := range links {
		text := describeLink(l)
		got, err := simnet.ParseLink(text)
		require.NoError(t, err)
		if l.Burst != nil {
			require.InDelta(t, l.Burst.GoodToBad, got.Burst.GoodToBad, 1e-6)
			got.Burst = l.Burst
		}
		require.Equal(t, l, got, text)
	}
}

func TestProxyUsage(t *testing.T) {
	for _, test := range []struct {
		args []string
		want string
	}{
		{nil, "--to is missing"},
		{[]string{"--to", "127.0.0.1"}, "is not an address such as"},
		{[]string{"--to", "127.0.0.1:99999"}, "port must be from 1 to 65535"},
		{[]string{"--to", "127.0.0.1:9", "--listen", "127.0.0.1"}, "--listen 127.0.0.1: "},
		{[]string{"--to", "127.0.0.1:9", "--preset", "9g"}, `no preset "9g", only cable`},
		{[]string{"--to", "127.0.0.1:9", "--loss", "500%"}, "not between"},
		{[]string{"--to", "127.0.0.1:9", "--loss", "5"}, "5 has no unit"},
		{[]string{"--to", "127.0.0.1:9", "--rate", "20"}, "no unit"},
		{[]string{"--to", "127.0.0.1:9", "--up", "los 5%"}, `--up: unknown setting "los"`},
		{[]string{"--to", "127.0.0.1:9", "--down", "rate 5"}, "--down: rate: 5 has no unit"},
		{[]string{"--to", "127.0.0.1:9", "--script", "5s"}, `--script: "5s": there is nothing to change`},
		{[]string{"--to", "127.0.0.1:9", "--interval", "-1s"}, "negative"},
		{[]string{"--to", "127.0.0.1:9", "--interval", "1us"}, "at least 10ms"},
		{[]string{"--to", "127.0.0.1:9", "--max-clients", "0"}, "--max-clients"},
		{[]string{"--to", "127.0.0.1:9", "extra"}, "takes no arguments"},
	} {
		o := command(t.Context(), devNull(t), append([]string{"proxy"}, test.args...)...)
		require.Equal(t, exitFailure, o.status, test.args)
		require.Contains(t, o.stderr, test.want, test.args)
		require.Empty(t, o.stdout, test.args)
	}
	o := command(t.Context(), devNull(t), "proxy", "--presets")
	require.Equal(t, exitOK, o.status)
	for _, p := range simnet.Presets() {
		require.Contains(t, o.stdout, p.Source)
	}
}
