package simnet

import (
	"net/netip"
	"time"
)

// A linkKey names a flow, or a link between two hosts if both ports are 0.
type linkKey struct{ from, to netip.AddrPort }

func hostKey(from, to netip.Addr) linkKey {
	return linkKey{netip.AddrPortFrom(from.Unmap(), 0), netip.AddrPortFrom(to.Unmap(), 0)}
}

// hosts returns the key of the link between the hosts of k.
func (k linkKey) hosts() linkKey { return hostKey(k.from.Addr(), k.to.Addr()) }

// A link is one direction between two hosts. Its flows share its queue.
type link struct {
	set  bool          // its own description; otherwise that of the default
	base Link          // as set
	busy time.Duration // when the link has transmitted all it has accepted
}

// A flow is all that goes from one address to another: it has a generator of its own.
type flow struct {
	from, to netip.AddrPort
	key      uint64 // of the generator
	index    uint64 // of the next datagram
	bad      bool   // state of the burst model
	version  uint64 // of the network, when link and desc were looked up
	link     *link
	desc     Link          // with the steps of scripts applied
	lastAt   time.Duration // latest arrival of a datagram not held back
	newest   uint64        // index after the newest one that has arrived
	stats    *Stats        // its own, or those of all flows between the hosts that are forgotten
}

// SetDefault describes all links that have no description of their own. Each
// pair of hosts has a link of its own, with its own queue, in each direction.
func (n *Network) SetDefault(l Link) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.defLink = l
	n.version++
}

// SetLink describes the link from one host to another. The opposite direction
// is another link. It applies to what is sent from now on.
func (n *Network) SetLink(from, to netip.Addr, l Link) {
	n.mu.Lock()
	defer n.mu.Unlock()
	lk := n.link(hostKey(from, to))
	lk.set, lk.base = true, l
	n.version++
}

// link returns the link between two hosts.
func (n *Network) link(hosts linkKey) *link {
	l := n.links[hosts]
	if l == nil {
		l = new(link)
		n.links[hosts] = l
	}
	return l
}

// flow returns the flow between two addresses, with its link up to date.
func (n *Network) flow(from, to netip.AddrPort) *flow {
	k := linkKey{from, to}
	f := n.flows[k]
	if f == nil {
		f = &flow{from: from, to: to, key: flowKey(n.seed, from, to), version: n.version - 1, stats: new(Stats)}
		if past := n.past[k.hosts()]; past != nil {
			f.index = past.Sent // or a forgotten flow would come again with the same random numbers
		}
		n.flows[k] = f
		n.note(k)
	}
	if f.version != n.version {
		hosts := k.hosts()
		f.link = n.link(hosts)
		f.desc, f.version = n.describe(f.link, hosts), n.version
	}
	return f
}

// forget forgets the flows between two addresses that are not used again.
func (n *Network) forget(a, b netip.AddrPort) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.forgetFlow(linkKey{a, b})
	n.forgetFlow(linkKey{b, a})
}

// forgetFlow forgets a flow. Its counts stay in the sums.
func (n *Network) forgetFlow(k linkKey) {
	f := n.flows[k]
	if f == nil {
		return
	}
	delete(n.flows, k)
	for _, a := range [...]netip.Addr{k.from.Addr(), k.to.Addr()} {
		if t := n.nats[a]; t != nil {
			delete(t.flows, k)
		}
	}
	sum := n.past[k.hosts()]
	if sum == nil {
		sum = new(Stats)
		n.past[k.hosts()] = sum
	}
	sum.add(f.stats)
	f.stats = sum
}

// describe returns the present description of a link.
func (n *Network) describe(l *link, hosts linkKey) Link {
	desc := n.defLink
	if l.set {
		desc = l.base
	}
	for _, s := range n.steps {
		if s.concerns(hosts) {
			s.set(&desc)
		}
	}
	return desc
}

// Link returns the present description of the link from one host to another,
// with the steps of scripts that are in force.
func (n *Network) Link(from, to netip.Addr) Link {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.deliverDue(n.now())
	k := hostKey(from, to)
	return n.describe(n.link(k), k)
}

// Stats returns the counters of the whole network.
func (n *Network) Stats() Stats {
	return n.sum(func(linkKey) bool { return true })
}

// LinkStats returns the counters of the link from one host to another.
func (n *Network) LinkStats(from, to netip.Addr) Stats {
	want := hostKey(from, to)
	return n.sum(func(k linkKey) bool { return k.hosts() == want })
}

func (n *Network) sum(include func(linkKey) bool) Stats {
	n.mu.Lock()
	defer n.mu.Unlock()
	var s Stats
	for k, f := range n.flows {
		if include(k) {
			s.add(f.stats)
		}
	}
	for k, past := range n.past {
		if include(k) {
			s.add(past)
		}
	}
	return s
}
