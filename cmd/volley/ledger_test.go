package main

import (
	"testing"
	"time"

	"volley"
)

// send enters a message as sent under the given number.
func (l *ledger) send(msg string, id uint64) { l.sent(l.sending([]byte(msg)), id) }

func delivered(id uint64) volley.Receipt {
	return volley.Receipt{ID: id, Fate: volley.Delivered, RTT: 50 * time.Millisecond}
}

func TestLedger(t *testing.T) {
	l := newLedger()
	l.send("one", 1)
	l.send("two", 2)
	l.send("three", 3)
	l.send("four", 4)
	l.received([]byte("one"))
	l.received([]byte("three"))
	l.receipt(delivered(1))
	l.receipt(delivered(1))  // a second receipt is no news
	l.receipt(delivered(99)) // nor is one for an unknown message
	l.receipt(volley.Receipt{ID: 2, Fate: volley.Lost})
	if got := l.open(); got != 2 {
		t.Errorf("open() = %d, want 2", got)
	}
	got := l.snapshot()
	want := totals{sent: 4, received: 2, acked: 1, unacked: 1, sentBytes: 15, ackedBytes: 3}
	if got != want {
		t.Errorf("totals = %+v, want %+v", got, want)
	}
	if r := (&result{totals: got, phantoms: l.phantoms()}); !r.intact() {
		t.Errorf("result = %+v, want it intact", r)
	}
}

func TestLedgerFindsFaults(t *testing.T) {
	for _, test := range []struct {
		name string
		do   func(*ledger)
		want result
	}{
		{"corrupt", func(l *ledger) { l.send("one", 1); l.received([]byte("onf")) }, result{totals: totals{corrupt: 1}}},
		{"cut short", func(l *ledger) { l.send("one", 1); l.received([]byte("on")) }, result{totals: totals{corrupt: 1}}},
		{"out of nothing", func(l *ledger) { l.received(nil) }, result{totals: totals{corrupt: 1}}},
		{"repeated", func(l *ledger) {
			l.send("one", 1)
			l.received([]byte("one"))
			l.received([]byte("one"))
		}, result{totals: totals{repeated: 1}}},
		{"acknowledged, not received", func(l *ledger) { l.send("one", 1); l.receipt(delivered(1)) }, result{phantoms: 1}},
		{"of two alike, both acknowledged, one received", func(l *ledger) {
			l.send("one", 1)
			l.send("one", 2)
			l.received([]byte("one"))
			l.receipt(delivered(1))
			l.receipt(delivered(2))
		}, result{phantoms: 1}},
		{"not sent after all", func(l *ledger) {
			l.unsent(l.sending([]byte("one")))
			l.received([]byte("one"))
		}, result{totals: totals{repeated: 1}}},
	} {
		l := newLedger()
		test.do(l)
		got := result{totals: l.snapshot(), phantoms: l.phantoms()}
		if got.intact() || got.corrupt != test.want.corrupt || got.repeated != test.want.repeated || got.phantoms != test.want.phantoms {
			t.Errorf("%s: result = %+v", test.name, got)
		}
	}
}

// TestLedgerOfTwins checks that it doesn't matter which of several messages
// with the same content arrives.
func TestLedgerOfTwins(t *testing.T) {
	l := newLedger()
	l.send("one", 1)
	l.send("one", 2)
	l.received([]byte("one"))
	l.receipt(delivered(2))
	if got := l.snapshot(); l.phantoms() != 0 || got.received != 1 || got.acked != 1 {
		t.Errorf("totals = %+v with %d phantoms", got, l.phantoms())
	}
}
