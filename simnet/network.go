package simnet

import (
	"net"
	"net/netip"
	"sync"
	"syscall"
	"time"
)

// firstPort is the first of the ports that a Network picks, IANA's ephemeral ones.
const firstPort = 49152

// defaultHost is the host of addresses without one, such as ":7777".
var defaultHost = netip.AddrFrom4([4]byte{127, 0, 0, 1})

// A Network is a set of sockets in memory, and a link from each host to each
// other. Create it with New, inside the synctest bubble that uses it, if any. Its
// methods may be called by several goroutines at once.
type Network struct {
	seed  uint64
	start time.Time

	mu       sync.Mutex
	closed   bool
	ends     map[netip.AddrPort]*endpoint // of open sockets
	down     map[netip.Addr]bool
	nats     map[netip.Addr]*NAT // by public address
	nextPort uint16

	// Links. Flows look theirs up again when version has changed.
	version uint64
	defLink Link
	links   map[linkKey]*link
	flows   map[linkKey]*flow
	past    map[linkKey]*Stats // of flows that are forgotten, by their hosts

	// Events.
	events  eventHeap
	counter uint64        // of steps
	timer   *time.Timer   // nil until first needed
	armed   time.Duration // when the timer fires; negative: it doesn't
	steps   []*activeStep
}

// New returns a network with perfect links. The seed decides what chance does on
// links that are not: see the package comment.
func New(seed uint64) *Network {
	return &Network{
		seed:     seed,
		start:    time.Now(),
		ends:     make(map[netip.AddrPort]*endpoint),
		down:     make(map[netip.Addr]bool),
		nats:     make(map[netip.Addr]*NAT),
		nextPort: firstPort,
		links:    make(map[linkKey]*link),
		flows:    make(map[linkKey]*flow),
		past:     make(map[linkKey]*Stats),
		armed:    -1,
	}
}

// Close closes all sockets, drops all datagrams under way and ends all scripts.
// It always returns nil.
func (n *Network) Close() error {
	n.mu.Lock()
	n.closed = true
	ends := n.ends
	n.ends = make(map[netip.AddrPort]*endpoint)
	n.dropEvents()
	n.mu.Unlock()
	for _, e := range ends {
		e.conn.shut()
	}
	return nil
}

// Listen opens a socket at the given address, such as "10.0.0.1:7777". The
// host must be an IP address; an empty or unspecified one and "localhost" mean
// 127.0.0.1. Port 0 picks a free port, the same one in each run that opens its
// sockets in the same order. The error is a *net.OpError; it is
// syscall.EADDRINUSE if the address is taken.
func (n *Network) Listen(addr string) (*Conn, error) {
	a, err := parseAddr(addr)
	if err != nil {
		return nil, &net.OpError{Op: "listen", Net: "udp", Err: err}
	}
	c, err := n.open(a, netip.AddrPort{})
	if err != nil {
		return nil, &net.OpError{Op: "listen", Net: "udp", Source: udpAddr(a), Err: err}
	}
	return c, nil
}

// Dial opens a socket that is connected to raddr: it sends to that address and
// receives from no other. An empty laddr is a free port of the host 127.0.0.1;
// otherwise addresses are as for Listen. There need not be a socket at raddr.
func (n *Network) Dial(laddr, raddr string) (*Conn, error) {
	c, err := n.dial(laddr, raddr)
	if err != nil {
		return nil, &net.OpError{Op: "dial", Net: "udp", Err: err}
	}
	return c, nil
}

func (n *Network) dial(laddr, raddr string) (*Conn, error) {
	to, err := parseAddr(raddr)
	if err != nil {
		return nil, err
	}
	if to.Port() == 0 {
		return nil, &net.AddrError{Err: "missing port", Addr: raddr}
	}
	if laddr == "" {
		laddr = ":0"
	}
	from, err := parseAddr(laddr)
	if err != nil {
		return nil, err
	}
	return n.open(from, to)
}

// ListenAny opens a socket of a host with several addresses, such as a phone with
// Wi-Fi and mobile data. It is bound to none of them, like one that listens at
// ":7777" with package net. It receives at all of them. It sends from the first of
// them that is up (see SetDown), and of the destination's family. Port 0 picks a
// port that is free at all of them. The errors are those of Listen.
func (n *Network) ListenAny(port uint16, addrs ...netip.Addr) (*Conn, error) {
	local := netip.AddrPortFrom(netip.IPv6Unspecified(), port)
	c, err := (*Conn)(nil), errMissingAddress
	if len(addrs) > 0 {
		c, err = n.openAt(addrs, port, netip.AddrPort{})
	}
	if err != nil {
		return nil, &net.OpError{Op: "listen", Net: "udp", Source: udpAddr(local), Err: err}
	}
	c.local.IP = net.IPv6unspecified
	return c, nil
}

// SetDown takes an address away from its host, as when a phone leaves its Wi-Fi, or
// gives it back. Datagrams to an address that is down are dropped and counted in
// Stats.Unreachable, even if they are under way already. A write on a socket that has no other
// address fails with syscall.ENETUNREACH. Sockets stay open, and all that was sent
// before still arrives.
func (n *Network) SetDown(addr netip.Addr, down bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.deliverDue(n.now())
	if addr = addr.Unmap(); down {
		n.down[addr] = true
	} else {
		delete(n.down, addr)
	}
}

// An endpoint is a socket at one of the addresses of its host.
type endpoint struct {
	conn    *Conn
	addr    netip.AddrPort
	mapping // guarded by Network.mu
}

// open creates a socket. A valid remote makes it a connected one.
func (n *Network) open(local, remote netip.AddrPort) (*Conn, error) {
	return n.openAt([]netip.Addr{local.Addr()}, local.Port(), remote)
}

// openAt creates a socket at several addresses of a host.
func (n *Network) openAt(hosts []netip.Addr, port uint16, remote netip.AddrPort) (*Conn, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return nil, net.ErrClosed
	}
	ends := make([]endpoint, len(hosts))
	for i, host := range hosts {
		ends[i].addr = canonical(netip.AddrPortFrom(host, 0))
		ends[i].nat = n.natOf(ends[i].addr.Addr())
	}
	if err := n.pick(ends, port); err != nil {
		return nil, err
	}
	c := newConn(n, ends, remote)
	for i := range ends {
		ends[i].conn = c
		n.ends[ends[i].addr] = &ends[i]
	}
	return c, nil
}

// pick sets the port of endpoints, if it is free at all of them. Port 0 is any that is free.
func (n *Network) pick(ends []endpoint, port uint16) error {
	tries, next := 1, port
	if port == 0 {
		tries = 1<<16 - firstPort
	}
	for range tries {
		if port == 0 {
			next = n.nextPort
			if n.nextPort++; n.nextPort == 0 {
				n.nextPort = firstPort
			}
		}
		if n.free(ends, next) {
			return nil
		}
	}
	return syscall.EADDRINUSE
}

// free sets the port of endpoints, and reports whether it is free at all of them.
func (n *Network) free(ends []endpoint, port uint16) bool {
	for i := range ends {
		host := ends[i].addr.Addr()
		ends[i].addr = netip.AddrPortFrom(host, port)
		if n.ends[ends[i].addr] != nil || n.nats[host] != nil {
			return false
		}
	}
	return true
}

func (n *Network) remove(c *Conn) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for i := range c.ends {
		e := &c.ends[i]
		if n.ends[e.addr] == e {
			delete(n.ends, e.addr)
		}
		if e.port != 0 {
			e.unmap()
			e.nat.forget()
		}
	}
}

func parseAddr(s string) (netip.AddrPort, error) {
	host, port, err := net.SplitHostPort(s)
	if err != nil {
		return netip.AddrPort{}, err
	}
	num, err := net.LookupPort("udp", port)
	if err != nil {
		return netip.AddrPort{}, err
	}
	ip := defaultHost
	if host != "" && host != "localhost" {
		if ip, err = netip.ParseAddr(host); err != nil {
			return netip.AddrPort{}, &net.AddrError{Err: "the host is not an IP address", Addr: s}
		}
	}
	return canonical(netip.AddrPortFrom(ip, uint16(num))), nil
}

// canonical returns the form of an address used as a key: unmapped, with a host.
func canonical(a netip.AddrPort) netip.AddrPort {
	ip := a.Addr().Unmap()
	if !ip.IsValid() || ip.IsUnspecified() {
		ip = defaultHost
	}
	return netip.AddrPortFrom(ip, a.Port())
}

func udpAddr(a netip.AddrPort) *net.UDPAddr { return net.UDPAddrFromAddrPort(a) }
