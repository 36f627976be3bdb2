package main

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"volley"
	"volley/simnet"
)

// start returns a sensor, and a function that closes the station and returns how
// many readings it has.
func start(loss float64, seed uint64) (*sensor, func() int) {
	link := simnet.Link{Latency: 20 * time.Millisecond, Jitter: 5 * time.Millisecond, Loss: loss}
	x, y := simnet.Pair(seed, link, link)
	a, _ := volley.NewConn(x, nil)
	b, _ := volley.NewConn(y, nil)
	seen := make(chan int)
	go func() { seen <- collect(b) }()
	s := &sensor{conn: a, open: make(map[uint64][]byte)}
	return s, func() int { b.Close(); return <-seen }
}

// All of 300 readings arrive, whatever a link of 20 % loss each way does, and the
// flush mostly ends soon after the last.
func TestTelemetry(t *testing.T) {
	const seeds = 20
	var flushes time.Duration
	for seed := range uint64(seeds) {
		synctest.Test(t, func(t *testing.T) {
			s, station := start(0.2, seed)
			begin := time.Now()
			require.NoError(t, s.run(300))
			flushes += time.Since(begin) - 3*time.Second
			require.Equal(t, 300, s.acknowledged)
			require.Empty(t, s.open)
			require.Greater(t, s.repeated, 30, "at 20 %% loss")
			require.Equal(t, 300, station())
		})
	}
	require.Less(t, flushes, seeds*2*time.Second)
}

// Where nobody hears, the flush ends, too, and says what is open.
func TestNobodyHears(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, station := start(1, 1)
		begin := time.Now()
		err := s.run(10)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, flushTime, time.Since(begin).Round(time.Second))
		require.Len(t, s.open, 10)
		require.Zero(t, s.acknowledged)
		require.Zero(t, station())
	})
}
