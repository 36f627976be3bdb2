package world

import (
	"fmt"
	"math"
	"net/netip"
	"slices"
	"time"

	"volley/simnet"
)

// A fault is something bad that happens to a host, or to the links between it and all others.
type fault struct {
	at, lasts time.Duration
	kind      faultKind
	host      int
	way       way     // of changes of links
	amount    float64 // 0 to 1
	seed      uint64
}

// A way is a direction of links.
type way int

const (
	both way = iota
	fromHost
	toHost
)

var wayNames = [...]string{"both ways", "from it", "to it"}

type faultKind int

const (
	loss      faultKind = iota
	bursts              // losses in bursts
	duplicate           // datagrams come twice
	reorder             // datagrams overtake each other
	corrupt             // bits flip, and no checksum notices
	partition           // nothing passes
	slow                // the latency grows
	narrow              // a link of little bandwidth, with a queue
	mtu                 // large datagrams vanish
	pause               // the process stands still: it reads nothing and sends nothing
	kill                // the process is gone, and comes back on the same port
	rebind              // others see the host at another address
	forge               // a stranger sends nonsense in the name of others
	deaf                // the system refuses reads
	mute                // the system refuses writes
	broken              // the socket is gone, and the process starts again
	small               // the receive buffer of the socket is small
	hoard               // nobody reads the connections, and the peers write much
	lie                 // the host changes what it sends, at random: a hostile peer
	errnos              // the system refuses reads and writes, each with another error of all it has
	drain               // a server of package secure sends its clients to another one, or starts again with them
	faultKinds
)

var faultNames = [faultKinds]string{"loss", "bursts", "duplicate", "reorder", "corrupt", "partition", "slow", "narrow", "mtu", "pause", "kill", "rebind", "forge", "deaf", "mute", "broken", "small", "hoard", "lie", "errors", "drain"}

var faultWeights = []float64{loss: 2, bursts: 1, duplicate: 1, reorder: 1, corrupt: 1, partition: 1.5, slow: 1,
	narrow: 1, mtu: 0.5, pause: 1, kill: 1, rebind: 1, forge: 0.5,
	deaf: 1, mute: 1, broken: 0.3, small: 1, hoard: 2.5, lie: 0.5, errnos: 1, drain: 1}

// describe says what happens, for people.
func (f fault) describe(p *plan) string {
	s := fmt.Sprintf("%v %s %v", f.at, faultNames[f.kind], p.addr(f.host))
	if f.kind < pause {
		s += " " + wayNames[f.way]
	}
	return s + fmt.Sprintf(" by %.3f for %v, seed %d", f.amount, f.lasts, f.seed)
}

// change returns what the fault does to links, or nil.
func (f fault) change() func(*simnet.Link) {
	x := f.amount
	switch f.kind {
	case loss:
		return func(l *simnet.Link) { l.Loss = max(l.Loss, x) }
	case bursts:
		g := simnet.Bursts(x/2, 2+x*30)
		return func(l *simnet.Link) { l.Burst = g }
	case duplicate:
		return func(l *simnet.Link) { l.Duplicate = max(l.Duplicate, x) }
	case reorder:
		by := time.Duration(x * float64(2*time.Second))
		return func(l *simnet.Link) { l.Reorder, l.ReorderBy = max(l.Reorder, x/2), by }
	case corrupt:
		return func(l *simnet.Link) { l.Corrupt = max(l.Corrupt, x/2) }
	case partition:
		return func(l *simnet.Link) { l.Blackout = true }
	case slow:
		by := time.Duration(x * float64(time.Second))
		return func(l *simnet.Link) { l.Latency += by }
	case narrow:
		rate := int64(16000 / x)
		return func(l *simnet.Link) { l.Bandwidth, l.QueueBytes = rate, 8<<10 }
	case mtu:
		size := 100 + int(x*1300)
		return func(l *simnet.Link) { l.MTU = size }
	}
	return nil
}

// steps returns the script of the links that has the fault.
func (f fault) steps(addr netip.Addr) (steps []simnet.Step) {
	set := f.change()
	if set == nil {
		return nil
	}
	if f.way != toHost {
		steps = append(steps, simnet.Step{From: addr, At: f.at, For: f.lasts, Set: set})
	}
	if f.way != fromHost {
		steps = append(steps, simnet.Step{To: addr, At: f.at, For: f.lasts, Set: set})
	}
	return steps
}

// troubled reports whether a fault may disturb what two hosts say to each other in a time.
func (p *plan) troubled(a, b int, from, to time.Duration) bool {
	for _, f := range p.faults {
		if (f.host == a || f.host == b) && f.at <= to && f.at+f.lasts >= from {
			return true
		}
	}
	return false
}

// largest is the size of the largest messages of a hoard.
func (f fault) largest() int {
	if f.seed%3 > 0 {
		return 1000 // so that each arrives that is not lost itself
	}
	return largestSize
}

// clientsOf returns how many clients a server has.
func (p *plan) clientsOf(server int) (n int) {
	for _, c := range p.clients {
		if c.server == server {
			n++
		}
	}
	return n
}

// roomFor returns for how many clients a server has memory for a small message of each at once. Those
// of riptide have no limit for all clients together.
func (p *plan) roomFor(server int) int {
	s := p.servers[server].stack
	if s == riptidePlain || s == riptideSealed {
		return math.MaxInt
	}
	return int(memoryLimit(p.servers[server]) * 3 / 4 / leastChunk)
}

// roomy reports whether a server has memory for a small message of each client at once.
func (p *plan) roomy(server int) bool { return p.clientsOf(server) <= p.roomFor(server) }

// starved reports whether too many clients of a server have no answer. If there is no room for the
// messages of all at once, some write after the others each time, and have none.
func (p *plan) starved(server, missed int) bool {
	n := p.clientsOf(server)
	return missed > n-min(n, p.roomFor(server))/2
}

// leastChunk is what a connection of volley takes for a small message that nobody has read, in bytes.
const leastChunk = 1 << 10

// crammed reports whether by a time all clients of a server have written large messages at once,
// one of which takes more than an equal part of half of MaxMemory. Then connections of porous
// end, as ListenConfig.MaxMemory says.
func (p *plan) crammed(server int, by time.Duration) bool {
	return int64(p.clientsOf(server)*largestSize) > memoryLimit(p.servers[server])/2 && slices.ContainsFunc(p.faults, func(f fault) bool {
		return f.kind == hoard && f.host == server && f.largest() == largestSize && f.at <= by
	})
}

// calmBetween reports whether nothing can be lost or late between two hosts in a time.
func (p *plan) calmBetween(a, b int, from, to time.Duration) bool {
	return p.link.Loss == 0 && p.link.Burst == nil && p.link.Reorder == 0 && p.link.Distribution != "long-tail" && (p.link.Jitter == 0 || p.link.Ordered) && !p.troubled(a, b, from, to)
}

// drained reports whether servers with a stack send clients away in a time.
func (p *plan) drained(s stack, from, to time.Duration) bool {
	return slices.ContainsFunc(p.faults, func(f fault) bool {
		return f.kind == drain && p.servers[f.host].stack == s && f.at <= to && f.at+f.lasts >= from
	})
}

// happens reports whether a host has one of some faults in a time.
func (p *plan) happens(host int, from, to time.Duration, kinds ...faultKind) bool {
	return slices.ContainsFunc(p.faults, func(f fault) bool {
		return f.host == host && slices.Contains(kinds, f.kind) && f.at <= to && f.at+f.lasts >= from
	})
}

// restarted reports whether the process of a host begins again in a time.
func (p *plan) restarted(host int, from, to time.Duration) bool {
	return p.happens(host, from, to, kill, broken, drain)
}

// lies reports whether one of two hosts is a hostile peer at times. Its sessions are good, and
// what it says inside is not.
func (p *plan) lies(a, b int) bool {
	return slices.ContainsFunc(p.faults, func(f fault) bool { return f.kind == lie && (f.host == a || f.host == b) })
}

// forgeable reports whether a host may get bytes that no peer has sent and that look like
// those of one. The plain wire promises nothing then.
func (p *plan) forgeable(a, b int) bool {
	for _, f := range p.faults {
		if (f.host == a || f.host == b) && (f.kind == forge || f.kind == corrupt || f.kind == lie) {
			return true
		}
	}
	return false
}
