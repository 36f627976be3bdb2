package simnet

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"
)

// firstNATPort is the first of the ports that a NAT maps to.
const firstNATPort = 1024

// A NAT is a router that hides the hosts inside it behind one public address.
// Network.AddNAT creates it. Its methods may be called by several goroutines at once.
type NAT struct {
	net    *Network
	public netip.Addr
	inside netip.Prefix
	idle   time.Duration // 0: mappings never expire

	// These are guarded by net.mu.
	rebinds uint64
	mapped  map[uint16]*endpoint // by public port
	flows   map[linkKey]struct{} // from and to the public address
}

// A mapping is what a NAT knows of an endpoint inside.
type mapping struct {
	nat    *NAT                    // nil: the endpoint is not behind a NAT
	port   uint16                  // of the public address; 0: there is no mapping
	old    uint16                  // the port before it
	number uint64                  // of mappings so far
	used   time.Duration           // when the last datagram passed
	peers  map[netip.Addr]struct{} // hosts that the endpoint has sent to
}

// AddNAT puts a NAT in front of all hosts with an address inside, before they
// open sockets. Other hosts see their datagrams come from the public address, at a
// port that the NAT picks for each socket. The port is the same for all destinations
// (endpoint-independent mapping). A datagram to it passes if the socket has
// sent to the host that the datagram comes from, whatever the port there
// (address-restricted filtering). All others are dropped and counted in
// Stats.Unreachable, and so are datagrams from inside to the public address: a NAT
// has no hairpin.
//
// A mapping ends with its socket, by Rebind, or after an idle time in which no
// datagram passes either way. With an idle time of zero or less it does not expire.
//
// The NAT's link to an outside host is that from the public address, and is shared by
// all hosts inside. Between each other the hosts inside have links of their own. No
// socket can be opened at the public address. The error says if the addresses don't
// fit: they are of one family, sockets have none of them yet, and NATs do not nest.
func (n *Network) AddNAT(public netip.Addr, inside netip.Prefix, idle time.Duration) (*NAT, error) {
	t := &NAT{
		net:    n,
		public: public.Unmap(),
		inside: inside.Masked(),
		idle:   max(0, idle),
		mapped: make(map[uint16]*endpoint),
		flows:  make(map[linkKey]struct{}),
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return nil, net.ErrClosed
	}
	if err := n.checkNAT(t); err != nil {
		return nil, fmt.Errorf("simnet: NAT at %v for %v: %w", public, inside, err)
	}
	n.nats[t.public] = t
	return t, nil
}

// checkNAT returns why there can't be a NAT.
func (n *Network) checkNAT(t *NAT) error {
	switch {
	case !t.public.IsValid() || t.public.IsUnspecified() || !t.inside.IsValid() || t.public.Is4() != t.inside.Addr().Is4():
		return errors.New("no addresses of one family")
	case t.inside.Contains(t.public):
		return errors.New("the public address is inside")
	}
	for _, other := range n.nats {
		if other.public == t.public || other.inside.Overlaps(t.inside) || other.inside.Contains(t.public) || t.inside.Contains(other.public) {
			return fmt.Errorf("it overlaps with the NAT at %v for %v", other.public, other.inside)
		}
	}
	for a := range n.ends {
		if a.Addr() == t.public || t.inside.Contains(a.Addr()) {
			return fmt.Errorf("there is a socket at %v", a)
		}
	}
	return nil
}

// natOf returns the NAT in front of a host, or nil.
func (n *Network) natOf(host netip.Addr) *NAT {
	for _, t := range n.nats {
		if t.inside.Contains(host) {
			return t
		}
	}
	return nil
}

// Rebind makes the NAT forget its mappings, as a router does that was restarted. The
// next datagram of each socket inside comes from a new port. Datagrams to the old
// port are lost, even those under way. The sockets notice nothing.
func (t *NAT) Rebind() {
	t.net.mu.Lock()
	defer t.net.mu.Unlock()
	t.rebinds++
	for _, e := range t.mapped {
		e.unmap()
	}
	t.forget()
}

// outward returns the public address from which an endpoint inside sends to a host
// outside. It reports false if all ports are taken.
func (t *NAT) outward(e *endpoint, to netip.Addr, now time.Duration) (netip.AddrPort, bool) {
	t.expire(e, now)
	if e.port == 0 && !t.pick(e) {
		return netip.AddrPortFrom(t.public, 0), false
	}
	e.used = now
	e.peers[to] = struct{}{}
	return netip.AddrPortFrom(t.public, e.port), true
}

// inward returns the endpoint inside that a datagram to the public address is for, or nil.
func (t *NAT) inward(from netip.Addr, port uint16, now time.Duration) *endpoint {
	e := t.mapped[port]
	if e == nil || from == t.public || t.expire(e, now) {
		return nil
	}
	if _, ok := e.peers[from]; !ok {
		return nil
	}
	e.used = now
	return e
}

// pick maps an endpoint to a free port, which depends on the seed and on the endpoint, and
// not on the order in which goroutines run.
func (t *NAT) pick(e *endpoint) bool {
	const ports = 1<<16 - firstNATPort
	key := flowKey(t.net.seed, e.addr, netip.AddrPortFrom(t.public, 0))
	first := mix(key ^ mix(t.rebinds) ^ mix(goldenGamma+e.number))
	for i := range uint64(ports) {
		port := uint16(firstNATPort + (first+i)%ports)
		if t.mapped[port] == nil && port != e.old {
			e.port, e.peers = port, make(map[netip.Addr]struct{})
			e.number++
			t.mapped[port] = e
			return true
		}
	}
	return false
}

// expire ends the mapping of an endpoint if it has been idle for too long, and reports that.
func (t *NAT) expire(e *endpoint, now time.Duration) bool {
	if e.port == 0 || t.idle == 0 || now-e.used < t.idle {
		return false
	}
	e.unmap()
	t.forget()
	return true
}

// unmap ends the mapping of an endpoint.
func (e *endpoint) unmap() {
	delete(e.nat.mapped, e.port)
	e.old, e.port, e.peers = e.port, 0, nil
}

// forget forgets the flows from and to ports without a mapping.
func (t *NAT) forget() {
	for k := range t.flows {
		port := k.to.Port()
		if k.from.Addr() == t.public {
			port = k.from.Port()
		}
		if t.mapped[port] == nil {
			t.net.forgetFlow(k)
		}
	}
}

// note notes a new flow from or to the public address of a NAT.
func (n *Network) note(k linkKey) {
	for _, a := range [...]netip.Addr{k.from.Addr(), k.to.Addr()} {
		if t := n.nats[a]; t != nil {
			t.flows[k] = struct{}{}
		}
	}
}
