package reliable

import (
	"flag"
	"math/rand/v2"
	"slices"
	"sort"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"volley/internal/testenv"
)

var quietFlag = flag.Int("quiet", testenv.Raced(300, 40), "how many `talks` TestQuiet has")

// A laggard is a network between two endpoints where each datagram may take another time.
type laggard struct {
	rng    *rand.Rand
	loss   float64
	delay  time.Duration
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
		q := lagging{n.now.Add(n.delay + time.Duration(n.rng.Int64N(int64(n.jitter)+1))), to, d}
		i := sort.Search(len(n.queue), func(i int) bool { return n.queue[i].at.After(q.at) })
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
			end.Update(n.now)
			if wait, due := end.ControlDue(n.now); due && wait == 0 {
				end.SendControl(n.now, &end.out)
				n.send(1-i, end.taken())
			}
		}
	}
}

// On a network that loses nothing and keeps the order, no message that was read is called Lost, none is
// read twice, and each has a fate: whatever the two sides write and refuse, and whenever they compact.
// Messages that were written before anything was heard may be called Lost, because their address may
// be forged.
func TestQuiet(t *testing.T) {
	for seed := range uint64(*quietFlag) {
		rng := rand.New(rand.NewPCG(seed, 1))
		n := &laggard{rng: rng, now: someTime, delay: time.Duration(1+rng.IntN(80)) * time.Millisecond}
		for i := range n.ends {
			n.ends[i] = newRestarter(t, n.now, randomStart(rng))
		}
		var judged [2][]bool // by message: its writer had heard something
		write := func(i int) {
			e := n.ends[i]
			size := rng.IntN([]int{900, 900, 900, 3000, 15_000}[rng.IntN(5)])
			n.send(1-i, e.message(n.now, uint32(len(judged[i])), max(4, size)))
			judged[i] = append(judged[i], e.in.newsAt != never)
		}
		limit := func(i int) {
			room, left, taking := rng.IntN(30_000), 0, false
			if rng.IntN(2) == 0 {
				n.ends[i].room = func(size int) bool { // until it is full
					taken := size <= room
					if taken {
						room -= size
					}
					return taken
				}
				return
			}
			n.ends[i].room = func(int) bool { // some are taken, and then some refused
				if left == 0 {
					left, taking = 1+rng.IntN(80), !taking
				}
				left--
				return taking
			}
		}
		for range 3 + rng.IntN(8) {
			i := rng.IntN(2)
			switch rng.IntN(8) {
			case 0:
				n.run(time.Duration(rng.IntN(8000)) * time.Millisecond)
			case 1:
				n.run(time.Duration(rng.IntN(400)) * time.Millisecond)
			case 2:
				n.ends[i].Compact(n.now)
			case 3:
				limit(i)
			case 4:
				n.ends[i].room = nil
			case 5:
				many := 1 + rng.IntN(200)
				for k := range many {
					write(i)
					if rng.IntN(40) == 0 {
						n.run(n.delay) // what was written arrives
						limit(1 - i)
					}
					if k == many/2 && rng.IntN(3) == 0 {
						n.ends[i].Compact(n.now)
					}
				}
				limit(1 - i)
			case 6:
				for range 1 + rng.IntN(100) {
					write(i)
					if rng.IntN(4) == 0 {
						write(1 - i)
					}
					if rng.IntN(10) == 0 {
						limit(rng.IntN(2))
					}
					n.run(time.Duration(rng.IntN(4)) * time.Millisecond)
				}
			case 7:
				for range 1 + rng.IntN(6) {
					write(i)
					n.run(time.Duration(rng.IntN(300)) * time.Millisecond)
				}
			}
		}
		n.run(15 * time.Second)
		for i, e := range n.ends {
			for number, judge := range judged[i] {
				fate, decided := e.fates[uint32(number)]
				read := n.ends[1-i].got[uint32(number)]
				require.True(t, decided, "seed %d: message %d of side %d has no fate", seed, number, i)
				require.LessOrEqual(t, read, 1, "seed %d: message %d of side %d", seed, number, i)
				require.False(t, fate == FateDelivered && read == 0, "seed %d: message %d of side %d is Delivered", seed, number, i)
				require.False(t, fate == FateLost && read == 1 && judge, "seed %d: message %d of side %d is Lost", seed, number, i)
			}
		}
	}
}
