package volley

import (
	"bytes"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"volley/capture"
	"volley/internal/testenv"
	"volley/simnet"
)

// rough is a link that does everything that one can do to datagrams.
var rough = simnet.Link{Latency: 30 * time.Millisecond, Jitter: 20 * time.Millisecond, Loss: 0.2, Duplicate: 0.05, Reorder: 0.1}

// newRecorder returns a Recorder that ends with the test.
func newRecorder(t *testing.T, cfg *capture.Config) *capture.Recorder {
	t.Helper()
	r, err := capture.NewRecorder(cfg)
	require.NoError(t, err)
	return r
}

// written returns a Recorder's capture.
func written(t *testing.T, r *capture.Recorder) []byte {
	t.Helper()
	var b bytes.Buffer
	n, err := r.WriteTo(&b)
	require.NoError(t, err)
	require.EqualValues(t, b.Len(), n)
	require.EqualValues(t, b.Len(), r.Stats().Bytes)
	return b.Bytes()
}

// traffic sends messages of many sizes both ways over a rough link for a while,
// with pauses, and closes the connections.
func roughTraffic(t *testing.T, cfg *Config, seed uint64) {
	a, b := netPipe(seed, rough, rough, cfg)
	for i, c := range []*Conn{a, b} {
		go func() {
			p := make([]byte, a.MaxMessageSize())
			for {
				if _, err := c.Read(p); err != nil {
					return
				}
			}
		}()
		go func() {
			x := uint32(seed)*2 + uint32(i)
			for n := range 200 {
				x = x*1664525 + 1013904223
				size := int(x>>8) % 200
				if x>>24 < 16 {
					size *= 40 // fragments
				}
				if _, err := c.WriteMessage(bytes.Repeat([]byte{byte(n)}, size+1)); err != nil {
					return
				}
				time.Sleep(time.Duration(x>>20) * 10 * time.Microsecond)
			}
		}()
	}
	time.Sleep(8 * time.Second)
	a.Explain()
	a.Stats()
	time.Sleep(14 * time.Second)
	a.Write([]byte("after a pause"))
	time.Sleep(time.Second)
	require.Greater(t, a.Stats().MessagesLost, uint64(0))
	a.Close()
	b.Close()
	synctest.Wait()
}

// What two connections did on a rough link is done again by fresh endpoints, on
// many seeds.
func TestReplaySeeds(t *testing.T) {
	seeds := testenv.Raced(100, 20)
	if testing.Short() {
		seeds = 10
	}
	for seed := range seeds {
		synctest.Test(t, func(t *testing.T) {
			r := newRecorder(t, nil)
			roughTraffic(t, &Config{Capture: r}, uint64(seed))
			require.NoError(t, r.Err())
			report, err := Replay(bytes.NewReader(written(t, r)))
			require.NoError(t, err)
			require.Len(t, report.Connections, 2)
			require.True(t, report.Same(), "seed %d: %v", seed, report)
			for _, c := range report.Connections {
				require.Equal(t, c.Recorded, c.Digest)
				require.Greater(t, c.Sent, 150)
				require.Greater(t, c.Received, 150)
				require.Greater(t, c.Messages, 100)
			}
			require.Zero(t, *report.End)
		})
	}
}
