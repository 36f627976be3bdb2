package main

import (
	"context"
	"encoding/json"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// demo runs a demo of 300 ms with flags.
func demo(t *testing.T, flags ...string) outcome {
	t.Helper()
	return command(t.Context(), devNull(t), append([]string{"demo", "--interval", "10ms", "--duration", "300ms", "--json"}, flags...)...)
}

// summaryOf returns the summaries of the messages and of the link.
func summaryOf(t *testing.T, o outcome) (ping pingSummary, link proxyEvent) {
	t.Helper()
	lines := strings.Split(strings.TrimSpace(o.stdout), "\n")
	require.GreaterOrEqual(t, len(lines), 2, o.stderr)
	require.NoError(t, json.Unmarshal([]byte(lines[len(lines)-2]), &ping))
	require.NoError(t, json.Unmarshal([]byte(lines[len(lines)-1]), &link))
	require.Equal(t, []string{"summary", "link"}, []string{ping.Type, link.Type})
	return ping, link
}

func TestDemoClean(t *testing.T) {
	o := demo(t, "--loss", "0%", "--latency", "1ms", "--jitter", "0ms")
	require.Equal(t, exitOK, o.status, o.stderr)
	ping, link := summaryOf(t, o)
	require.EqualValues(t, 30, ping.Sent)
	require.EqualValues(t, 30, ping.Answered)
	require.GreaterOrEqual(t, ping.RTT.Min, 2.0)
	require.GreaterOrEqual(t, link.Up.Sent, uint64(30))
	require.Zero(t, link.Up.Lost+link.Down.Lost)
}

// TestDemoLink: settings, a preset and a script reach the link.
func TestDemoLink(t *testing.T) {
	o := demo(t, "--loss", "50%", "--script", "100ms blackout for 1s")
	ping, link := summaryOf(t, o)
	require.EqualValues(t, 30, ping.Sent)
	require.Positive(t, ping.Lost)
	require.Positive(t, link.Up.Lost)
	require.Positive(t, link.Up.Blackout)
	require.Contains(t, o.stdout, `"text":"blackout for 1s"`)
	o = command(t.Context(), devNull(t), "demo", "--preset", "4g", "--duration", "1200ms", "--size", "16KiB")
	require.Equal(t, exitOK, o.status, o.stderr)
	for _, want := range []string{"demo: 16 KiB each 100ms, over a link with", "loss", "sent, ", "round trip", "by chance"} {
		require.Contains(t, o.stdout, want)
	}
}

// TestDemoEnds: the summary comes at an interrupt, and over a dead link.
func TestDemoEnds(t *testing.T) {
	o := demo(t, "--loss", "100%")
	require.Equal(t, exitNegative, o.status)
	ping, link := summaryOf(t, o)
	require.EqualValues(t, 30, ping.Lost)
	require.Zero(t, link.Up.Delivered)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	o = command(ctx, devNull(t), "demo", "--loss", "0%", "--duration", "1h", "--json")
	require.Equal(t, exitOK, o.status, o.stderr)
	ping, _ = summaryOf(t, o)
	require.Positive(t, ping.Answered)
}

func TestUsageErrors(t *testing.T) {
	for _, test := range []struct{ args, want string }{
		{"demo --loss 101%", "loss"},
		{"demo --loss 5", "no unit"},
		{"demo --loss 0.05", "no unit"},
		{"demo --script 1s,loss=1", "no unit"},
		{"demo --loss x", "loss"},
		{"demo --interval 1us", "--interval"},
		{"demo --size 0", "--size"},
		{"demo --size 300000", "--size"},
		{"demo --rate fast", "--rate"},
		{"demo --rate 2", "no unit"},
		{"demo --script 3s", "--script"},
		{"demo --seed -1", "must be a whole number from 0"},
		{"demo extra", `volley demo takes nothing but the URL of a server, and got ["extra"]`},
		{"version extra", "volley version takes no arguments"},
		{"token key extra", "volley token key takes no arguments"},
		{"demo --los 5", "los"},
		{"dem", "unknown command"},
	} {
		o := command(t.Context(), file(t, "text"), strings.Fields(test.args)...)
		if o.status != exitFailure || !strings.Contains(o.stderr, test.want) || o.stdout != "" {
			t.Errorf("%s: status %d, stdout %q, stderr %q, want status %d and %q",
				test.args, o.status, o.stdout, o.stderr, exitFailure, test.want)
		}
	}
}

func TestHelp(t *testing.T) {
	for _, args := range []string{"", "--help", "demo --help", "token", "token new --help", "token show --help", "version --help"} {
		o := command(t.Context(), devNull(t), strings.Fields(args)...)
		if o.status != exitOK || !strings.Contains(o.stdout, "Usage:") {
			t.Errorf("%q: status %d, output %q", args, o.status, o.stdout)
		}
	}
}

func TestVersion(t *testing.T) {
	o := command(t.Context(), devNull(t), "version")
	if o.status != exitOK || !strings.HasPrefix(o.stdout, "volley ") || strings.Count(o.stdout, "\n") != 1 {
		t.Errorf("status %d, output %q", o.status, o.stdout)
	}
	if flag := command(t.Context(), devNull(t), "--version"); flag != o {
		t.Errorf("--version: status %d, output %q, want %q", flag.status, flag.stdout, o.stdout)
	}
	info := &debug.BuildInfo{Main: debug.Module{Version: "v1.2.3"}, Settings: []debug.BuildSetting{
		{Key: "vcs.revision", Value: "0123456789abcdef"}, {Key: "vcs.modified", Value: "true"},
	}}
	if got := version(info, true); !strings.HasPrefix(got, "volley v1.2.3 0123456789ab+dirty go") {
		t.Errorf("version = %q", got)
	}
	if got := version(nil, false); !strings.HasPrefix(got, "volley (devel) go") {
		t.Errorf("version = %q", got)
	}
}
