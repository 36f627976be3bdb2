package interop

import (
	"context"
	"strings"
	"testing"

	"github.com/DataDog/datadog-go/v5/statsd"
	"github.com/stretchr/testify/require"
)

// A statsd client writes its figures to a volley connection, some lines a
// message.
func TestStatsd(t *testing.T) {
	a, b := pair(t, nil)
	s, err := statsd.NewWithWriter(a, statsd.WithoutTelemetry(), statsd.WithoutClientSideAggregation(),
		statsd.WithoutOriginDetection(), statsd.WithNamespace("interop."))
	require.NoError(t, err)
	want := map[string]int{"interop.games:1|c": 100, "interop.players:42|g": 1, "interop.tick:16.000000|ms": 1}
	for range 100 {
		require.NoError(t, s.Incr("games", nil, 1))
	}
	require.NoError(t, s.Gauge("players", 42, nil, 1))
	require.NoError(t, s.TimeInMilliseconds("tick", 16, nil, 1))
	require.NoError(t, s.Flush())
	got := make(map[string]int)
	for n := 0; n < 102; {
		m, err := b.ReadMessage(context.Background(), nil)
		require.NoError(t, err)
		for _, line := range strings.Split(strings.TrimSpace(string(m)), "\n") {
			got[line]++
			n++
		}
	}
	require.Equal(t, want, got)
	require.NoError(t, s.Close())
}
