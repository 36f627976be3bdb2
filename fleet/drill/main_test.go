package main

import (
	"os"
	"testing"
	"time"

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

// check fails the test for each row that is not as it must be.
func check(t *testing.T, table *table) {
	for _, r := range table.failed() {
		judge := t.Errorf
		if r.late > tooLate {
			judge = t.Logf
		}
		judge("%s: %s: measured %s, wanted %s; timers were late by %v", r.part, r.what, r.have, r.want, r.late)
	}
}
