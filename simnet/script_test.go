package simnet

import (
	"slices"
	"testing"
	"time"
)

// delays sends a datagram each 10 ms for the given number of times and returns
// their delays.
func delays(t *testing.T, a, b *Conn, count int) []time.Duration {
	t.Helper()
	out := make([]time.Duration, count)
	for i := range out {
		out[i] = -1 // lost
	}
	for _, g := range collect(t, a, b, count, 4, 10*ms) {
		out[g.number] = g.at - time.Duration(g.number)*10*ms
	}
	return out
}

func TestScript(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a, b := pair(t, 1, Link{Latency: 1 * ms}, Link{})
		script, err := ParseScript(`
			20ms latency=3ms for 40ms; 40ms latency=5ms for 10ms
			60ms loss=100% for 10ms
			80ms latency=7ms`)
		if err != nil {
			t.Fatal(err)
		}
		a.Network().Play(script)
		got := delays(t, a, b, 10)
		want := []time.Duration{1 * ms, 1 * ms, 3 * ms, 3 * ms, 5 * ms, 3 * ms, -1, 1 * ms, 7 * ms, 7 * ms}
		if !slices.Equal(got, want) {
			t.Errorf("delays = %v, want %v", got, want)
		}
	})
}

// TestScriptOnTopOfSetLink checks that a step stays in force when the link
// below is changed, and that the change is what remains of both.
func TestScriptOnTopOfSetLink(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a, b := pair(t, 1, Link{}, Link{})
		n := a.Network()
		n.Play([]Step{{At: 0, For: 30 * ms, Set: func(l *Link) { l.Latency += 2 * ms }}, {At: 0}})
		time.AfterFunc(20*ms, func() {
			n.SetLink(a.local.AddrPort().Addr(), b.local.AddrPort().Addr(), Link{Latency: 1 * ms})
		})
		time.Sleep(5 * ms)
		got := delays(t, a, b, 4)
		want := []time.Duration{2 * ms, 2 * ms, 3 * ms, 1 * ms}
		if !slices.Equal(got, want) {
			t.Errorf("delays = %v, want %v", got, want)
		}
	})
}

// TestScriptOfOneDirection checks that steps may name the hosts they are for, and
// that Link tells what is in force.
func TestScriptOfOneDirection(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a, b := pair(t, 1, Link{}, Link{})
		n := a.Network()
		hostA, hostB := a.local.AddrPort().Addr(), b.local.AddrPort().Addr()
		set := func(d time.Duration) func(*Link) { return func(l *Link) { l.Latency += d } }
		n.Play([]Step{
			{At: 5 * ms, For: 10 * ms, From: hostA, Set: set(1 * ms)},
			{At: 5 * ms, To: hostA, Set: set(2 * ms)},
			{At: 5 * ms, From: hostA, To: hostB, Set: set(4 * ms)},
			{At: 5 * ms, Set: set(8 * ms)},
			{At: 5 * ms, From: addrPort("10.9.9.9:1").Addr(), Set: set(16 * ms)},
		})
		check := func(up, down time.Duration) {
			t.Helper()
			if got := n.Link(hostA, hostB).Latency; got != up {
				t.Errorf("latency from a to b = %v, want %v", got, up)
			}
			if got := n.Link(hostB, hostA).Latency; got != down {
				t.Errorf("latency from b to a = %v, want %v", got, down)
			}
		}
		check(0, 0)
		time.Sleep(6 * ms)
		check(13*ms, 10*ms)
		if got := delays(t, a, b, 1); got[0] != 13*ms {
			t.Errorf("delay = %v, want 13ms", got[0])
		}
		time.Sleep(10 * ms)
		check(12*ms, 10*ms)
	})
}
