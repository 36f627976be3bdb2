package simnet

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"sync"
	"syscall"
	"time"

	"volley/internal/deadline"
)

const (
	readBuffer  = 256 << 10 // of a socket, by default
	maxDatagram = 65507     // the limit of UDP over IPv4
)

var (
	_ net.Conn       = (*Conn)(nil)
	_ net.PacketConn = (*Conn)(nil)
)

var errMissingAddress = errors.New("missing address")

// A Conn is a socket of a Network. It behaves like a *net.UDPConn on Linux: it
// is a net.PacketConn and, if it was made by Dial, a net.Conn. Its errors are of
// type *net.OpError, too. Closing it again is no error. Its methods may be called
// by several goroutines at once.
type Conn struct {
	net    *Network
	local  *net.UDPAddr
	remote netip.AddrPort // valid if connected
	peer   *net.UDPAddr   // remote, or nil

	ends []endpoint // one for each address of the host

	readDeadline, writeDeadline deadline.Deadline

	closeOnce sync.Once
	done      chan struct{} // closed by Close
	ready     chan struct{} // holds a token when there may be something to read

	// The receive buffer.
	mu    sync.Mutex
	queue packetQueue
	bytes int // in the queue, as sizes of packets
	limit int // of bytes
	drops uint64
}

func newConn(n *Network, ends []endpoint, remote netip.AddrPort) *Conn {
	c := &Conn{
		net:    n,
		local:  udpAddr(ends[0].addr),
		remote: remote,
		ends:   ends,
		done:   make(chan struct{}),
		ready:  make(chan struct{}, 1),
		limit:  readBuffer,
	}
	if remote.IsValid() {
		c.peer = udpAddr(remote)
	}
	return c
}

// Network returns the network that c is a socket of.
func (c *Conn) Network() *Network { return c.net }

// LocalAddr returns the address c was opened with, a *net.UDPAddr that must not
// be modified. Its host is "::" if c was opened by ListenAny.
func (c *Conn) LocalAddr() net.Addr { return c.local }

// RemoteAddr returns the address c is connected to, a *net.UDPAddr that must not
// be modified, or nil.
func (c *Conn) RemoteAddr() net.Addr {
	if c.peer == nil {
		return nil
	}
	return c.peer
}

// Close closes the socket. Datagrams that it has sent still arrive; unread ones
// are lost. It always returns nil.
func (c *Conn) Close() error {
	c.net.remove(c)
	c.shut()
	return nil
}

// shut ends the pending operations of a socket that the network has removed.
func (c *Conn) shut() {
	c.closeOnce.Do(func() { close(c.done) })
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.queue.len() > 0 {
		c.queue.pop().free()
	}
	c.bytes = 0
}

// SetDeadline sets the deadlines of reads and writes. A zero time means none.
func (c *Conn) SetDeadline(t time.Time) error {
	return c.set(func() { c.readDeadline.Set(t); c.writeDeadline.Set(t) })
}

// SetReadDeadline sets the deadline of pending and future reads.
func (c *Conn) SetReadDeadline(t time.Time) error {
	return c.set(func() { c.readDeadline.Set(t) })
}

// SetWriteDeadline sets the deadline of future writes. They never wait, and
// fail only if it is in the past.
func (c *Conn) SetWriteDeadline(t time.Time) error {
	return c.set(func() { c.writeDeadline.Set(t) })
}

// set makes a setting, unless c is closed.
func (c *Conn) set(do func()) error {
	if c.closed() {
		return c.opError("set", nil, net.ErrClosed)
	}
	do()
	return nil
}

// SetReadBuffer limits the receive buffer, 256 KiB by default, to the given
// number of bytes. Each datagram takes 28 bytes more with IPv4, 48 with IPv6, for
// its headers. A datagram that finds no room is dropped and counted in
// Stats.ReceiverDrops.
func (c *Conn) SetReadBuffer(bytes int) error {
	if bytes <= 0 {
		return c.opError("set", nil, syscall.EINVAL)
	}
	return c.set(func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.limit = bytes
	})
}

// ReadBuffer returns the limit of the receive buffer in bytes.
func (c *Conn) ReadBuffer() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.limit
}

// Drops returns how many datagrams have found the receive buffer full.
func (c *Conn) Drops() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.drops
}

// Read reads one datagram, and drops the rest of one that is longer than b. With
// an empty b it reads nothing.
func (c *Conn) Read(b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	n, _, err := c.ReadFromUDPAddrPort(b)
	return n, err
}

// ReadFrom is like Read, and returns the sender's address, a *net.UDPAddr.
func (c *Conn) ReadFrom(b []byte) (int, net.Addr, error) {
	n, from, err := c.ReadFromUDPAddrPort(b)
	if err != nil {
		return 0, nil, err
	}
	return n, udpAddr(from), nil
}

// ReadFromUDPAddrPort is like ReadFrom, and doesn't allocate.
func (c *Conn) ReadFromUDPAddrPort(b []byte) (int, netip.AddrPort, error) {
	for {
		if err := c.usable(&c.readDeadline); err != nil {
			return 0, netip.AddrPort{}, c.opError("read", c.RemoteAddr(), err)
		}
		if p := c.pop(); p != nil {
			n, from := copy(b, p.buf), p.flow.from
			p.free()
			return n, from, nil
		}
		select {
		case <-c.ready:
		case <-c.done:
		case <-c.readDeadline.Arm():
		}
		c.readDeadline.Disarm()
	}
}

// Write sends one datagram on a connected socket.
func (c *Conn) Write(b []byte) (int, error) {
	if !c.remote.IsValid() {
		return 0, c.opError("write", nil, syscall.EDESTADDRREQ)
	}
	return c.write(b, c.remote)
}

// WriteTo sends one datagram on an unconnected socket to a *net.UDPAddr. It does
// not wait, and reports no loss: a datagram to an address without a socket
// vanishes. The error is syscall.EMSGSIZE above 65507 bytes, and
// syscall.ENETUNREACH if no address of the socket is up: see Network.SetDown.
func (c *Conn) WriteTo(b []byte, addr net.Addr) (int, error) {
	a, ok := addr.(*net.UDPAddr)
	if !ok {
		return 0, c.opError("write", addr, syscall.EINVAL)
	}
	if a == nil {
		return 0, c.opError("write", nil, errMissingAddress)
	}
	return c.WriteToUDPAddrPort(b, a.AddrPort())
}

// WriteToUDPAddrPort is like WriteTo.
func (c *Conn) WriteToUDPAddrPort(b []byte, addr netip.AddrPort) (int, error) {
	if c.remote.IsValid() {
		return 0, c.opError("write", udpAddr(addr), net.ErrWriteToConnected)
	}
	return c.write(b, canonical(addr))
}

func (c *Conn) write(b []byte, to netip.AddrPort) (int, error) {
	err := c.usable(&c.writeDeadline)
	if err == nil && len(b) > maxDatagram {
		err = syscall.EMSGSIZE
	}
	if err == nil {
		err = c.net.send(c, b, to)
	}
	if err != nil {
		return 0, c.opError("write", udpAddr(to), err)
	}
	return len(b), nil
}

func (c *Conn) closed() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// usable returns why an operation can't begin. A deadline in the past comes first.
func (c *Conn) usable(d *deadline.Deadline) error {
	if c.closed() {
		return net.ErrClosed
	}
	if d.Exceeded() {
		return os.ErrDeadlineExceeded
	}
	return nil
}

func (c *Conn) opError(op string, addr net.Addr, err error) error {
	return &net.OpError{Op: op, Net: "udp", Source: c.local, Addr: addr, Err: err}
}

func (c *Conn) accepts(from netip.AddrPort) bool {
	return !c.remote.IsValid() || c.remote == from
}

// push puts a packet into the receive buffer, unless that is full.
func (c *Conn) push(p *packet) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed() {
		return false
	}
	if c.bytes+p.size() > c.limit {
		c.drops++
		return false
	}
	c.bytes += p.size()
	c.queue.push(p)
	c.wake()
	return true
}

// pop returns the next packet of the receive buffer, or nil.
func (c *Conn) pop() *packet {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.queue.len() == 0 {
		return nil
	}
	p := c.queue.pop()
	c.bytes -= p.size()
	if c.queue.len() > 0 {
		c.wake()
	}
	return p
}

// wake makes one reader look at the queue, now or when it next comes.
func (c *Conn) wake() {
	select {
	case c.ready <- struct{}{}:
	default:
	}
}

// A packetQueue is a ring of packets that grows as needed.
type packetQueue struct {
	ring []*packet // its length is a power of two
	head int
	n    int
}

func (q *packetQueue) len() int { return q.n }

func (q *packetQueue) push(p *packet) {
	if q.n == len(q.ring) {
		ring := make([]*packet, max(8, 2*q.n))
		for i := range q.n {
			ring[i] = q.ring[(q.head+i)%len(q.ring)]
		}
		q.ring, q.head = ring, 0
	}
	q.ring[(q.head+q.n)%len(q.ring)] = p
	q.n++
}

func (q *packetQueue) pop() *packet {
	p := q.ring[q.head]
	q.ring[q.head] = nil
	q.head = (q.head + 1) % len(q.ring)
	q.n--
	return p
}

// Pair returns two sockets that are connected to each other through a network of
// their own: ab is the link from a to b, ba the way back. Both sockets must be
// closed; their Network needn't be.
func Pair(seed uint64, ab, ba Link) (a, b *Conn) {
	n := New(seed)
	hostA, hostB := netip.AddrFrom4([4]byte{10, 0, 0, 1}), netip.AddrFrom4([4]byte{10, 0, 0, 2})
	n.SetLink(hostA, hostB, ab)
	n.SetLink(hostB, hostA, ba)
	addrA, addrB := netip.AddrPortFrom(hostA, firstPort), netip.AddrPortFrom(hostB, firstPort)
	return mustOpen(n, addrA, addrB), mustOpen(n, addrB, addrA)
}

// mustOpen opens a socket in a new network, where that can't fail.
func mustOpen(n *Network, local, remote netip.AddrPort) *Conn {
	c, err := n.open(local, remote)
	if err != nil {
		panic("BUG: simnet: " + err.Error())
	}
	return c
}
