package secure

import (
	"net"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"volley/internal/netnstest"
	"volley/internal/testenv"
)

// natCommands are those that a test behind a kernel's NAT needs.
var natCommands = []string{"ip", "nft", "conntrack"}

// A caller is a client behind a NAT that asks the server at 100 Hz, and notes when it hears answers.
type caller struct {
	nat            *testNAT
	client, server *Conn
	heard          chan time.Time
	end            chan struct{}
	ticks, late    atomic.Int64 // of the client, to tell how busy the machine is
}

const askInterval = 10 * time.Millisecond

// newCaller makes a session from behind a NAT, which has its spare tokens.
func newCaller(t *testing.T) *caller {
	t.Helper()
	c := &caller{nat: newTestNAT(t), heard: make(chan time.Time, 1000), end: make(chan struct{})}
	var l *Listener
	var err error
	c.nat.server.Run(func() { l, err = Listen("udp4", natServer+":7777", nil) })
	require.NoError(t, err)
	c.client, c.server = talk(t, l, l.URL(natServer))
	c.client.SetReadDeadline(time.Time{})
	c.server.SetReadDeadline(time.Time{})
	awaitSpares(t, c.client)
	go echo(c.server)
	go c.read()
	go c.write()
	t.Cleanup(func() {
		close(c.end)
		c.client.Close()
		l.Close()
	})
	return c
}

// awaitSpares waits until a client can move.
func awaitSpares(t *testing.T, client *Conn) {
	t.Helper()
	require.Eventually(t, func() bool {
		client.roamer.mu.Lock()
		defer client.roamer.mu.Unlock()
		return len(client.roamer.spares) == spares
	}, 10*time.Second, time.Millisecond)
}

func (c *caller) read() {
	b := make([]byte, 100)
	for {
		if _, err := c.client.Read(b); err != nil {
			close(c.heard)
			return
		}
		select {
		case c.heard <- time.Now():
		case <-c.end:
			return
		}
	}
}

func (c *caller) write() {
	for tick := time.NewTicker(askInterval); ; {
		select {
		case at := <-tick.C:
			c.ticks.Add(1)
			if time.Since(at) > askInterval {
				c.late.Add(1)
			}
			c.client.Write([]byte("are you there?"))
		case <-c.end:
			tick.Stop()
			return
		}
	}
}

// gap changes the network, waits until the session has moved as wanted and goes on, and returns how long
// the client has heard nothing.
func (c *caller) gap(t *testing.T, wanted func() bool, change func(t *testing.T)) (longest time.Duration) {
	t.Helper()
	// All that was heard before is no part of the gap.
	for len(c.heard) > 0 {
		<-c.heard
	}
	last, ok := <-c.heard
	require.True(t, ok, "the session has ended")
	moves := c.server.Stats().Moves
	change(t)
	timeout, enough := time.After(25*time.Second), 0
	for enough < 10 {
		select {
		case at, ok := <-c.heard:
			require.True(t, ok, "the session has ended: %v", c.client.Err())
			longest = max(longest, at.Sub(last))
			last = at
			if c.server.Stats().Moves > moves && wanted() {
				enough++
			}
		case <-timeout:
			require.Fail(t, "the session has not moved")
		}
	}
	return longest
}

// anyhow wants a move to any address.
func anyhow() bool { return true }

// seenAt wants the server to see the client at a host.
func (c *caller) seenAt(host string) func() bool {
	return func() bool { return c.server.RemoteAddr().(*net.UDPAddr).IP.String() == host }
}

// report logs gaps, and bounds them at full size if the machine is not too busy to tell.
func (c *caller) report(t *testing.T, gaps []time.Duration, most time.Duration) {
	t.Helper()
	slices.Sort(gaps)
	n := len(gaps)
	late := float64(c.late.Load()) / float64(c.ticks.Load())
	t.Logf("%d moves: the median gap is %v, p99 %v, the longest %v; late were %.2f %% of the ticks", n, gaps[n/2], gaps[n*99/100], gaps[n-1], 100*late)
	if testenv.Sized(0, 1) > 0 && late < 0.001 {
		require.LessOrEqual(t, gaps[n*99/100], most)
	}
}

// A session survives that the router has forgotten it, again and again, and the gap is short.
func TestMovesWhenNATForgets(t *testing.T) {
	if !netnstest.Inside(t, natCommands...) {
		return
	}
	c := newCaller(t)
	var gaps []time.Duration
	for range testenv.Sized(3, 200) {
		before := c.server.RemoteAddr().String()
		gaps = append(gaps, c.gap(t, anyhow, c.nat.rebind))
		require.NotEqual(t, before, c.server.RemoteAddr().String())
	}
	c.report(t, gaps, 500*time.Millisecond+moveJitter+2*time.Millisecond+2*askInterval)
}

// A session goes from Wi-Fi to mobile data when the interface is gone, and back.
func TestMovesToOtherInterface(t *testing.T) {
	if !netnstest.Inside(t, natCommands...) {
		return
	}
	c := newCaller(t)
	wifi, mobile := c.seenAt(natPublicWifi), c.seenAt(natPublicMobile)
	require.True(t, wifi())
	var gaps []time.Duration
	for range testenv.Sized(1, 50) {
		gaps = append(gaps, c.gap(t, mobile, func(t *testing.T) { c.nat.down(t, "wifi") }))
		c.nat.up(t, "wifi")
		gaps = append(gaps, c.gap(t, wifi, func(t *testing.T) { c.nat.down(t, "mobile") }))
		c.nat.up(t, "mobile")
	}
	c.report(t, gaps, 500*time.Millisecond+moveJitter+2*time.Millisecond+2*askInterval)
}

// A path that dies without a word costs at most a second and a half.
func TestMovesWhenPathDies(t *testing.T) {
	if !netnstest.Inside(t, natCommands...) {
		return
	}
	c := newCaller(t)
	var gaps []time.Duration
	for range testenv.Sized(2, 50) {
		port := c.client.LocalAddr().(*net.UDPAddr).Port
		gaps = append(gaps, c.gap(t, anyhow, func(t *testing.T) { c.nat.cut(t, port) }))
		require.NotEqual(t, port, c.client.LocalAddr().(*net.UDPAddr).Port)
		c.nat.mend(t)
	}
	c.report(t, gaps, 1500*time.Millisecond)
}

// While nothing passes at all, no try to move can succeed. The session is back soon after.
func TestMovesAfterOutage(t *testing.T) {
	if !netnstest.Inside(t, natCommands...) {
		return
	}
	c := newCaller(t)
	gap := c.gap(t, anyhow, func(t *testing.T) {
		c.nat.cut(t, 0)
		time.Sleep(4 * time.Second)
		c.nat.rebind(t)
		c.nat.mend(t)
	})
	t.Log("an outage of 4 s made a gap of", gap)
	require.Greater(t, gap, 4*time.Second)
	require.NoError(t, c.client.Err())
}
