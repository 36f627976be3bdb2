package world

import (
	"io"
	"testing"
	"testing/synctest"
	"time"

	"volley"
)

// A server that has too little memory ends connections of porous. Its Handler may be told a little
// later than the client, but it is told.
func TestEndToldLater(t *testing.T) {
	const never = time.Hour
	for _, test := range []struct {
		name                string
		stack               stack
		crammed             bool
		asked, left, stalls time.Duration // when the client looks, when the Handler is told, and until when it waits, after the end
		excused             bool
	}{
		{"before", porousPlain, false, time.Minute, 0, 0, true},
		{"polled", porousPlain, true, time.Minute, endLag, 0, true},
		{"not crammed", porousPlain, false, time.Minute, endLag, 0, false},
		{"volley", volleyPolled, true, time.Minute, endLag, 0, false},
		{"too late", porousPlain, true, time.Minute, endLag + 1, 0, false},
		{"never", porousPlain, true, time.Minute, never, 0, false},
		{"asked at once", porousPlain, true, endLag - 1, never, 0, true},
		{"asked later", porousPlain, true, endLag, never, 0, false},
		{"stalled", porousPlain, true, time.Minute, never, 1, true},
		{"stalled before", porousPlain, true, time.Minute, never, 0, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := &plan{servers: []serverPlan{{stack: test.stack}}, clients: make([]clientPlan, 300)}
				if test.crammed {
					p.faults = []fault{{kind: hoard}} // of the largest messages
				}
				b := newBook(p)
				h := &host{w: &world{plan: p, book: b}}
				server := b.open(route{home: 0, peer: 1, promises: sealed}, nil)
				client := newEnd(b, slowLink{}, route{home: 1, peer: 0, promises: sealed, served: true, dialed: true})
				client.sight(server.number)
				time.Sleep(time.Minute)
				at := b.now()
				b.stalls[0].until.Store(int64(at + test.stalls))
				client.finished(io.EOF)
				defer time.AfterFunc(test.left, server.leave).Stop()
				time.Sleep(test.asked)
				h.explain(client, io.EOF)
				if excused := len(b.failures) == 0; excused != test.excused {
					t.Errorf("excused: %v, failures: %q", excused, b.failures)
				}
			})
		})
	}
}

// A server that has ended a connection answers its client at once, also while a function of its Handler
// waits, and the Handler is told later.
func TestEndToldAfterStall(t *testing.T) {
	for _, test := range []struct {
		home    int
		stalls  time.Duration // after the end
		excused bool
	}{
		{1, 1, true}, {1, 0, false}, {0, 1, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			b := newBook(&plan{servers: []serverPlan{{stack: volleyPolled}}, clients: make([]clientPlan, 300)})
			h := &host{w: &world{plan: b.plan, book: b}}
			client := newEnd(b, slowLink{}, route{home: test.home, peer: 1 - test.home, promises: sealed, served: true, dialed: true})
			time.Sleep(time.Minute)
			b.stalls[0].until.Store(int64(b.now() + test.stalls))
			client.finished(volley.ErrPeerRestarted)
			h.explain(client, volley.ErrPeerRestarted)
			if excused := len(b.failures) == 0; excused != test.excused {
				t.Errorf("%+v: failures: %q", test, b.failures)
			}
		})
	}
}

// A message that leaves the window of its connection is Lost before an ack can have come.
func TestPushedOut(t *testing.T) {
	for _, test := range []struct {
		before  uint64        // messages in front of it
		behind  uint64        // packets between it and the last message
		at      time.Duration // when that was written, after the loss
		excused bool
	}{
		{0, sentWindow, 0, true}, {0, sentWindow - 1, 0, false}, {0, 2 * sentWindow, 0, true},
		{0, sentWindow, 1, false}, {2 * sentWindow, 1, 0, false},
	} {
		b := newBook(&plan{})
		f := &flow{book: b, from: 1, promises: promises{exact: true}, heard: 1}
		fated := time.Minute
		for id := range test.before + 1 {
			f.sent = append(f.sent, sent{at: time.Minute - 1, id: 70_000 + id, fate: volley.Lost, fated: fated, read: true})
		}
		n := int(test.before)
		f.sent = append(f.sent, sent{at: fated + test.at, id: f.sent[n].id + test.behind})
		if wrong := f.wronglyLost(n, f.sent[n]); wrong == test.excused {
			t.Errorf("%+v: wrongly lost: %v", test, wrong)
		}
	}
}

// Nor does one that a server wrote while it had no memory for a larger window of sent packets, which
// its log tells up to 11 s later.
func TestShortOfMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBook(&plan{})
		time.Sleep(time.Minute)
		b.tellShort(1)
		for _, test := range []struct {
			from    int
			fated   time.Duration
			excused bool
		}{
			{1, time.Minute, true}, {1, time.Minute + 1, false}, {1, time.Minute - refusedFor, true},
			{1, time.Minute - refusedFor - 1, false}, {0, time.Minute, false},
		} {
			f := &flow{book: b, from: test.from, promises: promises{exact: true}, heard: 1}
			f.sent = []sent{{at: time.Second, id: 1, fate: volley.Lost, fated: test.fated, read: true}}
			if wrong := f.wronglyLost(0, f.sent[0]); wrong == test.excused {
				t.Errorf("%+v: wrongly lost: %v", test, wrong)
			}
		}
	})
}

// If a server has no room for a small message of each client at once, some may have no answer after
// the faults, but half of those that it has room for have one.
func TestStarved(t *testing.T) {
	for _, test := range []struct {
		stack           stack
		config          int
		clients, missed int
		starved         bool
	}{
		{sessions, 1, 378, 378 - 96, false}, // 256 KiB, of which three quarters are for 192 messages
		{sessions, 1, 378, 378 - 95, true},
		{sessions, 1, 100, 50, false},
		{sessions, 1, 100, 51, true},
		{riptidePlain, 1, 378, 378 - 189, false},
		{riptidePlain, 1, 378, 378 - 188, true},
		{sessions, 1, 0, 0, false},
	} {
		p := &plan{servers: []serverPlan{{stack: test.stack, config: test.config}}, clients: make([]clientPlan, test.clients)}
		if got := p.starved(0, test.missed); got != test.starved {
			t.Errorf("%+v: starved: %v", test, got)
		}
	}
}
