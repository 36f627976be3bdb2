package main

import (
	"os"
	"testing"
	"time"

	"volley/internal/leaktest"
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
	if s.only = "tokens,kill,rolling,stop,partition,nats"; testing.Short() {
		s.only, s.clients, s.partition, s.stop = "kill,rolling", 20, time.Second, time.Second
	}
	ok, err := drill(s)
	if err != nil {
		t.Fatal(err)
	}
	if !ok {
		t.Error("see the table")
	}
}
