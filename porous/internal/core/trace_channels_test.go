package core

import (
	"fmt"
	"testing"
	"time"
)

// TestRecordedChannels compares peers with a recording where channels matter:
// priorities, modes, windows that wrap, packets whose time is over, channels that
// nobody reads, and memory that is refused.
func TestRecordedChannels(t *testing.T) {
	f := openTrace(t, "channels")
	for _, share := range []int{0, 20, 60} {
		f.scene(t, fmt.Sprint("priorities, share ", share), func(r *notebook) {
			c := traceConfig(0, func(c *Config) { c.LowShare = share })
			scenePriorities(r.play(uint64(share), c, c, lossy(0.01, 0)))
		})
	}
	for i, loss := range []float64{0, 0.02, 0.2} {
		f.scene(t, fmt.Sprint("modes in narrow windows, loss ", loss), func(r *notebook) {
			c := traceConfig(1, narrow)
			st := r.play(uint64(10+i), c, c, lossy(loss, 4*time.Millisecond))
			st.wrap()
			sceneModes(st, 5*time.Millisecond)
		})
		f.scene(t, fmt.Sprint("expiry, loss ", loss), func(r *notebook) {
			c := traceConfig(0, func(c *Config) { narrow(c); c.SendBandwidth = 60_000 })
			st := r.play(uint64(20+i), c, c, lossy(loss, 0))
			sceneModes(st, 100*time.Millisecond)
		})
		f.scene(t, fmt.Sprint("nobody reads, loss ", loss), func(r *notebook) {
			c := traceConfig(0, func(c *Config) { c.MaxPacket, c.ReceiveBuffer = 8000, 100_000 })
			sceneUnread(r.play(uint64(30+i), c, c, lossy(loss, 0)))
		})
		f.scene(t, fmt.Sprint("memory, loss ", loss), func(r *notebook) {
			budget, used := 40_000, 0
			c := traceConfig(0, func(c *Config) {
				c.MaxPacket = 8000
				c.Reserve = func(delta, _ int) bool {
					ok := used+delta <= budget
					if ok {
						used += delta
					}
					r.note('m', nil, int64(delta), truth(ok))
					return ok
				}
			})
			sceneMemory(r.play(uint64(40+i), c, c, lossy(loss, 3*time.Millisecond)), &budget)
		})
	}
	f.scene(t, "one channel that waits", func(r *notebook) {
		c := traceConfig(0, func(c *Config) { c.Channels, c.MaxPacket, c.ReceiveBuffer = 1, 20_000, 40_000; narrow(c) })
		sceneFull(r.play(50, c, c, lossy(0.05, 10*time.Millisecond)))
	})
}

// wrap lets all ids be close to their ends.
func (st *stage) wrap() {
	for i, n := range []*simNode{st.a, st.b} {
		n.p.Init(st.now, n.p.cfg, ^uint32(199+i), n)
		for c := range n.p.cfg.Channels {
			s, r := n.p.send.channel(c), n.p.recv.channel(c)
			s.base = packetIDs - 100
			s.next, r.base = s.base, s.base
		}
	}
}

// scenePriorities has all channels send more than the link takes, and changes
// their priorities.
func scenePriorities(st *stage) {
	st.a.p.SetPriority(1, true)
	st.begin()
	for ch := range 4 {
		st.bulk(st.a, ch, []Mode{Reliable, Reliable, Unreliable, Passive}[ch], 4*time.Second, 500+1700*ch)
	}
	st.phase("one high", time.Second)
	st.a.p.SetPriority(3, true)
	st.phase("two high", time.Second)
	st.a.p.SetPriority(1, false)
	st.a.p.SetPriority(0, true)
	st.phase("others", time.Second)
	for ch := range 4 {
		st.a.p.SetPriority(ch, false)
	}
	st.phase("none", time.Second)
	st.a.p.SetPriority(2, true)
	st.phase("rest", 2*time.Second)
}

// sceneModes mixes modes and sizes over channels, and has packets expire after a
// time and its multiples.
func sceneModes(st *stage, life time.Duration) {
	st.begin()
	mixed := func(n *simNode, interval, d time.Duration) {
		st.every(interval, d, func(i int) {
			var expires Clock
			if k := i % 5; k > 0 {
				expires = st.now + time.Duration(k)*life
			}
			size := []int{0, 30, 300, 1180, 1181, 1452, 1453, 4000}[st.rand.IntN(8)]
			st.send(n, st.rand.IntN(4), size, Mode(st.rand.IntN(3)), expires)
			if i%3 == 0 {
				n.transmit()
			}
		})
	}
	mixed(st.a, 10*time.Millisecond, 4*time.Second)
	st.phase("one way", 2*time.Second)
	mixed(st.b, 4*time.Millisecond, 2*time.Second)
	st.phase("both", 2*time.Second)
	for i, mode := range []Mode{Unreliable, Passive, Reliable} {
		st.stream(st.a, i, mode, time.Millisecond, 400*time.Millisecond, 20, 60)
		st.phase(fmt.Sprint("mode ", mode), time.Second)
	}
	st.every(time.Millisecond, 300*time.Millisecond, func(i int) {
		st.send(st.a, 3, 40, Mode(1+i%2), st.now+life)
	})
	st.phase("late", time.Second)
	st.stream(st.a, 3, Reliable, 20*time.Millisecond, time.Second, 100)
	st.phase("rest", 4*time.Second)
}

// sceneUnread fills channels that nobody reads for a while, beside one that is
// read.
func sceneUnread(st *stage) {
	st.begin()
	st.b.unread[1] = 0
	st.stream(st.a, 0, Reliable, 20*time.Millisecond, 20*time.Second, 200)
	st.bulk(st.a, 1, Reliable, 10*time.Second, 3000)
	st.phase("one unread", 2*time.Second)
	st.b.unread[2] = 0
	st.stream(st.a, 2, Reliable, 10*time.Millisecond, 8*time.Second, 700)
	st.bulk(st.a, 3, Unreliable, 2*time.Second, 5000)
	st.phase("two unread", 6*time.Second)
	st.b.unread[1] = 0
	delete(st.b.unread, 1)
	st.phase("one read", 3*time.Second)
	delete(st.b.unread, 2)
	st.phase("all read", 5*time.Second)
	st.b.unread[0] = 0
	st.bulk(st.a, 0, Reliable, 3*time.Second, 1000)
	st.phase("the stream unread", 5*time.Second)
	delete(st.b.unread, 0)
	st.phase("rest", 5*time.Second)
}

// sceneMemory refuses memory, and grants it again.
func sceneMemory(st *stage, budget *int) {
	st.begin()
	st.b.unread[1] = 0
	st.bulk(st.a, 0, Reliable, 3*time.Second, 8000)
	st.bulk(st.a, 1, Reliable, 3*time.Second, 2000)
	st.bulk(st.b, 2, Unreliable, 3*time.Second, 6000)
	st.phase("little", time.Second)
	*budget = 0
	st.phase("none", time.Second)
	*budget = 200_000
	st.phase("enough", time.Second)
	delete(st.b.unread, 1)
	st.phase("read", 2*time.Second)
	*budget = 30_000
	st.stream(st.a, 3, Passive, 5*time.Millisecond, 2*time.Second, 5000, 30)
	st.phase("a stream", 3*time.Second)
	st.b.p.Compact()
	st.a.p.Compact()
	st.phase("compact", 10*time.Second)
	st.a.p.Disconnect(st.now, true)
	st.a.step()
	st.phase("over", 50*time.Second)
}

// sceneFull is packets of many fragments in a buffer with room for two, many of
// which are never complete.
func sceneFull(st *stage) {
	st.begin()
	st.bulk(st.a, 0, Unreliable, 3*time.Second, 12_000)
	st.phase("unreliable", 3*time.Second)
	st.stream(st.a, 0, Reliable, 30*time.Millisecond, 8*time.Second, 10, 9000)
	st.phase("reliable", 4*time.Second)
	st.bulk(st.a, 0, Unreliable, 3*time.Second, 20_000)
	st.phase("both", 12*time.Second)
	st.bulk(st.a, 0, Passive, 2*time.Second, 20_000)
	st.phase("passive", 12*time.Second)
	st.bulk(st.a, 0, Reliable, 2*time.Second, 20_000)
	st.phase("rest", 12*time.Second)
}
