package main

import (
	"strings"
	"testing"
	"time"

	"volley/netplay"
)

// TestCompare checks that all codecs can be measured, and that bodies by hand
// are those of the package.
func TestCompare(t *testing.T) {
	var b strings.Builder
	if err := compareCodecs(&b, 1, time.Millisecond); err != nil {
		t.Fatal(err)
	}
	for _, m := range messages {
		own, err := netplay.Marshal(m.message)
		if err != nil {
			t.Fatal(err)
		}
		if hand, err := m.message.appendByHand(nil); err != nil || string(hand) != string(own) {
			t.Errorf("%s by hand is %x, %v, want %x", m.name, hand, err, own)
		}
	}
}

func TestSlowReaders(t *testing.T) {
	r, err := runSlow(9, 1, 200*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	if r.delivered != r.want || r.queued > 10*slowBuffer {
		t.Errorf("%d of %d messages arrived, %d bytes waited", r.delivered, r.want, r.queued)
	}
}
