package socket

import (
	"fmt"
	"hash/maphash"
	"net"
	"net/netip"
	"sync"
)

// An AddrMapper is a Socket on a net.PacketConn with addresses that are not UDP
// addresses. Its Packets carry stand-ins from the discard-only block 100::/64 of
// RFC 6666, which no real peer has. The stand-in of an address never changes.
type AddrMapper interface {
	// AddrPort returns what stands for addr in a Packet.
	AddrPort(addr net.Addr) netip.AddrPort
	// NetAddr returns the address for which addr stands, a *net.UDPAddr if addr is
	// no stand-in. It is nil for an unknown stand-in, or one unused for long.
	NetAddr(addr netip.AddrPort) net.Addr
}

// A standInSocket is a plainSocket on a net.PacketConn that knows net.Addr only.
type standInSocket struct {
	plainSocket
	addrs addrTable
}

var _ Socket = (*standInSocket)(nil)

func newStandInSocket(pc net.PacketConn) *standInSocket {
	s := &standInSocket{addrs: newAddrTable()}
	s.pc = pc
	s.io = standInIO{pc, &s.addrs}
	return s
}

// Features implements Socket.
func (s *standInSocket) Features() Features {
	return Features{Addrs: s, Deadline: s.pc, System: systemOf(s.pc)}
}

// AddrPort implements AddrMapper.
func (s *standInSocket) AddrPort(addr net.Addr) netip.AddrPort { return s.addrs.addrPort(addr) }

// NetAddr implements AddrMapper.
func (s *standInSocket) NetAddr(addr netip.AddrPort) net.Addr { return s.addrs.netAddr(addr) }

type standInIO struct {
	pc    net.PacketConn
	addrs *addrTable
}

func (io standInIO) readFrom(b []byte) (int, netip.AddrPort, error) {
	n, addr, err := io.pc.ReadFrom(b)
	if err != nil {
		return n, netip.AddrPort{}, err
	}
	if addr == nil {
		return n, netip.AddrPort{}, fmt.Errorf("socket: %T.ReadFrom gave no address", io.pc)
	}
	return n, io.addrs.addrPort(addr), nil
}

func (io standInIO) writeTo(b []byte, addr netip.AddrPort) error {
	to := io.addrs.netAddr(addr)
	if to == nil {
		return &net.AddrError{Err: "no address is known for the stand-in", Addr: addr.String()}
	}
	_, err := io.pc.WriteTo(b, to)
	return err
}

// maxStandIns is how many stand-ins an addrTable remembers at least; at most twice as many.
const maxStandIns = 1 << 16

// standInPrefix are the first bytes of every stand-in's address.
var standInPrefix = netip.MustParsePrefix("100::/64")

// An addrTable finds the net.Addr of a stand-in, a keyed hash that never changes.
type addrTable struct {
	hostSeed, portSeed maphash.Seed

	mu       sync.Mutex
	cur, old map[netip.AddrPort]net.Addr // generations; old is replaced by cur when cur is full
}

func newAddrTable() addrTable {
	return addrTable{
		hostSeed: maphash.MakeSeed(),
		portSeed: maphash.MakeSeed(),
		cur:      make(map[netip.AddrPort]net.Addr),
	}
}

// addrPort returns the AddrPort of a UDP address, or a stand-in for any other.
func (t *addrTable) addrPort(addr net.Addr) netip.AddrPort {
	if udp, ok := addr.(*net.UDPAddr); ok {
		return unmap(udp.AddrPort())
	}
	ap := t.standIn(addr)
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, ok := t.cur[ap]; !ok {
		t.rememberLocked(ap, addr)
	}
	return ap
}

func (t *addrTable) standIn(addr net.Addr) netip.AddrPort {
	name := addr.Network() + " " + addr.String()
	host := maphash.String(t.hostSeed, name)
	a := standInPrefix.Addr().As16()
	for i := range 8 {
		a[15-i] = byte(host >> (8 * i))
	}
	port := uint16(maphash.String(t.portSeed, name)) | 1 // never zero
	return netip.AddrPortFrom(netip.AddrFrom16(a), port)
}

// netAddr returns the address behind ap, nil if it is an unknown stand-in.
func (t *addrTable) netAddr(ap netip.AddrPort) net.Addr {
	if !standInPrefix.Contains(ap.Addr()) {
		return net.UDPAddrFromAddrPort(ap)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	addr := t.cur[ap]
	if addr == nil {
		if addr = t.old[ap]; addr != nil {
			t.rememberLocked(ap, addr)
		}
	}
	return addr
}

func (t *addrTable) rememberLocked(ap netip.AddrPort, addr net.Addr) {
	if len(t.cur) >= maxStandIns {
		t.old, t.cur = t.cur, make(map[netip.AddrPort]net.Addr)
	}
	t.cur[ap] = addr
}
