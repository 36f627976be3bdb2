package simnet

import (
	"net/netip"
	"time"
)

// A linkKey names a link between two hosts (both ports are 0) or two sockets,
// and a flow.
type linkKey struct{ from, to netip.AddrPort }

func hostKey(from, to netip.Addr) linkKey {
	return linkKey{netip.AddrPortFrom(from.Unmap(), 0), netip.AddrPortFrom(to.Unmap(), 0)}
}

// hosts returns the key of the link between the hosts of k.
func (k linkKey) hosts() linkKey { return hostKey(k.from.Addr(), k.to.Addr()) }

// A link is one direction between two hosts or sockets. Its queue is shared by
// all flows that use it.
type link struct {
	set  bool          // its own description; otherwise that of the default
	base Link          // as set
	busy time.Duration // when the link has transmitted all it has accepted
}

// A flow is all that goes from one address to another: it has a generator
// of its own.
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
	n.setLink(hostKey(from, to), l)
}

// SetSocketLink describes a link from one socket to another, which takes the
// place of that between their hosts.
func (n *Network) SetSocketLink(from, to netip.AddrPort, l Link) {
	n.setLink(linkKey{canonical(from), canonical(to)}, l)
}

func (n *Network) setLink(k linkKey, l Link) {
	n.mu.Lock()
	defer n.mu.Unlock()
	lk := n.links[k]
	if lk == nil {
		lk = new(link)
		n.links[k] = lk
	}
	lk.set, lk.base = true, l
	n.version++
}

// flow returns the flow between two addresses, with its link up to date.
func (n *Network) flow(from, to netip.AddrPort) *flow {
	k := linkKey{from, to}
	f := n.flows[k]
	if f == nil {
		f = &flow{from: from, to: to, key: flowKey(n.seed, from, to), version: n.version - 1, stats: new(Stats)}
		n.flows[k] = f
	}
	if f.version != n.version {
		n.route(f, k)
	}
	return f
}

// forget forgets the flows between two addresses that are not to be used again. What
// they have counted, and what is still under way counts, stays in the figures of
// their hosts.
func (n *Network) forget(a, b netip.AddrPort) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, k := range [...]linkKey{{a, b}, {b, a}} {
		f := n.flows[k]
		if f == nil {
			continue
		}
		delete(n.flows, k)
		sum := n.past[k.hosts()]
		if sum == nil {
			sum = new(Stats)
			n.past[k.hosts()] = sum
		}
		sum.Add(*f.stats)
		f.stats = sum
	}
}

// route looks up the link of a flow and applies the active steps of scripts.
func (n *Network) route(f *flow, k linkKey) {
	l := n.links[k]
	if l == nil {
		k = k.hosts()
		l = n.links[k]
	}
	if l == nil {
		l = new(link)
		n.links[k] = l
	}
	f.link, f.desc, f.version = l, n.describe(l, k.hosts()), n.version
}

// describe returns the present description of a link, which may be nil, between
// two hosts.
func (n *Network) describe(l *link, hosts linkKey) Link {
	desc := n.defLink
	if l != nil && l.set {
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
	return n.describe(n.links[k], k)
}

// Stats returns the counters of the whole network.
func (n *Network) Stats() Stats {
	return n.sum(func(linkKey) bool { return true })
}

// LinkStats returns the counters of all that goes from one host to another.
func (n *Network) LinkStats(from, to netip.Addr) Stats {
	want := hostKey(from, to)
	return n.sum(func(k linkKey) bool { return k.hosts() == want })
}

// SocketStats returns the counters of all that goes from one address to
// another.
func (n *Network) SocketStats(from, to netip.AddrPort) Stats {
	want := linkKey{canonical(from), canonical(to)}
	return n.sum(func(k linkKey) bool { return k == want })
}

func (n *Network) sum(include func(linkKey) bool) Stats {
	n.mu.Lock()
	defer n.mu.Unlock()
	var s Stats
	for k, f := range n.flows {
		if include(k) {
			s.Add(*f.stats)
		}
	}
	for k, past := range n.past {
		if include(k) {
			s.Add(*past)
		}
	}
	return s
}
