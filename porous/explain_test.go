package porous

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"volley/simnet"
)

// TestExplain: each state in which a connection cannot send is told in words.
func TestExplain(t *testing.T) {
	bubbles(t, func(t *testing.T, pair pairing) {
		link := simnet.Link{Latency: 10 * time.Millisecond, Bandwidth: 4e6}
		a, b, _ := pair(t, link, &Config{Channels: 2, ReceiveBuffer: 256 << 10, CloseTimeout: -1})
		a.Write([]byte("early"))
		require.Contains(t, a.Explain().String(), "handshake")
		require.NoError(t, a.Flush(t.Context()))
		readString(t, b)
		require.NoError(t, a.Flush(t.Context()))
		require.Contains(t, a.Explain().String(), "Nothing")
		require.Zero(t, a.Channel(1).Stats().SendQueue)

		for range 20 {
			a.Write(make([]byte, 50_000))
		}
		go func() {
			for {
				if _, err := b.ReadMessage(context.Background(), nil); err != nil {
					return
				}
			}
		}()
		require.Contains(t, a.Explain().String(), "window")
		require.NoError(t, a.Flush(t.Context()))

		for range 20 {
			a.Channel(1).Write(make([]byte, 50_000))
		}
		time.Sleep(time.Minute)
		require.Contains(t, a.Explain().String(), "takes nothing of channel 1")
		require.True(t, a.Channel(1).Stats().Refused)
		require.False(t, a.Channel(0).Stats().Refused)
		require.NotZero(t, b.Channel(1).Stats().ReadQueue)
		require.NotZero(t, b.Stats().FramesRefused)

		require.Error(t, a.Close())
		require.Contains(t, a.Explain().String(), "closed")
		time.Sleep(time.Minute)
		require.Contains(t, b.Explain().String(), "ended")
		require.NoError(t, b.Close())
	})
}
