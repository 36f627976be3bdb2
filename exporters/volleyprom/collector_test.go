package volleyprom_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"

	"volley"
	"volley/exporters/volleyprom"
)

// gather returns all values by name and labels, such as
// volley_connections{listener="127.0.0.1:1",protocol="volley",role="accepted"}.
func gather(t *testing.T, r *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := r.Gather()
	require.NoError(t, err)
	return valuesOf(families)
}

func valuesOf(families []*dto.MetricFamily) map[string]float64 {
	values := make(map[string]float64)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, fmt.Sprintf("%s=%q", l.GetName(), l.GetValue()))
			}
			values[f.GetName()+"{"+strings.Join(labels, ",")+"}"] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
	}
	return values
}

func newRegistry(t *testing.T) *prometheus.Registry {
	t.Helper()
	r := prometheus.NewPedanticRegistry()
	require.NoError(t, r.Register(volleyprom.NewCollector()))
	return r
}

func listen(t *testing.T) *volley.Listener {
	t.Helper()
	l, err := volley.Listen("udp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	return l
}

// pair returns a dialed connection and the accepted one. The former keeps its port
// until the end: to a new connection from there the listener would be deaf for a
// while.
func pair(t *testing.T, l *volley.Listener) (a, b *volley.Conn) {
	t.Helper()
	a, err := volley.Dial("udp", l.Addr().String())
	require.NoError(t, err)
	t.Cleanup(func() { a.Close() })
	require.NoError(t, l.SetDeadline(time.Now().Add(30*time.Second)))
	b, err = l.AcceptConn(context.Background())
	require.NoError(t, err)
	t.Cleanup(func() { b.Close() })
	return a, b
}

// exchange sends a message each way, and waits for both.
func exchange(t *testing.T, a, b net.Conn) {
	t.Helper()
	buf := make([]byte, 100)
	for _, dir := range [][2]net.Conn{{a, b}, {b, a}} {
		_, err := dir[0].Write([]byte("hello"))
		require.NoError(t, err)
		require.NoError(t, dir[1].SetReadDeadline(time.Now().Add(30*time.Second)))
		_, err = dir[1].Read(buf)
		require.NoError(t, err)
	}
}

// What is exported is what Stats tells.
func TestCollectorValues(t *testing.T) {
	r := newRegistry(t)
	l := listen(t)
	var clients, accepted []*volley.Conn
	for range 3 {
		a, b := pair(t, l)
		exchange(t, a, b)
		_, err := b.Write([]byte("more"))
		require.NoError(t, err)
		clients, accepted = append(clients, a), append(accepted, b)
	}
	_, err := clients[0].Write([]byte("waits"))
	require.NoError(t, err)
	for end := time.Now().Add(30 * time.Second); accepted[0].Stats().ReadQueue == 0; time.Sleep(time.Millisecond) {
		require.True(t, time.Now().Before(end))
	}
	at := fmt.Sprintf(`listener=%q,protocol="volley"`, l.Addr())
	got := gather(t, r)
	require.EqualValues(t, 3, got[`volley_listener_connections{kind="listener",`+at+"}"])
	require.EqualValues(t, 3, got[`volley_listener_accepted_total{kind="listener",`+at+"}"])
	require.EqualValues(t, 256<<20, got[`volley_listener_memory_limit_bytes{kind="listener",`+at+"}"])
	require.NotZero(t, got[`volley_listener_read_calls_total{kind="listener",`+at+"}"])
	var sum volley.Stats
	worst := time.Duration(0)
	for _, c := range accepted {
		s := c.Stats()
		sum.MessagesSent += s.MessagesSent
		sum.MessagesReceived += s.MessagesReceived
		sum.ReadQueue += s.ReadQueue
		worst = max(worst, s.RTT)
	}
	group := "{" + at + `,role="accepted"`
	require.EqualValues(t, 3, got["volley_connections"+group+"}"])
	require.EqualValues(t, sum.MessagesSent, got["volley_messages_sent_total"+group+"}"])
	require.EqualValues(t, sum.MessagesReceived, got["volley_messages_received_total"+group+"}"])
	require.EqualValues(t, sum.ReadQueue, got["volley_read_queue_bytes"+group+"}"])
	require.Contains(t, got, "volley_missed_total"+group+`,where="network"}`)
	require.Contains(t, got, "volley_missed_total"+group+`,where="inbox"}`)
	require.NotContains(t, got, "volley_messages_sent_size_bytes_total"+group+"}", "which volley does not count")
	if worst > 0 {
		require.Contains(t, got, "volley_rtt_seconds{"+at[:strings.Index(at, ",")]+`,percentile="100",protocol="volley",role="accepted"}`)
	}
	for name := range got {
		for _, c := range clients {
			require.NotContains(t, name, c.LocalAddr().String(), "a label for a peer")
		}
	}
}

// Counters count on while connections come and go, and the listener's series go
// with it.
func TestCollectorCounters(t *testing.T) {
	r := newRegistry(t)
	l := listen(t)
	before := map[string]float64{}
	messages := fmt.Sprintf(`volley_messages_received_total{listener=%q,protocol="volley",role="accepted"}`, l.Addr())
	for i := range 10 {
		a, b := pair(t, l)
		exchange(t, a, b)
		if i%3 == 0 { // this one is not seen while it lives
			require.NoError(t, b.Close())
		}
		got := gather(t, r)
		for name, v := range before {
			require.GreaterOrEqual(t, got[name], v, name)
		}
		require.EqualValues(t, i+1, got[messages])
		before = maps.Clone(got)
		maps.DeleteFunc(before, func(name string, _ float64) bool {
			ours := strings.Contains(name, l.Addr().String()) || strings.Contains(name, `listener=""`)
			return !ours || !strings.Contains(name, "_total{") // other tests end their listeners
		})
		require.NoError(t, b.Close())
		require.EqualValues(t, i+1, gather(t, r)[messages])
	}
	require.NoError(t, l.Shutdown(t.Context()))
	for name := range gather(t, r) {
		require.NotContains(t, name, l.Addr().String())
	}
}

// Counters never go back, not for a moment, and are exact in the end.
func TestCollectorMonotone(t *testing.T) {
	r := newRegistry(t)
	l := listen(t)
	messages := fmt.Sprintf(`volley_messages_received_total{listener=%q,protocol="volley",role="accepted"}`, l.Addr())
	stop := make(chan struct{})
	var back [2]error
	var wg sync.WaitGroup
	for i := range back {
		wg.Go(func() { back[i] = watch(r, "volley_messages_received_total", stop) })
	}
	const n = 100
	for range n {
		a, b := pair(t, l)
		exchange(t, a, b)
		require.NoError(t, b.Close())
	}
	close(stop)
	wg.Wait()
	require.NoError(t, errors.Join(back[:]...))
	require.EqualValues(t, n, gather(t, r)[messages])
}

// watch gathers until it is stopped, and returns an error if a counter goes back.
func watch(r *prometheus.Registry, counter string, stop <-chan struct{}) error {
	before := map[string]float64{}
	for {
		select {
		case <-stop:
			return nil
		default:
		}
		families, err := r.Gather()
		if err != nil {
			return err
		}
		for name, v := range valuesOf(families) {
			if strings.HasPrefix(name, counter) && v < before[name] {
				return fmt.Errorf("%s: %v after %v", name, v, before[name])
			}
			before[name] = v
		}
		runtime.Gosched()
	}
}

func TestCollectorLint(t *testing.T) {
	l := listen(t)
	a, b := pair(t, l)
	exchange(t, a, b)
	pa, pb := volley.Pipe(nil)
	exchange(t, pa, pb)
	defer pa.Close()
	defer pb.Close()
	r := newRegistry(t)
	problems, err := testutil.GatherAndLint(r)
	require.NoError(t, err)
	require.Empty(t, problems)
	names := slices.Collect(maps.Keys(gather(t, r)))
	require.Greater(t, len(names), 20)
}
