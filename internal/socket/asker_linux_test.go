package socket

import "testing"

// TestAsker: what a reader asks for follows from what it has got. One message is
// the rule; a reader that keeps finding as many as it asks for asks for more.
func TestAsker(t *testing.T) {
	// full has calls get what they ask for, and returns how many each asked for.
	full := func(a *asker, calls int) (asked []int) {
		for range calls {
			asked = append(asked, a.count())
			a.learn(a.count(), a.count())
		}
		return asked
	}
	patient := askPatience + 1
	want := func(a *asker, calls int) (last int) {
		asked := full(a, calls)
		for i, n := range asked {
			expected := 1
			for k := patient; k <= i && expected < recvMessages; k++ {
				expected *= 2
			}
			if n != expected {
				t.Fatalf("call %d of %d in a row that got all asks for %d, want %d", i+1, calls, n, expected)
			}
		}
		return asked[len(asked)-1]
	}

	var a asker
	if last := want(&a, patient); last != 1 {
		t.Errorf("the last of %d calls asks for %d, want 1", patient, last)
	}
	if last := want(new(asker), 1000); last != recvMessages {
		t.Errorf("the last of 1000 calls asks for %d, want %d", last, recvMessages)
	}

	// A call that gets less, or nothing, begins anew, also with the patience.
	for _, before := range []int{1, askPatience - 1, patient, patient + 1, 50} {
		for _, less := range []int{1, 2} {
			var a asker
			full(&a, before)
			a.learn(a.count(), a.count()-less)
			if a != (asker{}) {
				t.Errorf("after %d full calls and one that got %d less: %+v, want the zero value", before, less, a)
			}
			want(&a, 100)
		}
	}

	// A call that had no room to ask for so many tells nothing about a backlog.
	a = asker{}
	full(&a, patient+1)
	before := a.count()
	for range 100 {
		a.learn(before/2, before/2)
	}
	if got := a.count(); before != 4 || got != before {
		t.Errorf("calls that ask for less than %d have it ask for %d, want 4 both times", before, got)
	}
}
