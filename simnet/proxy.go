package simnet

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
)

// proxyBuffer is the receive buffer that a Proxy asks for, so that only its links drop.
const proxyBuffer = 4 << 20

// A ProxyConfig describes a Proxy. It is not modified.
type ProxyConfig struct {
	// Target is the UDP address that the proxy forwards to. It must be set.
	Target string
	// Listen is the UDP address for clients. Empty means a free port of 127.0.0.1.
	Listen string
	// Source is the IP address from which the proxy sends to the target, at a
	// port of the system's choice for each client. Empty means that the system
	// chooses the address, too.
	Source string
	// Up is the link from the clients to the target, Down that from the
	// target to the clients. All clients share them.
	Up, Down Link
	// Seed is that of a Network. The random numbers of a client follow from it
	// and from the order of first datagrams, not from the client's port.
	Seed uint64
	// MaxClients limits the clients, each of which takes a socket: a new client
	// replaces the one that has been silent the longest. Zero means 256.
	MaxClients int
}

func (c *ProxyConfig) source() (*net.UDPAddr, error) {
	if c.Source == "" {
		return nil, nil
	}
	ip, err := netip.ParseAddr(c.Source)
	if err != nil {
		return nil, fmt.Errorf("simnet: ProxyConfig.Source: %w", err)
	}
	return net.UDPAddrFromAddrPort(netip.AddrPortFrom(ip, 0)), nil
}

// A Proxy stands between real UDP sockets: it receives datagrams of clients,
// forwards them to a target, and sends the answers back. Each direction passes a
// simulated link. The target sees a socket for each client.
//
// A Proxy runs in real time. Use a Network inside a synctest bubble.
type Proxy struct {
	cfg    ProxyConfig
	net    *Network
	front  *net.UDPConn // towards the clients
	source *net.UDPAddr // nil: the system's choice
	target netip.AddrPort
	wg     sync.WaitGroup

	mu      sync.Mutex
	closed  bool
	clients map[netip.AddrPort]*proxyClient
	number  int    // clients so far
	clock   uint64 // datagrams from clients, to tell who is silent
}

// The two hosts of a proxy's network.
var (
	clientHost = netip.AddrFrom4([4]byte{10, 0, 0, 1})
	targetHost = netip.AddrFrom4([4]byte{10, 0, 0, 2})
)

// NewProxy starts a proxy. The error is one of the configuration or of the
// socket.
func NewProxy(cfg ProxyConfig) (*Proxy, error) {
	target, err := net.ResolveUDPAddr("udp", cfg.Target)
	if err != nil {
		return nil, fmt.Errorf("simnet: ProxyConfig.Target: %w", err)
	}
	if target.Port == 0 {
		return nil, fmt.Errorf("simnet: ProxyConfig.Target: no port in %q", cfg.Target)
	}
	source, err := cfg.source()
	if err != nil {
		return nil, err
	}
	laddr, err := net.ResolveUDPAddr("udp", cmp.Or(cfg.Listen, "127.0.0.1:0"))
	if err != nil {
		return nil, fmt.Errorf("simnet: ProxyConfig.Listen: %w", err)
	}
	front, err := net.ListenUDP("udp", laddr)
	if err != nil {
		return nil, fmt.Errorf("simnet: ProxyConfig.Listen: %w", err)
	}
	front.SetReadBuffer(proxyBuffer) // best effort
	p := &Proxy{
		cfg:     cfg,
		net:     New(cfg.Seed),
		front:   front,
		source:  source,
		target:  target.AddrPort(),
		clients: make(map[netip.AddrPort]*proxyClient),
	}
	p.SetLinks(cfg.Up, cfg.Down)
	p.wg.Go(p.readFront)
	return p, nil
}

// Addr returns the address that clients send to.
func (p *Proxy) Addr() *net.UDPAddr { return p.front.LocalAddr().(*net.UDPAddr) }

// SetLinks describes both directions anew.
func (p *Proxy) SetLinks(up, down Link) {
	p.net.SetLink(clientHost, targetHost, up)
	p.net.SetLink(targetHost, clientHost, down)
}

// Links returns the present description of both directions, with the steps of
// scripts that are in force.
func (p *Proxy) Links() (up, down Link) {
	return p.net.Link(clientHost, targetHost), p.net.Link(targetHost, clientHost)
}

// Play schedules the steps of a script for each direction, as Network.Play does.
// The hosts that they name do not matter.
func (p *Proxy) Play(up, down []Step) {
	p.play(up, clientHost)
	p.play(down, targetHost)
}

func (p *Proxy) play(script []Step, from netip.Addr) {
	script = slices.Clone(script)
	for i := range script {
		script[i].From, script[i].To = from, netip.Addr{}
	}
	p.net.Play(script)
}

// Clients returns how many clients there are.
func (p *Proxy) Clients() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.clients)
}

// Stats returns the counters of both directions. Delivered counts the datagrams
// that the proxy has sent on to a real socket.
func (p *Proxy) Stats() (up, down Stats) {
	return p.net.LinkStats(clientHost, targetHost), p.net.LinkStats(targetHost, clientHost)
}

// Rebind gives each client a new socket towards the target, as a NAT does that
// has forgotten its mappings. The target sees new addresses, and its datagrams to
// the old ones are lost. The error is that of the first socket that could not be
// opened; its client keeps the old one.
func (p *Proxy) Rebind() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return net.ErrClosed
	}
	for _, c := range p.clients {
		if err := p.connect(c); err != nil {
			return fmt.Errorf("simnet: rebind: %w", err)
		}
	}
	return nil
}

// Close stops the proxy and waits until all its goroutines have ended. Datagrams
// under way are lost. It always returns nil.
func (p *Proxy) Close() error {
	p.mu.Lock()
	p.closed = true
	for addr, c := range p.clients {
		c.close()
		delete(p.clients, addr)
	}
	p.mu.Unlock()
	p.front.Close()
	p.net.Close()
	p.wg.Wait()
	return nil
}

// A proxyClient is a client of a proxy: datagrams go from near to far, answers back.
type proxyClient struct {
	near, far *Conn
	back      *net.UDPConn // towards the target; guarded by Proxy.mu
	seen      uint64       // Proxy.clock at its latest datagram
}

func (c *proxyClient) close() {
	c.near.Close()
	c.far.Close()
	if c.back != nil {
		c.back.Close()
	}
}

// readFront receives what clients send.
func (p *Proxy) readFront() {
	buf := make([]byte, maxDatagram)
	for {
		n, from, err := readUDP(p.front, buf)
		if err != nil {
			return
		}
		if c := p.client(from); c != nil {
			c.near.Write(buf[:n]) // fails only when closed
		}
	}
}

// client returns the client at an address, or nil if there can be none.
func (p *Proxy) client(addr netip.AddrPort) *proxyClient {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil
	}
	c := p.clients[addr]
	if c == nil {
		if c = p.newClient(addr); c == nil {
			return nil
		}
	}
	p.clock++
	c.seen = p.clock
	return c
}

func (p *Proxy) newClient(addr netip.AddrPort) *proxyClient {
	if len(p.clients) >= cmp.Or(max(0, p.cfg.MaxClients), 256) {
		p.evict()
	}
	port := uint16(1 + p.number%(1<<16-1))
	p.number++
	near, far := netip.AddrPortFrom(clientHost, port), netip.AddrPortFrom(targetHost, port)
	c := &proxyClient{}
	var err error
	if c.near, err = p.net.open(near, far); err != nil {
		return nil // the number is still in use by a very old client
	}
	if c.far, err = p.net.open(far, near); err != nil {
		c.near.Close()
		return nil
	}
	c.near.SetReadBuffer(proxyBuffer)
	c.far.SetReadBuffer(proxyBuffer)
	if err := p.connect(c); err != nil {
		c.close()
		return nil
	}
	p.clients[addr] = c
	p.wg.Go(func() { p.pumpUp(c) })
	p.wg.Go(func() { p.pumpDown(c, addr) })
	return c
}

// evict closes the client that has been silent the longest.
func (p *Proxy) evict() {
	var oldest netip.AddrPort
	for addr, c := range p.clients {
		if o := p.clients[oldest]; o == nil || c.seen < o.seen {
			oldest = addr
		}
	}
	c := p.clients[oldest]
	c.close()
	p.net.forget(c.near.ends[0].addr, c.far.ends[0].addr)
	delete(p.clients, oldest)
}

// connect opens a socket towards the target for a client, in place of the one it may have.
func (p *Proxy) connect(c *proxyClient) error {
	back, err := net.DialUDP("udp", p.source, net.UDPAddrFromAddrPort(p.target))
	if err != nil {
		return err
	}
	back.SetReadBuffer(proxyBuffer) // best effort
	if c.back != nil {
		c.back.Close()
	}
	c.back = back
	p.wg.Go(func() { readBack(c, back) })
	return nil
}

// readBack receives what the target sends to a client.
func readBack(c *proxyClient, back *net.UDPConn) {
	buf := make([]byte, maxDatagram)
	for {
		n, _, err := readUDP(back, buf)
		if err != nil {
			return
		}
		c.far.Write(buf[:n]) // fails only when closed
	}
}

// pumpUp sends what arrives over the link up on to the target.
func (p *Proxy) pumpUp(c *proxyClient) {
	buf := make([]byte, maxDatagram)
	for {
		n, err := c.far.Read(buf)
		if err != nil {
			return
		}
		p.mu.Lock()
		back := c.back
		p.mu.Unlock()
		back.Write(buf[:n]) // an error, such as a refusal, is a loss
	}
}

// pumpDown sends what arrives over the link down on to the client.
func (p *Proxy) pumpDown(c *proxyClient, addr netip.AddrPort) {
	buf := make([]byte, maxDatagram)
	for {
		n, err := c.near.Read(buf)
		if err != nil {
			return
		}
		p.front.WriteToUDPAddrPort(buf[:n], addr) // an error is a loss
	}
}

// maxReadErrors is how many errors in a row end the reading of a socket.
// Refusals come one for each datagram sent, and are no reason to stop.
const maxReadErrors = 1000

// readUDP reads a datagram. Errors other than net.ErrClosed are ignored for a while.
func readUDP(c *net.UDPConn, buf []byte) (n int, from netip.AddrPort, err error) {
	for range maxReadErrors {
		n, from, err = c.ReadFromUDPAddrPort(buf)
		if err == nil || errors.Is(err, net.ErrClosed) {
			break
		}
	}
	return n, from, err
}
