package porous

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"volley/simnet"
)

// H2, H4: with manual steps nothing leaves by itself.
func TestManualStep(t *testing.T) {
	bubbles(t, func(t *testing.T, pair pairing) {
		a, b, _ := pair(t, simnet.Link{Latency: 10 * time.Millisecond}, &Config{ManualStep: true})
		require.NoError(t, a.Flush(t.Context()))
		require.NoError(t, b.Flush(t.Context()))
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

// H4: without steps acknowledgements leave with the batch that they are for, and
// what is due by time is not late, whatever the application does.
func TestNothingWaitsForAStep(t *testing.T) {
	bubbles(t, func(t *testing.T, pair pairing) {
		const way = 10 * time.Millisecond
		a, b, change := pair(t, simnet.Link{Latency: way}, nil)
		defer abort(a, b)
		require.NoError(t, a.Flush(t.Context()))
		time.Sleep(time.Second)
		for range 100 {
			id, err := a.WriteMessage(t.Context(), []byte("nobody reads"), Reliable)
			require.NoError(t, err)
			require.NoError(t, a.Flush(t.Context()))
			require.Equal(t, []Receipt{{ID: id, Fate: Delivered, RTT: 2 * way}}, a.AppendReceipts(nil))
		}
		change(simnet.Link{Blackout: true})
		start := time.Now()
		a.Write([]byte("lost"))
		time.Sleep(time.Millisecond)
		change(simnet.Link{Latency: way})
		for range 101 {
			readString(t, b)
		}
		// A thin stream is sent again after the round-trip time and 2 ms.
		require.Equal(t, 3*way+2*time.Millisecond, time.Since(start).Truncate(2*time.Millisecond))
	})
}

// What has arrived and no Step has delivered does not block a connection that
// ends, whichever way, nor its readers.
func TestManualStepEnds(t *testing.T) {
	ends := map[string]func(a, b *Conn){
		"Abort":           func(_, b *Conn) { b.Abort() },
		"Close":           func(_, b *Conn) { b.Close() },
		"the peer's":      func(a, _ *Conn) { a.Abort() },
		"the inner one's": func(a, b *Conn) { a.NetConn().Close(); time.Sleep(time.Second); b.NetConn().Close() },
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			bubbles(t, func(t *testing.T, pair pairing) {
				a, b, _ := pair(t, simnet.Link{Latency: 10 * time.Millisecond}, &Config{ManualStep: true})
				defer abort(a, b)
				require.NoError(t, a.Flush(t.Context()))
				require.NoError(t, b.Flush(t.Context()))
				a.Write(make([]byte, 5000)) // of several frames
				a.Step()
				time.Sleep(time.Second)
				end(a, b)
				time.Sleep(time.Second)
				b.SetReadDeadline(time.Now().Add(time.Second))
				n, err := b.Read(make([]byte, 5000))
				if name == "the peer's" || name == "the inner one's" {
					require.NoError(t, err, "it had arrived")
					require.Equal(t, 5000, n)
					_, err = b.Read(make([]byte, 1))
				}
				require.Error(t, err)
				require.NotErrorIs(t, err, os.ErrDeadlineExceeded)
				b.Close()
			})
		})
	}
}

// H3: both sides take steps of 15 ms, at a round-trip time of 75 ms. Nothing is
// sent twice, and no message waits for more than a step at each side.
func TestStepsOfAGame(t *testing.T) {
	bubbles(t, func(t *testing.T, pair pairing) {
		const step, way = 15 * time.Millisecond, 37500 * time.Microsecond
		a, b, _ := pair(t, simnet.Link{Latency: way}, &Config{ManualStep: true})
		defer abort(a, b)
		require.NoError(t, a.Flush(t.Context()))
		require.NoError(t, b.Flush(t.Context()))
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
	bubbles(t, func(t *testing.T, pair pairing) {
		link := simnet.Link{Latency: 10 * time.Millisecond}
		a, b, _ := pair(t, link, &Config{SendBandwidth: 200_000}, &Config{ReceiveBandwidth: 50_000})
		defer abort(a, b)
		require.NoError(t, a.Flush(t.Context()))
		require.NoError(t, b.Flush(t.Context()))
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
		require.Contains(t, a.Explain().String(), "bandwidth agreed upon")
	})
}
