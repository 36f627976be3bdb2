package socket

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/netip"
	"strconv"
	"sync"
	"testing"
	"time"
)

// A memAddr is an address that is not a UDP address.
type memAddr string

func (a memAddr) Network() string { return "mem" }
func (a memAddr) String() string  { return string(a) }

// A memHub joins memConns.
type memHub struct {
	mu    sync.Mutex
	conns map[memAddr]*memConn
}

// A memConn is a net.PacketConn in memory, whose addresses are names.
type memConn struct {
	net.PacketConn // for the methods that nobody calls
	hub            *memHub
	addr           memAddr
	in             chan memDatagram
	closed         chan struct{}
}

type memDatagram struct {
	b    []byte
	from memAddr
}

func newMemHub() *memHub { return &memHub{conns: make(map[memAddr]*memConn)} }

func (h *memHub) listen(addr memAddr) *memConn {
	h.mu.Lock()
	defer h.mu.Unlock()
	c := &memConn{hub: h, addr: addr, in: make(chan memDatagram, 64), closed: make(chan struct{})}
	h.conns[addr] = c
	return c
}

func (c *memConn) ReadFrom(b []byte) (int, net.Addr, error) {
	select {
	case d := <-c.in:
		return copy(b, d.b), d.from, nil
	case <-c.closed:
		return 0, nil, io.EOF // what net.ErrClosed is to others
	}
}

func (c *memConn) WriteTo(b []byte, addr net.Addr) (int, error) {
	c.hub.mu.Lock()
	defer c.hub.mu.Unlock()
	to, ok := addr.(memAddr)
	if !ok || c.hub.conns[to] == nil {
		return 0, errors.New("no such address")
	}
	c.hub.conns[to].in <- memDatagram{bytes.Clone(b), c.addr}
	return len(b), nil
}

func (c *memConn) SetDeadline(time.Time) error { return nil }

func (c *memConn) LocalAddr() net.Addr { return c.addr }

func (c *memConn) Close() error {
	close(c.closed)
	return nil
}

func TestForeignAddresses(t *testing.T) {
	hub := newMemHub()
	server := NewPacket(hub.listen("server")).(*standInSocket)
	client := NewPacket(hub.listen("client")).(*standInSocket)
	defer client.Close()

	toServer := client.AddrPort(memAddr("server"))
	run := Packet{Buf: pattern(1, 250), Addr: toServer, Segment: 100}
	send(t, client, run)
	fromClient := server.AddrPort(memAddr("client"))
	if !standInPrefix.Contains(fromClient.Addr()) || fromClient.Port() == 0 {
		t.Errorf("stand-in %v, want one from %v with a port", fromClient, standInPrefix)
	}
	expect(t, server, fromClient, run)
	if got := server.NetAddr(fromClient); got != memAddr("client") {
		t.Errorf("NetAddr(%v) = %v, want client", fromClient, got)
	}
	back := Packet{Buf: pattern(2, 30), Addr: fromClient}
	send(t, server, back)
	expect(t, client, toServer, back)

	unknown := netip.MustParseAddrPort("[100::1234]:5")
	if n, err := server.WriteBatch([]Packet{{Addr: unknown}}); n != 0 || err == nil {
		t.Errorf("WriteBatch to an unknown stand-in = %d, %v, want 0 and an error", n, err)
	}
	if got := server.NetAddr(unknown); got != nil {
		t.Errorf("NetAddr of an unknown stand-in = %v, want nil", got)
	}
	server.Close()
	if _, err := server.ReadBatch(make([]Packet, 1)); !errors.Is(err, net.ErrClosed) {
		t.Errorf("ReadBatch after Close = %v, want net.ErrClosed", err)
	}
}

func TestUDPAddressesStandForThemselves(t *testing.T) {
	s := NewPacket(newMemHub().listen("x")).(*standInSocket)
	defer s.Close()
	udp := &net.UDPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 7}
	want := netip.MustParseAddrPort("192.0.2.1:7")
	if got := s.AddrPort(udp); got != want {
		t.Errorf("AddrPort(%v) = %v, want %v", udp, got, want)
	}
	if got := s.NetAddr(want).String(); got != udp.String() {
		t.Errorf("NetAddr(%v) = %v, want %v", want, got, udp)
	}
}

// TestStandInsAreStable checks that strangers push out neither a peer that is
// in use nor the stand-in of one that comes back, and that the table is bounded.
func TestStandInsAreStable(t *testing.T) {
	table := newAddrTable()
	busy, quiet := memAddr("busy"), memAddr("quiet")
	busyAddr, quietAddr := table.addrPort(busy), table.addrPort(quiet)
	for i := range 3 * maxStandIns {
		table.addrPort(memAddr(strconv.Itoa(i)))
		if i%1000 == 0 && table.netAddr(busyAddr) != busy {
			t.Fatalf("after %d strangers the peer that is written to is unknown", i)
		}
	}
	if n := len(table.cur) + len(table.old); n > 2*maxStandIns {
		t.Errorf("%d addresses kept, want at most %d", n, 2*maxStandIns)
	}
	if got := table.netAddr(quietAddr); got != nil {
		t.Errorf("the silent peer is still known as %v", got)
	}
	if got := table.addrPort(quiet); got != quietAddr {
		t.Errorf("stand-in of the silent peer = %v, was %v", got, quietAddr)
	}
	if got := table.netAddr(quietAddr); got != quiet {
		t.Errorf("NetAddr of the peer that came back = %v, want %v", got, quiet)
	}
}
