package main

import (
	"context"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"time"
)

// clean are flags for a link that does nothing.
var clean = []string{"demo", "--rtt", "0", "--jitter", "0", "--loss", "0"}

func with(flags []string, more ...string) []string {
	return append(append([]string(nil), flags...), more...)
}

// patient has the demo send all messages, however late the machine is.
func patient(t *testing.T) {
	before := lateness
	lateness = longest
	t.Cleanup(func() { lateness = before })
}

func TestDemoClean(t *testing.T) {
	patient(t)
	o := command(t.Context(), devNull(t), with(clean, "--rate", "200", "--duration", "500ms")...)
	if o.status != exitOK {
		t.Errorf("status %d", o.status)
	}
	o.wantCounts(t, map[string]int{"sent": 100, "received": 100, "acknowledged": 100, "lost": 0, "corrupt": 0})
	for _, want := range []string{"messages of 1 byte to 16 KiB", "round trip", "of datagrams: 0.0 %"} {
		if !strings.Contains(o.stdout, want) {
			t.Errorf("output without %q:\n%s", want, o.stdout)
		}
	}
}

func TestDemoImpaired(t *testing.T) {
	patient(t)
	o := command(t.Context(), devNull(t), "demo", "--rate", "300", "--duration", "1s", "--loss", "30%", "--duplicate", "10%",
		"--reorder", "10%", "--jitter", "20ms", "--max-size", "3000", "--script", "200ms blackout for 100ms")
	received, acked := o.count("received"), o.count("acknowledged")
	if o.status != exitOK || received < 50 || received > 250 || acked > received {
		t.Errorf("status %d:\n%s%s", o.status, o.stdout, o.stderr)
	}
	o.wantCounts(t, map[string]int{"sent": 300, "lost": 300 - received, "corrupt": 0})
	if !strings.Contains(o.stdout, "acked/s") {
		t.Errorf("no line of figures for a run of a second:\n%s", o.stdout)
	}
}

// TestDemoCorrupt checks that corruption, which the wire format has no means
// to notice, is found and told by the exit status.
func TestDemoCorrupt(t *testing.T) {
	patient(t)
	o := command(t.Context(), devNull(t), with(clean, "--rate", "500", "--duration", "1s", "--corrupt", "20%",
		"--min-size", "500", "--max-size", "1000")...)
	if o.status != exitNegative || o.count("corrupt") < 10 || o.count("sent") != 500 {
		t.Errorf("status %d, want %d:\n%s%s", o.status, exitNegative, o.stdout, o.stderr)
	}
	if !strings.Contains(o.stderr, "corrupt") {
		t.Errorf("stderr = %q, want the reason", o.stderr)
	}
}

// TestDemoDuration checks that the demo ends when its time is over, though it
// can send no more than a part of the messages.
func TestDemoDuration(t *testing.T) {
	const rate = 1_000_000
	o := command(t.Context(), devNull(t), with(clean, "--rate", strconv.Itoa(rate), "--duration", "1s", "--min-size", "16384", "--max-size", "16384")...)
	if sent := o.count("sent"); o.status != exitOK || sent < 1 || sent >= rate {
		t.Errorf("status %d:\n%s%s", o.status, o.stdout, o.stderr)
	}
}

// TestDemoInterrupt checks that the summary comes when the user ends the demo.
func TestDemoInterrupt(t *testing.T) {
	o := outcome{}
	for wait := 300 * time.Millisecond; wait < longest && o.count("sent") < 1; wait *= 4 {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(wait, cancel)
		o = command(ctx, devNull(t), with(clean, "--duration", "1h")...)
	}
	if o.status != exitOK || o.count("sent") < 1 || o.count("received") != o.count("sent") {
		t.Errorf("status %d:\n%s%s", o.status, o.stdout, o.stderr)
	}
}

// TestDemoDeadLink checks that a link through which nothing comes ends in a
// summary as well.
func TestDemoDeadLink(t *testing.T) {
	patient(t)
	o := command(t.Context(), devNull(t), "demo", "--loss", "100%", "--duration", "300ms")
	if o.status != exitOK {
		t.Errorf("status %d: %s", o.status, o.stderr)
	}
	o.wantCounts(t, map[string]int{"sent": 18, "received": 0, "acknowledged": 0, "lost": 18, "corrupt": 0})
}

func TestUsageErrors(t *testing.T) {
	for _, test := range []struct{ args, want string }{
		{"demo --loss 101", "percentage"},
		{"demo --loss 5", "no unit"},
		{"demo --loss 0.05", "no unit"},
		{"demo --duplicate 1", "no unit"},
		{"demo --script 1s,loss=1", "no unit"},
		{"demo --loss x", "percentage"},
		{"demo --rtt -1s", "negative"},
		{"demo --rate 0", "--rate"},
		{"demo --rate NaN", "--rate"},
		{"demo --duration 0", "--duration"},
		{"demo --min-size 0", "--min-size"},
		{"demo --min-size 20 --max-size 10", "--min-size"},
		{"demo --max-size 300000", "--max-size"},
		{"demo --bandwidth fast", "--bandwidth"},
		{"demo --bandwidth 2", "no unit"},
		{"demo --script 3s", "--script"},
		{"demo --seed -1", "must be a whole number from 0"},
		{"demo extra", `volley demo takes no arguments, but got "extra"`},
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
