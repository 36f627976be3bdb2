package main

import (
	"os"
	"testing"

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
	ok, err := drill(s)
	if err != nil {
		t.Fatal(err)
	}
	if !ok {
		t.Error("see the table")
	}
}
