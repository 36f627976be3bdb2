package reliable

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A server writes messages at once while its window is that of the client's predecessor. The client
// has begun a little below that. Some of the messages come after the server's window has begun anew, and
// after the client has sent the packets that they acknowledge. They say nothing of these.
func TestRestartBelowLateAcks(t *testing.T) {
	const first = 10_000
	for seed := range uint64(600) {
		rng := rand.New(rand.NewPCG(seed, 2))
		former, below := 20+rng.IntN(200), 5+rng.IntN(90)
		talks := rng.IntN(2) == 0 // the server writes messages afterwards, too
		n := &laggard{rng: rng, now: someTime, delay: 10 * time.Millisecond}
		s := newRestarter(t, n.now, 500)
		n.ends = [2]*restarter{s, newRestarter(t, n.now, first)}
		for n.ends[1].Endpoint.out.sent() < uint64(former) {
			n.send(0, n.ends[1].message(n.now, 1000, 8))
			n.run(50 * time.Millisecond)
		}
		n.run(time.Second)
		n.now = n.now.Add(20 * time.Second)
		c := newRestarter(t, n.now, uint16(first-below))
		n.ends[1] = c
		n.jitter, n.loss = time.Duration(50+rng.IntN(150))*time.Millisecond, []float64{0, 0.03}[rng.IntN(2)]
		for range 75 {
			n.send(1, s.message(n.now, 1000, 8))
		}
		for i := range uint32(former + below + 50) {
			n.send(0, c.message(n.now, i, 8))
			if talks && i%5 == 0 {
				n.send(1, s.message(n.now, 1000, 8))
			}
			n.run(10 * time.Millisecond)
		}
		n.run(time.Second)
		for i, fate := range c.fates {
			if fate == FateDelivered {
				require.Equal(t, 1, s.got[i], "seed %d: %d packets before, %d below: message %d is Delivered", seed, former, below, i)
			}
		}
	}
}
