package simnet

import (
	"fmt"
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
	conns    map[netip.AddrPort]*Conn // by public address
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
		conns:    make(map[netip.AddrPort]*Conn),
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
	conns := n.conns
	n.conns = make(map[netip.AddrPort]*Conn)
	n.dropEvents()
	n.mu.Unlock()
	for _, c := range conns {
		c.shut()
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

// open creates a socket. A valid remote makes it a connected one.
func (n *Network) open(local, remote netip.AddrPort) (*Conn, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return nil, net.ErrClosed
	}
	local, err := n.pick(canonical(local))
	if err != nil {
		return nil, err
	}
	c := newConn(n, local, remote)
	n.conns[local] = c
	return c, nil
}

// pick checks that the address is free, and fills in its port if it is 0.
func (n *Network) pick(addr netip.AddrPort) (netip.AddrPort, error) {
	if addr.Port() != 0 {
		if n.conns[addr] != nil {
			return addr, syscall.EADDRINUSE
		}
		return addr, nil
	}
	for range 1<<16 - firstPort {
		addr = netip.AddrPortFrom(addr.Addr(), n.nextPort)
		if n.nextPort++; n.nextPort == 0 {
			n.nextPort = firstPort
		}
		if n.conns[addr] == nil {
			return addr, nil
		}
	}
	return addr, syscall.EADDRINUSE
}

// Rebind changes the address under which others see a socket, as a NAT does that
// has forgotten its mapping. The socket sends and receives from now on at new.
// Datagrams to old are lost, even those under way. The socket itself notices
// nothing; its LocalAddr stays. Port 0 picks a free port.
func (n *Network) Rebind(old, new netip.AddrPort) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	old = canonical(old)
	c := n.conns[old]
	if c == nil {
		return fmt.Errorf("simnet: rebind %v: no such socket", old)
	}
	new, err := n.pick(canonical(new))
	if err != nil {
		return fmt.Errorf("simnet: rebind %v to %v: %w", old, new, err)
	}
	delete(n.conns, old)
	n.conns[new] = c
	c.public = new
	return nil
}

// remove takes a socket out of the network.
func (n *Network) remove(c *Conn) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.conns[c.public] == c {
		delete(n.conns, c.public)
	}
}

// parseAddr parses an address as described for Listen.
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

// canonical returns the one form of an address that is used as a key: IPv4
// not mapped, and no unspecified host.
func canonical(a netip.AddrPort) netip.AddrPort {
	ip := a.Addr().Unmap()
	if !ip.IsValid() || ip.IsUnspecified() {
		ip = defaultHost
	}
	return netip.AddrPortFrom(ip, a.Port())
}

func udpAddr(a netip.AddrPort) *net.UDPAddr { return net.UDPAddrFromAddrPort(a) }
