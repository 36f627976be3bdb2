package main

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"volley/internal/leaktest"
	"volley/internal/testenv"
)

// The processes of the drill are this test's program.
func TestMain(m *testing.M) {
	if os.Getenv("VOLLEY_DRILL") != "" {
		main()
		return
	}
	leaktest.Main(m)
}

// The drill passes in a small size. Its times are for a quiet machine.
func TestDrill(t *testing.T) {
	s := small(sizes{slack: 20})
	switch {
	case testing.Short():
		s.only, s.clients = "kill,rolling", 20
	case testenv.Race:
		s.only = "tokens,kill,rolling,stop,partition,nats" // figures of memory mean nothing
	}
	table, err := drill(s)
	if err != nil {
		t.Fatal(err)
	}
	check(t, table)
}

// tooLate is the delay of timers above which a machine has no time for the fleet. A client waits
// 150 ms for the answer of its server, and 3 s for another server until it dials anew. So sessions
// are lost if it takes that long to join one.
const tooLate = 300 * time.Millisecond

// judged reports whether the row must be as it is wanted.
func (r row) judged() bool { return r.late <= tooLate }

// check fails the test for each row that is not as it must be.
func check(t *testing.T, table *table) {
	for _, r := range table.failed() {
		judge := t.Logf
		if r.judged() {
			judge = t.Errorf
		}
		judge("%s: %s: measured %s, wanted %s; timers were late by %v", r.part, r.what, r.have, r.want, r.late)
	}
}

// On a machine that has no time, sessions may be lost, but none may have two seats.
func TestJudged(t *testing.T) {
	for _, late := range []time.Duration{0, tooLate, tooLate + 1} {
		table := &table{late: late}
		table.lost("", report{Redials: 1})
		table.atMost(sizes{slack: 1}, "a gap", 2, 1)
		table.is("sessions with two seats", 1, 0)
		var judged []bool
		for _, r := range table.failed() {
			judged = append(judged, r.judged())
		}
		require.Equal(t, []bool{late <= tooLate, late <= tooLate, true}, judged)
	}
}
