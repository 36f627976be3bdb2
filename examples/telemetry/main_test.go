package main

import (
	"testing"
	"testing/synctest"
	"time"

	"volley"
	"volley/simnet"
)

func TestTelemetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		link := simnet.Link{Latency: 20 * time.Millisecond, Loss: 0.2}
		sensor, station := volley.Pipe(&volley.PipeConfig{AtoB: link, BtoA: link, Seed: 1})
		seen := make(chan int)
		go func() { seen <- collect(station) }()

		const n = 2000
		r, err := report(sensor, n)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		station.Close()
		if r.acknowledged+r.open != n {
			t.Errorf("%d acknowledged and %d open, want %d together", r.acknowledged, r.open, n)
		}
		if r.repeated < n/10 {
			t.Errorf("%d messages repeated, want more at 20 %% loss", r.repeated)
		}
		if got := <-seen; got < r.acknowledged {
			t.Errorf("the station has %d readings, %d were acknowledged", got, r.acknowledged)
		}
	})
}
