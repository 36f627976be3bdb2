package porous

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"volley/simnet"
)

// H2, H4: with manual steps nothing leaves by itself.
func TestManualStep(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a, b := simPair(simnet.Link{Latency: 10 * time.Millisecond}, &Config{ManualStep: true})
		require.NoError(t, a.Connected(t.Context()))
		require.NoError(t, b.Connected(t.Context()))
		a.Write([]byte("wait"))
		time.Sleep(10 * time.Second)
		require.Zero(t, a.Stats().FramesSent)
		a.Step()
		require.EqualValues(t, 1, a.Stats().FramesSent)
		time.Sleep(15 * time.Millisecond)
		require.Equal(t, "wait", readString(t, b))
		time.Sleep(time.Second)
		require.Zero(t, a.Stats().FramesAcked)
		b.Step()
		time.Sleep(15 * time.Millisecond)
		require.EqualValues(t, 1, a.Stats().FramesAcked)
		require.NoError(t, a.Close(), "Close does it all")
		abort(b)
	})
}

// H3: both sides take steps of 15 ms, at a round-trip time of 75 ms. Nothing is
// sent twice, and no message waits for more than a step at each side.
func TestStepsOfAGame(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const step, way = 15 * time.Millisecond, 37500 * time.Microsecond
		a, b := simPair(simnet.Link{Latency: way}, &Config{ManualStep: true})
		defer abort(a, b)
		require.NoError(t, a.Connected(t.Context()))
		require.NoError(t, b.Connected(t.Context()))
		var sent []time.Time
		buf := make([]byte, 300)
		for range 1000 {
			for b.Stats().ReadQueue > 0 {
				_, err := b.Read(buf)
				require.NoError(t, err)
				require.Less(t, time.Since(sent[0]), way+2*step)
				sent = sent[1:]
			}
			a.Write(buf[:200])
			sent = append(sent, time.Now())
			a.Step()
			b.Step()
			time.Sleep(step)
		}
		st := a.Stats()
		require.Zero(t, st.FramesResent)
		require.EqualValues(t, 1000, st.FramesSent)
		require.InDelta(t, 75+15, st.RTT.Seconds()*1000, 8)
	})
}

// H6: the lower bandwidth of both sides counts.
func TestBandwidth(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x, y := simnet.Pair(1, simnet.Link{Latency: 10 * time.Millisecond}, simnet.Link{Latency: 10 * time.Millisecond})
		a := NewConn(x, &Config{SendBandwidth: 200_000})
		b := NewConn(y, &Config{ReceiveBandwidth: 50_000})
		defer abort(a, b)
		require.NoError(t, a.Connected(t.Context()))
		require.NoError(t, b.Connected(t.Context()))
		require.EqualValues(t, 50_000, a.Stats().SendBandwidth)
		go func() {
			for {
				if _, err := a.Write(make([]byte, 1000)); err != nil {
					return
				}
			}
		}()
		time.Sleep(20 * time.Second)
		got := b.Stats().MessagesReceived
		require.InDelta(t, 1000, int(got), 150)
		require.Contains(t, a.Explain(), "bandwidth agreed upon")
	})
}
