package main

import (
	"os"
	"path/filepath"
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
	r, err := runSlow(9, 1, netplay.CloseSlow, 200*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	if r.delivered != r.want || r.queued > 10*slowBuffer {
		t.Errorf("%d of %d messages arrived, %d bytes waited", r.delivered, r.want, r.queued)
	}
}

func TestReplaceSection(t *testing.T) {
	name := filepath.Join(t.TempDir(), "f")
	for _, start := range []string{"# T\n\n## A\n\na\n\n## Where others win\n\nw\n", "# T\n\n## A\n\na\n\n## Netplay\n\nold\n\n## Where others win\n\nw\n"} {
		if err := os.WriteFile(name, []byte(start), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := replaceSection(name, "## Netplay\n\nnew\n"); err != nil {
			t.Fatal(err)
		}
		got, _ := os.ReadFile(name)
		if want := "# T\n\n## A\n\na\n\n## Netplay\n\nnew\n\n## Where others win\n\nw\n"; string(got) != want {
			t.Errorf("replaceSection = %q, want %q", got, want)
		}
	}
}
