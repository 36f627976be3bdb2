package volley

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"volley/internal/wire"
	"volley/reliable"
)

// Grouping keeps every datagram, the order of first fragments and of the rest
// within their kind, and lets no message overtake groupReach others.
func TestGroupFragments(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	e, err := reliable.New(&reliable.Config{}, time.Unix(1, 0), nil)
	if err != nil {
		t.Fatal(err)
	}
	for range 200 {
		b := new(wire.Batch)
		for range r.IntN(40) {
			e.Send(time.Unix(1, 0), make([]byte, 1+r.IntN(5000)), b)
		}
		var before []string
		for i := range b.Len() {
			before = append(before, string(b.At(i)))
		}
		out := groupFragments(b)
		var after []string
		newest := -1
		for i := range out.Len() {
			d := out.At(i)
			after = append(after, string(d))
			at := int(d[1]) | int(d[2])<<8
			if newest-at >= groupReach {
				t.Fatalf("a datagram of message %d leaves behind one of %d", at, newest)
			}
			newest = max(newest, at)
		}
		slices.Sort(before)
		slices.Sort(after)
		if !slices.Equal(before, after) {
			t.Fatal("grouping changed the datagrams")
		}
	}
}
