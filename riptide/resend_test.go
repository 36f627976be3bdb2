package riptide

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"volley/internal/wire"
)

// resentAt returns when, after it was sent, a message without an answer is sent
// again for the first time.
func resentAt(t *testing.T, c *connection) time.Duration {
	t.Helper()
	var out wire.Batch
	_, err := c.send(start, Reliable, []byte{0x10, 1}, &out)
	require.NoError(t, err)
	require.Equal(t, 1, out.Len())
	for d := time.Duration(0); d < time.Minute; d += time.Millisecond {
		out.Reset()
		if c.resend(start.Add(d), &out); out.Len() > 0 {
			return d
		}
	}
	return 0
}

// A message is sent again after 1.2 round trips, but not before MinResend; after
// 50 ms while no round trip is known; and when late acknowledgements make that
// longer, then to a second at most.
func TestResendInterval(t *testing.T) {
	for _, test := range []struct {
		min   time.Duration
		rtt   int16
		delay time.Duration
		want  time.Duration
	}{
		{0, noRTT, 0, 50 * ms},
		{ms, noRTT, 0, 50 * ms},
		{80 * ms, noRTT, 0, 80 * ms},
		{0, 1, 0, 50 * ms},
		{10 * ms, 1, 0, 10 * ms},
		{10 * ms, 100, 0, 120 * ms},
		{200 * ms, 100, 0, 200 * ms},
		{0, 100, 400 * ms, 450 * ms}, // an eighth more than the worst
		{0, 100, 20 * time.Second, time.Second},
		{0, 2000, 20 * time.Second, 2400 * ms},
	} {
		c, _ := newConnected(t, &Config{MinResend: test.min}, clientSide)
		if test.rtt != noRTT {
			c.rtt.measured(test.rtt)
		}
		if test.delay > 0 {
			c.sender.delay.measured(start, test.delay)
		}
		require.Equal(t, test.want, resentAt(t, c), "%+v", test)
	}
}

// The worst time of an acknowledgement is remembered for some seconds, however
// many come.
func TestWorstAcknowledgement(t *testing.T) {
	for _, every := range []time.Duration{100 * time.Microsecond, ms, 25 * ms, time.Second} {
		var a ackTime
		a.measured(start, 400*ms)
		now, steps := start, 0
		for a.worst > 200*ms {
			now = now.Add(every)
			a.measured(now, ms)
			steps++
		}
		if every < worstDecay {
			require.InDelta(t, 2.2, now.Sub(start).Seconds(), .1, "half-life, an acknowledgement each %v", every)
		} else {
			require.Equal(t, 89, steps)
		}
		a.measured(now, 600*ms)
		require.Equal(t, 675*ms, a.limit())
	}
}

// Where the round trip turns out to be longer than was thought when a message was
// sent, it is not sent again before half of it has passed, but when it would be
// now.
func TestResendAfterHalf(t *testing.T) {
	c, _ := newConnected(t, nil, clientSide)
	var out wire.Batch
	c.send(start, Reliable, []byte{0x10, 1}, &out)
	out.Reset()
	c.rtt.measured(200)
	c.tick(start.Add(50*ms), &out)
	require.Zero(t, out.Len())
	require.Equal(t, start.Add(240*ms), c.sender.due)
	c.tick(start.Add(240*ms), &out)
	require.Equal(t, 1, out.Len())

	c, _ = newConnected(t, nil, clientSide)
	c.send(start, Reliable, []byte{0x10, 1}, &out)
	out.Reset()
	c.rtt.measured(100) // of which half has passed
	c.tick(start.Add(50*ms), &out)
	require.Equal(t, 1, out.Len())
}

// A look at a message that comes late shows that the process has not run, so who
// reads is given as long to find an acknowledgement that has arrived; once, and
// then the message is sent again.
func TestLateTick(t *testing.T) {
	c, _ := newConnected(t, nil, clientSide)
	var out wire.Batch
	c.send(start, Reliable, []byte{0x10, 1}, &out)
	resends := func(at time.Duration) int {
		out.Reset()
		c.tick(start.Add(at), &out)
		return out.Len()
	}
	require.Zero(t, resends(70*ms), "20 ms late")
	require.Equal(t, start.Add(90*ms), c.sender.due)
	require.Zero(t, resends(89*ms))
	require.Equal(t, 1, resends(95*ms), "late again")
	require.Equal(t, 1, resends(95*ms+51*ms), "a little late")

	// The acknowledgement that was waiting.
	c, _ = newConnected(t, nil, clientSide)
	c.send(start, Reliable, []byte{0x10, 1}, &out)
	require.Zero(t, resends(70*ms))
	out.Reset()
	(codec{}).appendAck(&out, ack{newest: 1})
	c.receive(start.Add(71*ms), out.At(0), new(wire.Batch))
	require.Zero(t, resends(200*ms))
}

// A welcome without an answer is sent 15 times, whatever is thought of the
// quality, and it is the silence that ends the connection.
func TestWelcomeSends(t *testing.T) {
	for _, cfg := range []*Config{nil, {IgnoreQuality: true}} {
		set, err := newSettings(cfg)
		require.NoError(t, err)
		c, r := new(connection), new(recorder)
		c.init(set, serverSide, start, r)
		var out wire.Batch
		c.accept(start, 1, &out)
		for d := time.Duration(0); d < 4900*ms; d += ms {
			c.tick(start.Add(d), &out)
		}
		require.Equal(t, 15, out.Len())
		require.Equal(t, stateConnecting, c.state)
		c.tick(start.Add(5*time.Second), &out)
		require.Equal(t, stateClosed, c.state)
		require.Equal(t, 15, out.Len())
	}
}

// However much memory there may be, what waits has ids apart from those under
// way.
func TestManyQueued(t *testing.T) {
	c, _ := newConnected(t, &Config{SendBuffer: 1 << 30}, clientSide)
	var out wire.Batch
	n := 0
	for ; n < 1<<16; n++ {
		if _, err := c.send(start, Reliable, []byte{0x10}, &out); err != nil {
			require.Equal(t, ErrSendBuffer, err)
			break
		}
	}
	require.Equal(t, 31+maxQueued, n)
	require.Less(t, n, 1<<15)
}
