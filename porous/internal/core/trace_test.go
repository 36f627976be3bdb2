package core

import (
	"encoding/binary"
	"fmt"
	"testing"
	"time"
)

// A stage is two peers on a link in virtual time, all of whose doings are on a
// tape.
type stage struct {
	*sim
	counter int // of payloads
}

// play returns a scene with its own configuration of both peers.
func (r *notebook) play(seed uint64, a, b *Config, link simLink) *stage {
	st := &stage{sim: newSim(seed, a, b, link)}
	st.notes = r
	for _, n := range []*simNode{st.a, st.b} {
		n.silent = true
		n.onPacket = n.read
		n.unread = make(map[int]int)
	}
	return st
}

// read takes a packet as an application does that keeps up, unless the channel is
// one of those that nobody reads.
func (n *simNode) read(channel int, b []byte) {
	if _, ok := n.unread[channel]; ok {
		n.unread[channel] += len(b) + 4
	}
}

// begin runs the handshake, and ends a phase.
func (st *stage) begin() {
	st.a.step()
	st.b.step()
	st.phase("handshake", 2*time.Second)
}

// phase lets a duration pass, and ends a phase of it.
func (st *stage) phase(name string, d time.Duration) {
	st.run(d)
	st.notes.phase(name, st.now, &st.a.p, &st.b.p)
}

// payload returns n bytes that no other packet has.
func (st *stage) payload(n int) []byte {
	b := make([]byte, n+8)
	st.counter++
	for i := 0; i < n; i += 8 {
		binary.BigEndian.PutUint64(b[i:], uint64(st.counter)<<32+uint64(i))
	}
	return b[:n]
}

// send sends a packet, and notes whether it was taken.
func (st *stage) send(n *simNode, channel, size int, mode Mode, expires Clock) bool {
	number, ok := n.p.Send(st.now, channel, st.payload(size), mode, expires)
	st.notes.note(n.name[0], nil, 5, int64(number), truth(ok))
	return ok
}

// every calls f at an interval for a duration, with the number of the call.
func (st *stage) every(interval, d time.Duration, f func(i int)) {
	end := st.now + d
	var next func(i int)
	next = func(i int) {
		f(i)
		if at := st.now + interval; at < end {
			st.at(at, func() { next(i + 1) })
		}
	}
	st.at(st.now, func() { next(0) })
}

// stream sends packets of these sizes in turn, one an interval.
func (st *stage) stream(n *simNode, channel int, mode Mode, interval, d time.Duration, sizes ...int) {
	st.every(interval, d, func(i int) {
		st.send(n, channel, sizes[i%len(sizes)], mode, 0)
		n.transmit()
	})
}

// bulk sends packets of a size as long as there is room, every ten milliseconds.
func (st *stage) bulk(n *simNode, channel int, mode Mode, d time.Duration, size int) {
	st.every(10*time.Millisecond, d, func(int) {
		for n.p.Room(channel, size) && st.send(n, channel, size, mode, 0) {
		}
		n.transmit()
	})
}

// traceConfig returns a configuration whose windows and buffers are so small that
// scenes come to their ends.
func traceConfig(version uint8, change func(c *Config)) *Config {
	c := DefaultConfig(version)
	c.Channels = 4
	c.SendBuffer, c.ReceiveBuffer = 512<<10, 512<<10
	if change != nil {
		change(&c)
	}
	return &c
}

// narrow are windows of a few frames and packets.
func narrow(c *Config) {
	c.SendFrames, c.ReceiveFrames, c.SentinelFrames = 64, 128, 16
	c.Packets, c.SendGroup, c.ReceiveGroup = 64, 8, 16
}

var traceLink = simLink{delay: 25 * time.Millisecond, rate: 250_000, queue: 16_000}

// lossy returns the link of the traces with some loss in both directions, jitter
// (which reorders) and duplicates.
func lossy(loss float64, jitter time.Duration) simLink {
	l := traceLink
	l.loss, l.jitter, l.dup = loss, jitter, loss/4
	return l
}

// TestRecordedPeers compares all that is seen of two peers with a recording: every
// controller, redundancy, thin streams and bulk, loss, reordering, blackouts.
func TestRecordedPeers(t *testing.T) {
	f := openTrace(t, "peers")
	for _, kind := range []ControllerKind{Cubic, Paper, Tolerant} {
		for i, loss := range []float64{0, 0.02, 0.2} {
			for _, redundancy := range []bool{false, true} {
				seed := uint64(100*int(kind) + 10*i + int(truth(redundancy)))
				f.scene(t, fmt.Sprintf("game, controller %d, loss %v, redundancy %v", kind, loss, redundancy), func(r *notebook) {
					c := traceConfig(uint8(i%2), func(c *Config) { c.Controller, c.Redundancy = kind, redundancy })
					sceneGame(r.play(seed, c, c, lossy(loss, time.Duration(i)*3*time.Millisecond)))
				})
			}
			f.scene(t, fmt.Sprintf("bulk, controller %d, loss %v", kind, loss), func(r *notebook) {
				c := traceConfig(uint8(i%2), func(c *Config) { c.Controller = kind })
				sceneBulk(r.play(uint64(100*int(kind)+50+i), c, c, lossy(loss, time.Duration(i)*5*time.Millisecond)))
			})
		}
		f.scene(t, fmt.Sprintf("blackouts, controller %d", kind), func(r *notebook) {
			c := traceConfig(0, func(c *Config) { c.Controller, c.Redundancy = kind, kind != Paper })
			sceneBlackouts(r.play(uint64(kind), c, c, lossy(0.01, 0)))
		})
		f.scene(t, fmt.Sprintf("routes, controller %d", kind), func(r *notebook) {
			c := traceConfig(1, func(c *Config) { c.Controller = kind })
			sceneRoutes(r.play(uint64(kind), c, c, lossy(0.002, 0)))
		})
	}
	f.scene(t, "the paper", func(r *notebook) {
		c := traceConfig(0, func(c *Config) {
			c.Controller, c.TimeoutOnly, c.PaperRTT, c.Step, c.RTOFloor, c.AckRepeats = Paper, true, true, 5*time.Millisecond, 0, 0
		})
		st := r.play(7, c, c, lossy(0.03, 2*time.Millisecond))
		sceneGame(st)
		sceneBulkPhases(st)
	})
}

// sceneGame is messages of both sides at the rate of a game, and now and then a
// larger one.
func sceneGame(st *stage) {
	st.begin()
	st.stream(st.a, 0, Reliable, time.Second/60, 2*time.Second, 40, 200, 0, 400, 401, 100)
	st.stream(st.b, 1, Unreliable, time.Second/30, 2*time.Second, 150, 3000)
	st.phase("stream", time.Second)
	st.stream(st.a, 2, Passive, time.Second/20, time.Second, 60, 2000, 5000)
	st.phase("two streams", time.Second)
	st.stream(st.a, 1, Reliable, 3*time.Millisecond, 500*time.Millisecond, 20)
	st.phase("many", time.Second)
	st.a.p.Compact()
	st.b.p.Compact()
	st.phase("silence", 7*time.Second)
	st.stream(st.a, 0, Reliable, 300*time.Millisecond, 2*time.Second, 10)
	st.phase("seldom", 3*time.Second)
}

// sceneBulk fills the link, alone and beside a stream.
func sceneBulk(st *stage) {
	st.begin()
	sceneBulkPhases(st)
}

func sceneBulkPhases(st *stage) {
	st.bulk(st.a, 0, Reliable, 4*time.Second, 16<<10)
	st.phase("start", 500*time.Millisecond)
	st.phase("bulk", 1500*time.Millisecond)
	st.stream(st.a, 1, Reliable, 20*time.Millisecond, 2*time.Second, 100)
	st.stream(st.b, 1, Reliable, 20*time.Millisecond, 2*time.Second, 100)
	st.phase("beside a stream", 2*time.Second)
	st.phase("rest", 2*time.Second)
}

// sceneBlackouts cuts the link, one way and both ways, for up to several seconds.
func sceneBlackouts(st *stage) {
	st.begin()
	dark := func(ways int, d time.Duration) {
		end := st.now + d
		cut := func(now Clock) bool { return now < end }
		if ways&1 != 0 {
			st.a.link.dark = cut
		}
		if ways&2 != 0 {
			st.b.link.dark = cut
		}
	}
	for _, d := range []time.Duration{100 * time.Millisecond, 600 * time.Millisecond, 3 * time.Second} {
		for ways := 1; ways <= 3; ways++ {
			st.stream(st.a, 0, Reliable, 20*time.Millisecond, 500*time.Millisecond+d, 300)
			st.run(300 * time.Millisecond)
			dark(ways, d)
			st.phase(fmt.Sprintf("stream, %v, %d", d, ways), d+time.Second)
		}
	}
	st.bulk(st.a, 0, Reliable, 6*time.Second, 4000)
	st.run(time.Second)
	dark(3, 700*time.Millisecond)
	st.phase("bulk, both ways", 2*time.Second)
	dark(2, 2*time.Second)
	st.phase("bulk, no acknowledgements", 4*time.Second)
	dark(3, time.Hour)
	st.stream(st.a, 0, Reliable, 20*time.Millisecond, 500*time.Millisecond, 300)
	st.phase("gone", 30*time.Second)
	st.phase("over", 30*time.Second)
}

// sceneRoutes changes the delay and the rate of the path under way.
func sceneRoutes(st *stage) {
	st.begin()
	st.bulk(st.a, 0, Reliable, 24*time.Second, 8000)
	for i, l := range []simLink{
		{delay: 5 * time.Millisecond, rate: 100_000, queue: 10_000},
		{delay: 100 * time.Millisecond, rate: 100_000, queue: 20_000},
		{delay: 30 * time.Millisecond, rate: 200_000, queue: 20_000, jitter: 40 * time.Millisecond},
		{delay: 30 * time.Millisecond, rate: 20_000, queue: 40_000},
		{delay: 10 * time.Millisecond, rate: 60_000, queue: 5000, loss: 0.02},
		{delay: time.Millisecond, rate: 150_000, queue: 3000},
	} {
		st.a.link, st.b.link = l, l
		st.phase(fmt.Sprint("route ", i+1), 4*time.Second)
	}
	st.phase("rest", 3*time.Second)
}
