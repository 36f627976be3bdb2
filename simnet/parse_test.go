package simnet

import (
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestParseLink(t *testing.T) {
	for _, test := range []struct {
		text string
		want Link
	}{
		{"", Link{}},
		{"latency=20ms jitter=5ms loss=2%", Link{Latency: 20 * ms, Jitter: 5 * ms, Loss: 0.02}},
		{"latency=1s,jitter=0, loss=0.5", Link{Latency: time.Second, Loss: 0.5}},
		{"duplicate=1% reorder=100% reorder-by=3ms corrupt=0.001", Link{Duplicate: 0.01, Reorder: 1, ReorderBy: 3 * ms, Corrupt: 0.001}},
		{"burst=20%/8", Link{Burst: Bursts(0.2, 8)}},
		{"burst=0/8", Link{}},
		{"bandwidth=10Mbit queue=64KiB mtu=1500", Link{Bandwidth: 10e6, QueueBytes: 65536, MTU: 1500}},
		{"bandwidth=1.5kbit queue=2MB", Link{Bandwidth: 1500, QueueBytes: 2_000_000}},
		{"bandwidth=2Gbit queue=1MiB", Link{Bandwidth: 2e9, QueueBytes: 1 << 20}},
		{"bandwidth=64bit queue=3kB mtu=9B", Link{Bandwidth: 64, QueueBytes: 3000, MTU: 9}},
		{"bandwidth=7", Link{Bandwidth: 7}},
		{"bandwidth 20Mbit/s", Link{Bandwidth: 20e6}},
		{"rate=1.5kbit/s", Link{Bandwidth: 1500}},
		{"rate 2Mbit rate 0", Link{}},
		{"loss 2% latency 20ms jitter=5ms distribution long-tail", Link{Loss: 0.02, Latency: 20 * ms, Jitter: 5 * ms, Distribution: "long-tail"}},
		{"distribution=normal", Link{Distribution: "normal"}},
		{"blackout on ordered off", Link{Blackout: true}},
		{"blackout loss 1%", Link{Blackout: true, Loss: 0.01}},
		{"ordered blackout", Link{Ordered: true, Blackout: true}},
		{"ordered=true blackout=false", Link{Ordered: true}},
		{"loss=1% loss=3%", Link{Loss: 0.03}},
	} {
		got, err := ParseLink(test.text)
		if err != nil || !reflect.DeepEqual(got, test.want) {
			t.Errorf("ParseLink(%q) = %+v, %v, want %+v", test.text, got, err, test.want)
		}
	}
}

func TestParseErrors(t *testing.T) {
	for _, test := range []struct{ text, want string }{
		{"los=1%", `unknown setting "los"`},
		{"loss", "loss: no value"},
		{"loss=", "loss: "},
		{"loss=x%", "not a number"},
		{"loss=101%", "not between"},
		{"loss=-1%", "not between"},
		{"loss=NaN", "not between"},
		{"latency=5", "latency: "},
		{"latency=-5ms", "negative"},
		{"burst=5%", "mean length"},
		{"burst=5%/0", "mean length"},
		{"burst=5%/inf", "mean length"},
		{"burst=500%/2", "not between"},
		{"bandwidth=fast", "not a number with a unit"},
		{"bandwidth=0.5", "less than 1"},
		{"bandwidth=x/s", "not a number with a unit"},
		{"jitter 5ms distribution bell", "none of uniform, normal, long-tail"},
		{"loss latency=5ms", "loss: no value"},
		{"loss 5% 6%", `unknown setting "6%"`},
		{"ordered perhaps", `unknown setting "perhaps"`},
		{"bandwidth=1e300Gbit", "out of range"},
		{"queue=1e11", "out of range"},
		{"queue=-1", "out of range"},
		{"ordered=perhaps", "neither"},
	} {
		_, err := ParseLink(test.text)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("ParseLink(%q): %v, want an error with %q", test.text, err, test.want)
		}
	}
	for _, test := range []struct{ text, want string }{
		{"loss=1%", "time: "},
		{"-1s loss=1%", "negative"},
		{"at", "time: "},
		{"at noon loss=1%", "time: "},
		{"1s", "no setting"},
		{"1s for 2s", "no setting"},
		{"1s loss=1% for", `unknown setting "for"`},
		{"1s loss=1% for ever", "for: "},
		{"1s loss=1% for 0s", "longer than 0"},
		{"1s loss=1%; 2s los=1%", `step "2s los=1%": unknown setting`},
	} {
		_, err := ParseScript(test.text)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("ParseScript(%q): %v, want an error with %q", test.text, err, test.want)
		}
	}
}

func TestParseScript(t *testing.T) {
	script, err := ParseScript(" 3s loss=40% for 2s;;10s blackout for 500ms\n\n12s latency=80ms, jitter=1ms; at 14s loss 20% rate 5Mbit/s for 1s")
	if err != nil {
		t.Fatal(err)
	}
	want := []struct {
		at, dur time.Duration
		link    Link
	}{
		{3 * time.Second, 2 * time.Second, Link{Loss: 0.4}},
		{10 * time.Second, 500 * ms, Link{Blackout: true}},
		{12 * time.Second, 0, Link{Latency: 80 * ms, Jitter: ms}},
		{14 * time.Second, time.Second, Link{Loss: 0.2, Bandwidth: 5e6}},
	}
	if len(script) != len(want) {
		t.Fatalf("%d steps, want %d", len(script), len(want))
	}
	for i, s := range script {
		var l Link
		s.Set(&l)
		if s.At != want[i].at || s.For != want[i].dur || l != want[i].link {
			t.Errorf("step %d = %v for %v: %+v, want %+v", i, s.At, s.For, l, want[i])
		}
	}
	if script, err := ParseScript(" \n;"); len(script) != 0 || err != nil {
		t.Errorf("ParseScript of nothing = %v, %v", script, err)
	}
}

// TestStepChanges checks that a step leaves alone what it does not name.
func TestStepChanges(t *testing.T) {
	script, err := ParseScript("0s loss 5% blackout")
	if err != nil {
		t.Fatal(err)
	}
	l := Link{Loss: 0.5, Latency: ms}
	script[0].Set(&l)
	if want := (Link{Loss: 0.05, Latency: ms, Blackout: true}); l != want {
		t.Errorf("changed to %+v, want %+v", l, want)
	}
	for _, text := range []string{"0s", "0s ,", "0s los 5%", "0s loss"} {
		if _, err := ParseScript(text); err == nil {
			t.Errorf("ParseScript(%q) succeeded", text)
		}
	}
}

func FuzzParseScript(f *testing.F) {
	f.Add("3s loss=40% for 2s; 10s blackout for 500ms\n12s latency=80ms,jitter=1ms")
	f.Add("0s burst=2%/8 bandwidth=10Mbit queue=64KiB mtu=1500 reorder=1 reorder-by=1ms")
	f.Add("1h duplicate=1e-3 corrupt=.5 ordered=false")
	f.Fuzz(func(t *testing.T, text string) {
		script, err := ParseScript(text)
		if err != nil && script != nil {
			t.Error("a script with an error")
		}
		for _, s := range script {
			var l Link
			s.Set(&l)
			if s.At < 0 || s.For < 0 || l.Loss < 0 || l.Loss > 1 || l.Bandwidth < 0 || l.MTU < 0 {
				t.Errorf("ParseScript(%q): step %+v makes %+v", text, s, l)
			}
		}
	})
}
