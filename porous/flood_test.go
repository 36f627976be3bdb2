package porous

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"volley/simnet"
)

// floodPair returns two connections over a link of 10 ms each way.
func floodPair(t *testing.T, cfg *Config) (c, s *Conn, end func()) {
	n := simnet.New(1)
	n.SetDefault(simnet.Link{Latency: 10 * time.Millisecond})
	l := simListener(t, n, "10.0.0.1:7", &ListenConfig{})
	c = simDial(t, n, "10.0.0.2:0", "10.0.0.1:7", cfg)
	s, err := l.AcceptConn(context.Background())
	require.NoError(t, err)
	return c, s, func() { s.Close(); c.Close(); l.Close(); n.Close() }
}

// Messages of a flood share frames; single ones leave at once, in frames of
// their own.
func TestFloodSharesFrames(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c, s, end := floodPair(t, nil)
		defer end()
		msg, buf := make([]byte, 64), make([]byte, 64)
		read := func() {
			_, err := s.Read(buf)
			require.NoError(t, err)
		}
		c.Write(msg)
		read()
		time.Sleep(100 * time.Millisecond)
		for range 50 {
			start := time.Now()
			c.Write(msg)
			read()
			require.Equal(t, 10*time.Millisecond, time.Since(start))
			time.Sleep(5 * time.Millisecond)
		}
		require.EqualValues(t, 51, c.Stats().FramesSent)
		for range 5000 {
			c.Write(msg)
		}
		for range 5000 {
			read()
		}
		require.Less(t, c.Stats().FramesSent, uint64(600))
		time.Sleep(time.Second)
		start := time.Now()
		c.Write(msg)
		read()
		require.Equal(t, 10*time.Millisecond, time.Since(start), "what ends a flood does not wait either")
	})
}

// A flood arrives as a whole whatever holds it back: the window, the rate, or the
// buffer; and what comes last does not wait for more.
func TestFloodThatIsHeldBack(t *testing.T) {
	for _, cfg := range []*Config{{}, {SendBandwidth: 300_000}, {SendBuffer: 1 << 17}, {Congestion: "paper"}, {Congestion: "tolerant"}} {
		bubble(t, func(t *testing.T) {
			c, s, end := floodPair(t, cfg)
			defer end()
			const count = 20_000
			start := time.Now()
			go func() {
				for i := range count {
					c.Write(make([]byte, 1+i%100))
				}
			}()
			buf := make([]byte, 100)
			for i := range count {
				k, err := s.Read(buf)
				require.NoError(t, err)
				require.Equal(t, 1+i%100, k)
			}
			require.Less(t, time.Since(start), 6*time.Second)
			require.NoError(t, c.Flush(t.Context()))
		})
	}
}
