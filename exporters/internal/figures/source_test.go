package figures

import (
	"net"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"volley/volleydebug"
)

var addr = &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1}

// get returns the value of a figure with these values of labels.
func get(t *testing.T, s *Source, m *Metric, labels ...string) (float64, bool) {
	t.Helper()
	for _, v := range s.Values() {
		require.Len(t, v.Labels, len(v.Metric.Labels), v.Metric.Name)
		if v.Metric == m && equal(v.Labels, labels) {
			return v.Value, true
		}
	}
	return 0, false
}

func equal(a, b []string) bool {
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

// TestMonotone: a connection that is just ending is nowhere for a moment, and the
// counter stays where it was until the totals have it.
func TestMonotone(t *testing.T) {
	l := volleydebug.Listener{ID: 1, Protocol: "volley", Kind: "listener", Addr: addr}
	conn := func(id, n uint64) volleydebug.Conn {
		return volleydebug.Conn{ID: id, Listener: 1, Protocol: "volley", Role: "accepted", MessagesReceived: n}
	}
	var state volleydebug.State
	s := Source{of: func() volleydebug.State { return state }}
	want := func(n float64) {
		t.Helper()
		state.Listeners = []volleydebug.Listener{l}
		got, ok := get(t, &s, messagesReceived, "volley", addr.String(), "accepted")
		require.True(t, ok)
		require.Equal(t, n, got)
	}
	state.Conns = []volleydebug.Conn{conn(1, 10), conn(2, 5)}
	want(15)
	state.Conns = []volleydebug.Conn{conn(2, 6)} // 1 is ending
	want(15)
	l.Ended = volleydebug.Totals{Conns: 1, MessagesReceived: 11}
	want(17)
	// Another listener with the same labels takes over.
	other := l
	other.ID, other.Ended = 2, volleydebug.Totals{}
	state.Conns, l = nil, other
	want(17)
	l.Ended.MessagesReceived = 3
	want(20)
	// With none of them left the counter is gone, and begins again.
	state.Listeners, state.Conns = nil, nil
	_, ok := get(t, &s, messagesReceived, "volley", addr.String(), "accepted")
	require.False(t, ok)
	want(3)
}

// TestShared: whoever asks while others look gets what they see, and whoever asks
// later has a look of his own.
func TestShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		looks := 0
		s := Source{}
		seen := make(chan struct{})
		s.of = func() volleydebug.State {
			looks++
			<-seen
			return volleydebug.State{}
		}
		var wg sync.WaitGroup
		wg.Go(func() { s.Values() })
		synctest.Wait()
		before := s.looks.Load()
		close(seen)
		wg.Wait()
		require.Len(t, s.valuesSince(before), 1, "the time that it took")
		require.Equal(t, 1, looks)
		s.Values()
		require.Equal(t, 2, looks)
	})
}

func TestPercentiles(t *testing.T) {
	for _, test := range []struct {
		n    int
		want []float64
	}{{1, []float64{1, 1, 1, 1}}, {2, []float64{1, 2, 2, 2}}, {10, []float64{5, 9, 10, 10}}, {100, []float64{50, 90, 99, 100}}} {
		var values, got []float64
		for i := range test.n {
			values = append(values, float64(test.n-i))
		}
		eachPercentile(values, func(_ string, v float64) { got = append(got, v) })
		require.Equal(t, test.want, got, test.n)
	}
}

// TestNames: the conventions of Prometheus, and no name twice.
func TestNames(t *testing.T) {
	require.Equal(t, "volley_rtt_seconds", groupRTT.Prometheus())
	require.Equal(t, "volley_messages_sent_size_bytes_total", bytesSent.Prometheus())
	require.Equal(t, "volley_bandwidth_bytes_per_second", groupRates.Prometheus())
	seen := make(map[string]bool)
	for _, m := range Metrics {
		require.False(t, seen[m.Prometheus()], m.Name)
		seen[m.Prometheus()] = true
	}
}

// Nodes of a fleet have figures of their own, by their names.
func TestNodes(t *testing.T) {
	state := volleydebug.State{Nodes: []volleydebug.Node{
		{Name: "eu-1", Sessions: 7, Spared: 6, Load: 9, Came: 3, Left: 2, Yielded: 1, Given: 8, Sealed: 5, Refused: 4, Bad: 10, Missed: 11,
			Peers: []volleydebug.Peer{{Name: "eu-2", Alive: true}, {Name: "eu-3"}, {Name: "eu-4", Alive: true}}},
		{Name: "eu-1", Sessions: 100}, // which Prometheus would refuse
	}}
	s := Source{of: func() volleydebug.State { return state }}
	for _, want := range []struct {
		metric *Metric
		value  float64
		label  string
	}{
		{nodeSessions, 7, ""}, {nodeSpared, 6, ""}, {nodeLoad, 9, ""}, {nodePeers, 2, "alive"}, {nodePeers, 1, "silent"},
		{nodeMoves, 3, "came"}, {nodeMoves, 2, "left"}, {nodeMoves, 1, "yielded"},
		{nodeTokens, 8, "given"}, {nodeTokens, 5, "sealed"}, {nodeTokens, 4, "refused"}, {nodeBad, 10, ""}, {nodeMissed, 11, ""},
	} {
		labels := []string{"eu-1"}
		if want.label != "" {
			labels = append(labels, want.label)
		}
		n := 0
		for _, v := range s.Values() {
			if v.Metric == want.metric && equal(v.Labels, labels) {
				n++
				require.Equal(t, want.value, v.Value, "%s %v", v.Metric.Name, v.Labels)
			}
		}
		require.Equal(t, 1, n, "%s %v", want.metric.Name, labels)
	}
}
