package volleydebug

import (
	"encoding/json"
	"testing"
	"time"
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
