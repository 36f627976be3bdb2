package volleyotel_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"volley"
	"volley/exporters/volleyotel"
)

// collect returns the points that have the attributes, by name.
func collect(t *testing.T, r *metric.ManualReader, want ...attribute.KeyValue) map[string]float64 {
	t.Helper()
	var rm metricdata.ResourceMetrics
	require.NoError(t, r.Collect(t.Context(), &rm))
	values := make(map[string]float64)
	take := func(name string, points []metricdata.DataPoint[float64]) {
		for _, p := range points {
			matches := true
			for _, a := range want {
				v, ok := p.Attributes.Value(a.Key)
				matches = matches && ok && v == a.Value
			}
			if matches {
				values[name] = p.Value
			}
		}
	}
	for _, s := range rm.ScopeMetrics {
		require.Equal(t, volleyotel.Scope, s.Scope.Name)
		for _, m := range s.Metrics {
			require.NotEmpty(t, m.Description, m.Name)
			switch d := m.Data.(type) {
			case metricdata.Sum[float64]:
				require.True(t, d.IsMonotonic, m.Name)
				take(m.Name, d.DataPoints)
			case metricdata.Gauge[float64]:
				take(m.Name, d.DataPoints)
			default:
				t.Errorf("%s is a %T", m.Name, d)
			}
		}
	}
	return values
}

// What a reader collects is what Stats tells, also of connections that have ended.
func TestRegister(t *testing.T) {
	reader := metric.NewManualReader()
	provider := metric.NewMeterProvider(metric.WithReader(reader))
	defer provider.Shutdown(t.Context())
	registration, err := volleyotel.Register(provider)
	require.NoError(t, err)

	l, err := volley.Listen("udp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	a, err := volley.Dial("udp", l.Addr().String())
	require.NoError(t, err)
	defer a.Close()
	_, err = a.Write([]byte("hello"))
	require.NoError(t, err)
	require.NoError(t, l.SetDeadline(time.Now().Add(30*time.Second)))
	b, err := l.AcceptConn(context.Background())
	require.NoError(t, err)
	defer b.Close()
	require.NoError(t, b.SetReadDeadline(time.Now().Add(30*time.Second)))
	_, err = b.Read(make([]byte, 10))
	require.NoError(t, err)
	_, err = b.Write([]byte("hello"))
	require.NoError(t, err)

	at := attribute.String("listener", l.Addr().String())
	got := collect(t, reader, at)
	require.EqualValues(t, 1, got["volley.connections"])
	require.EqualValues(t, 1, got["volley.listener.accepted"])
	require.EqualValues(t, b.Stats().MessagesReceived, got["volley.messages.received"])
	require.EqualValues(t, b.Stats().MessagesSent, got["volley.messages.sent"])
	require.Contains(t, collect(t, reader, at, attribute.String("where", "network")), "volley.missed")
	require.Contains(t, collect(t, reader), "volley.snapshot.duration")

	require.NoError(t, b.Close())
	got = collect(t, reader, at)
	require.EqualValues(t, 0, got["volley.connections"])
	require.EqualValues(t, 1, got["volley.connections.ended"])
	require.EqualValues(t, 1, got["volley.messages.received"])

	require.NoError(t, registration.Unregister())
	require.Empty(t, collect(t, reader, at))
}

func TestRegisterNothing(t *testing.T) {
	_, err := volleyotel.Register(nil)
	require.Error(t, err)
}
