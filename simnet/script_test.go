package simnet

import (
	"slices"
	"testing"
	"testing/synctest"
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
		n.Play(Script{{At: 0, For: 30 * ms, Set: func(l *Link) { l.Latency += 2 * ms }}, {At: 0}})
		n.At(20*ms, func(n *Network) {
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
		n.Play(Script{
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

func TestAt(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := New(1)
		defer n.Close()
		start := time.Now()
		var got []time.Duration
		note := func(*Network) { got = append(got, time.Since(start)) }
		for _, d := range []time.Duration{30 * ms, 10 * ms, 10 * ms, 0} {
			n.At(d, note)
		}
		n.At(20*ms, func(n *Network) {
			note(n)
			n.At(5*ms, note)
		})
		time.Sleep(time.Second)
		synctest.Wait()
		want := []time.Duration{0, 10 * ms, 10 * ms, 20 * ms, 25 * ms, 30 * ms}
		if !slices.Equal(got, want) {
			t.Errorf("calls after %v, want %v", got, want)
		}
	})
}

// TestAtMayUseTheNetwork checks that a call may do all that a test may.
func TestAtMayUseTheNetwork(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := New(1)
		c := listen(t, n, ":1")
		n.SetDefault(Link{Latency: 5 * ms})
		n.At(10*ms, func(n *Network) {
			c.WriteTo([]byte("x"), c.LocalAddr())
			n.Rebind(c.public, addrPort("127.0.0.1:2"))
			c.WriteTo([]byte("y"), &addr2)
			n.Stats()
		})
		buf := make([]byte, 1)
		if _, from, err := c.ReadFrom(buf); err != nil || string(buf) != "y" || from.String() != "127.0.0.1:2" {
			t.Errorf("ReadFrom = %q, %v, %v", buf, from, err)
		}
		n.At(10*ms, func(n *Network) { n.Close() })
		if _, _, err := c.ReadFrom(buf); err == nil {
			t.Error("ReadFrom after Close succeeded")
		}
	})
}

var addr2 = *udpAddr(addrPort("127.0.0.1:2"))
