package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"volley/riptide"
)

// swarmRate is how many positions a bot sends a second.
const swarmRate = 30

// swarm lets bots walk in circles, for a time or until ctx is done, and prints
// what they have seen.
func swarm(ctx context.Context, network, address string, bots int, duration time.Duration, out io.Writer) error {
	var seen atomic.Uint64
	clients := make([]*riptide.Client, bots)
	for i := range clients {
		c := new(riptide.Client)
		c.Handle(idPosition, func(_ *riptide.Client, m *riptide.Message) error {
			riptide.Read[uint16](m)
			var at riptide.Vector3
			m.ReadValue(&at)
			seen.Add(1)
			return m.Err()
		})
		if err := connect(ctx, c, network, address, fmt.Sprint("bot ", i+1)); err != nil {
			return fmt.Errorf("bot %d: %w", i+1, err)
		}
		defer c.Close()
		clients[i] = c
	}
	if duration > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, duration)
		defer cancel()
	}
	var walks sync.WaitGroup
	for i, c := range clients {
		walks.Go(func() { walk(ctx, c, float64(i)) })
	}
	walks.Wait()
	var sent, resends uint64
	for _, c := range clients {
		st := c.Stats()
		sent += st.MessagesSent[riptide.Unreliable]
		resends += st.MessagesResent
		if err := c.Err(); err != nil {
			return err
		}
	}
	fmt.Fprintf(out, "%d bots sent %d positions and saw %d, %d reliable messages were sent again\n", bots, sent, seen.Load(), resends)
	return nil
}

// walk sends the positions of one bot.
func walk(ctx context.Context, c *riptide.Client, phase float64) {
	tick := time.NewTicker(time.Second / swarmRate)
	defer tick.Stop()
	m := riptide.NewMessage(riptide.Unreliable, idPosition)
	for step := 0.0; ; step++ {
		select {
		case <-tick.C:
		case <-c.Done():
			return
		case <-ctx.Done():
			return
		}
		angle := phase + step/swarmRate
		m.Reset(riptide.Unreliable, idPosition)
		m.AddValue(riptide.Vector3{X: float32(10 * math.Cos(angle)), Z: float32(10 * math.Sin(angle))})
		if c.Send(m) != nil {
			return
		}
	}
}
