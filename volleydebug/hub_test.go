package volleydebug

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"reflect"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"volley/internal/registry"
)

// TestHubForgets: who comes back after the last frame has been forgotten is told
// everything, and so is who has missed a frame.
func TestHubForgets(t *testing.T) {
	h := newHub(Config{Interval: time.Hour}) // so that nothing is forgotten but by the test
	next := func() *frame {
		h.mu.Lock()
		if h.last != nil {
			h.last.next = time.Time{}
		}
		h.mu.Unlock()
		return h.latest()
	}
	full := func(b []byte) bool {
		var e struct{ Full bool }
		if err := json.Unmarshal(b, &e); err != nil {
			t.Fatalf("%q: %v", b, err)
		}
		return e.Full
	}
	a, b := next(), next()
	if !full(a.since(0)) || full(b.since(a.seq)) || !full(b.since(0)) {
		t.Error("the first event is not the whole, or the second one is")
	}
	h.mu.Lock()
	h.last.next = time.Time{}
	h.mu.Unlock()
	h.drop()
	h.mu.Lock()
	kept := h.last != nil
	h.mu.Unlock()
	if kept {
		t.Error("the last frame is kept though nobody asks")
	}
	c := next()
	if !full(c.since(b.seq)) {
		t.Error("what has changed is told to somebody though nothing is known of before")
	}
	d, e := next(), next()
	if full(d.since(c.seq)) || !full(e.since(c.seq)) {
		t.Error("who has missed a frame is not told everything")
	}
}

// A fakeConn is one of a protocol of its own, which has sent a message.
type fakeConn struct{ over *atomic.Bool }

func (c *fakeConn) ID() uint64 { return registry.ID(c, time.Time{}) }

func (c *fakeConn) End() error {
	if !c.over.Load() {
		return nil
	}
	return net.ErrClosed
}

func (c *fakeConn) View(v *registry.Conn, explain bool) bool {
	if explain {
		v.Explain = "it does nothing"
	}
	v.Protocol, v.Known, v.MessagesSent = "fake", registry.Messages, 1
	return !c.over.Load()
}

// fakes registers connections, which end with the test, in so many layers.
func fakes(t *testing.T, n, layers int) {
	t.Helper()
	var over atomic.Bool
	sets := make([]*registry.Set[fakeConn], layers)
	for i := range sets {
		sets[i] = registry.NewConns(registry.Dialed, func(c *fakeConn) registry.Viewer { return c })
	}
	all := make([]fakeConn, n)
	for i := range all {
		all[i].over = &over
		for _, set := range sets {
			set.Add(&all[i])
		}
	}
	t.Cleanup(func() {
		over.Store(true)
		runtime.KeepAlive(all)
	})
}

// TestVariableSums: the sums are of all connections, also of more than the page
// shows.
func TestVariableSums(t *testing.T) {
	fakes(t, defaultMaxConns+1, 1)
	h := summed()
	h.mu.Lock()
	h.last = nil // of a test before
	h.mu.Unlock()
	var sum struct {
		Protocols map[string]struct {
			Conns int
			Sent  float64 `json:"messages_sent"`
		}
	}
	if err := json.Unmarshal([]byte(Variable{}.String()), &sum); err != nil {
		t.Fatal(err)
	}
	if p := sum.Protocols["fake"]; p.Conns != defaultMaxConns+1 || p.Sent != defaultMaxConns+1 {
		t.Errorf("%d connections with %v messages, want %d with one each", p.Conns, p.Sent, defaultMaxConns+1)
	}
}

// TestHubExplains: the page is told whether the connections are explained, which goes
// by how many there are to be looked at.
func TestHubExplains(t *testing.T) {
	for _, layers := range []int{1, 2} {
		t.Run(strconv.Itoa(layers), func(t *testing.T) {
			fakes(t, maxExplained/2+1, layers)
			f := newHub(Config{}).latest()
			var e struct{ Explained bool }
			if err := json.Unmarshal(f.full(), &e); err != nil {
				t.Fatal(err)
			}
			said := slices.ContainsFunc(f.state.Conns, func(c Conn) bool { return c.Explain != "" })
			if e.Explained != said || said != (layers == 1) {
				t.Errorf("%d connections: explained %v, and the page is told %v", f.total, said, e.Explained)
			}
		})
	}
}

// TestHubEnded: the streams of a server that has begun to shut down end, also those
// that begin only then, and nothing is kept of servers that nobody has any more.
func TestHubEnded(t *testing.T) {
	h := newHub(Config{})
	request := func(srv *http.Server) *http.Request {
		ctx := context.WithValue(t.Context(), http.ServerContextKey, srv)
		return new(http.Request).WithContext(ctx)
	}
	srv := new(http.Server)
	end := h.ended(request(srv))
	for range 2 {
		if err := srv.Shutdown(t.Context()); err != nil {
			t.Fatal(err)
		}
		<-end
	}
	select {
	case <-h.ended(request(srv)):
	default:
		t.Error("a stream that begins while the server shuts down does not end")
	}
	for range 10 {
		other := new(http.Server)
		h.ended(request(other))
		other.Close()
	}
	runtime.GC()
	runtime.GC()
	h.ended(request(new(http.Server)))
	if n := len(h.ending); n > 4 {
		t.Errorf("%d servers are kept", n)
	}
	runtime.KeepAlive(srv)
}

// TestWorst: what is not shown is not kept.
func TestWorst(t *testing.T) {
	all := []Conn{{ID: 1}, {ID: 2, Loss: 0.5}, {ID: 3}}
	got := worst(all, 1)
	clear(all)
	if len(got) != 1 || cap(got) > 2 || got[0].ID != 2 {
		t.Errorf("the worst of three is %+v of %d places", got, cap(got))
	}
}

// Knows takes the names of fields, and knows nothing of others.
func TestKnowsFields(t *testing.T) {
	conn, listener := reflect.TypeFor[Conn](), reflect.TypeFor[Listener]()
	for name := range fields {
		_, ofConn := conn.FieldByName(name)
		_, ofListener := listener.FieldByName(name)
		if !ofConn && !ofListener {
			t.Errorf("no field %s", name)
		}
	}
	c := Conn{Known: registry.RTT | registry.Loss}
	for want, names := range map[bool][][]string{true: {{}, {"RTT"}, {"RTTMin", "Loss", "MessagesReceived"}}, false: {{"Jitter"}, {"RTT", "Window"}, {"rtt"}, {""}}} {
		for _, n := range names {
			if c.Knows(n...) != want {
				t.Errorf("Knows(%q) = %v", n, !want)
			}
		}
	}
}

// A frame has the connections that have ended if they are not those of the frame before, and
// nothing in a reason can end the text around it.
func TestFrameEnds(t *testing.T) {
	type told struct {
		Ended []map[string]any
	}
	read := func(b []byte) (d told) {
		t.Helper()
		require.NoError(t, json.Unmarshal(b, &d), "%s", b)
		return d
	}
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	hostile := "closed by the peer: </script>\"}]\n\n\u2028<img src=x>"
	s := State{Time: at, Ends: []End{{
		ID: 5, Listener: 7, Protocol: "volley", Over: "netcode", Role: "accepted", Label: "client 9",
		Remote: "10.0.0.1:7", Born: at.Add(-time.Second), Time: at, Reason: hostile,
	}}}
	first := newFrame(1, s, 0, true, nil)
	want := map[string]any{
		"id": 5.0, "listener": 7.0, "protocol": "volley", "over": "netcode", "role": "accepted", "label": "client 9",
		"remote": "10.0.0.1:7", "born": "2026-01-02T03:04:04Z", "ended": "2026-01-02T03:04:05Z", "reason": hostile,
	}
	for _, b := range [][]byte{first.full(), first.json()} {
		require.Equal(t, []map[string]any{want}, read(b).Ended)
		require.NotContains(t, string(b), "<")
		require.NotContains(t, strings.TrimSuffix(string(b), "\n"), "\n", "a line ends an event")
	}
	second := newFrame(2, s, 0, true, first)
	require.NotContains(t, string(second.since(1)), "ended")
	s.Ends = append([]End{{Reason: "closed"}}, s.Ends...)
	third := newFrame(3, s, 0, true, second)
	require.Len(t, read(third.since(2)).Ended, 2)
	require.Empty(t, read(newFrame(4, State{}, 0, true, nil).json()).Ended)
}
