package reliable

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A laggard is a network between two endpoints where each datagram takes another time.
type laggard struct {
	rng    *rand.Rand
	loss   float64
	jitter time.Duration
	ends   [2]*restarter
	now    time.Time
	queue  []lagging
}

type lagging struct {
	at   time.Time
	to   int
	data []byte
}

// send has datagrams leave for an end.
func (n *laggard) send(to int, datagrams [][]byte) {
	for _, d := range datagrams {
		if n.rng.Float64() < n.loss {
			continue
		}
		q := lagging{n.now.Add(10*time.Millisecond + time.Duration(n.rng.Int64N(int64(n.jitter)+1))), to, d}
		i, _ := slices.BinarySearchFunc(n.queue, q, func(a, b lagging) int { return a.at.Compare(b.at) })
		n.queue = slices.Insert(n.queue, i, q)
	}
}

// run lets time pass.
func (n *laggard) run(d time.Duration) {
	for end := n.now.Add(d); n.now.Before(end); n.now = n.now.Add(time.Millisecond) {
		for len(n.queue) > 0 && !n.queue[0].at.After(n.now) {
			q := n.queue[0]
			n.queue = n.queue[1:]
			n.send(1-q.to, n.ends[q.to].take(n.now, [][]byte{q.data}))
		}
		for i, end := range n.ends {
			if wait, due := end.ControlDue(n.now); due && wait == 0 {
				end.SendControl(n.now, &end.out)
				n.send(1-i, end.taken())
			}
		}
	}
}

// A server writes messages at once while its window is that of the client's predecessor. The client
// has begun a little below that. Some of the messages come after the server's window has begun anew, and
// after the client has sent the packets that they acknowledge. They say nothing of these.
func TestRestartBelowLateAcks(t *testing.T) {
	const first = 10_000
	for seed := range uint64(6) {
		for _, former := range []int{28, 60, 200} {
			for _, below := range []int{10, 40, 66, 90} {
				for _, jitter := range []time.Duration{50 * time.Millisecond, 200 * time.Millisecond} {
					for _, loss := range []float64{0, 0.03} {
						for _, talks := range []bool{false, true} { // the server writes messages afterwards
							n := &laggard{rng: rand.New(rand.NewPCG(seed, uint64(former+below))), now: someTime}
							s := newRestarter(t, n.now, 500)
							n.ends = [2]*restarter{s, newRestarter(t, n.now, first)}
							for n.ends[1].Endpoint.out.sent() < uint64(former) {
								n.send(0, n.ends[1].message(n.now, 1000, 8))
								n.run(50 * time.Millisecond)
							}
							n.run(time.Second)
							n.now = n.now.Add(20 * time.Second)
							c := newRestarter(t, n.now, uint16(first-below))
							n.ends[1], n.jitter, n.loss = c, jitter, loss
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
									require.Equal(t, 1, s.got[i], "seed %d, %d packets before, %d below, jitter %v, loss %v, talks %v: message %d",
										seed, former, below, jitter, loss, talks, i)
								}
							}
						}
					}
				}
			}
		}
	}
}
