package volleydebug

import (
	"encoding/json"
	"sync/atomic"
	"testing"
	"time"

	"volley/internal/registry"
)

// TestHubForgets: who comes back after the last frame has been forgotten is told
// everything, and so is who has missed a frame.
func TestHubForgets(t *testing.T) {
	h := newHub(Config{})
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
	if h.last != nil {
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
func (c *fakeConn) Over() bool { return c.over.Load() }
func (c *fakeConn) View(v *registry.Conn, _ bool) bool {
	v.Protocol, v.Known, v.MessagesSent = "fake", registry.Messages, 1
	return !c.over.Load()
}

// fakes registers connections, which end with the test.
func fakes(t *testing.T, n int) {
	t.Helper()
	var over atomic.Bool
	set := registry.NewConns(registry.Dialed, func(c *fakeConn) registry.Viewer { return c })
	all := make([]fakeConn, n)
	for i := range all {
		all[i].over = &over
		set.Add(&all[i])
	}
	t.Cleanup(func() { over.Store(true) })
}

// TestVariableSums: the sums are of all connections, also of more than the page
// shows.
func TestVariableSums(t *testing.T) {
	fakes(t, defaultMaxConns+1)
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
