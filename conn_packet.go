package volley

import (
	"net"
	"net/netip"
)

var _ net.PacketConn = (*Conn)(nil)

// ReadFrom is Read, and returns the peer's address: a Conn is a net.PacketConn
// with one peer, as a connected net.UDPConn is. The address is the same value
// each time and must not be changed.
func (c *Conn) ReadFrom(b []byte) (n int, addr net.Addr, err error) {
	n, err = c.Read(b)
	return n, c.out.Below.RemoteAddr(), err
}

// WriteTo is Write. The address is the peer's or nil; for another one the error
// matches net.ErrWriteToConnected and is a *net.AddrError that names both. For
// a net.PacketConn with many peers see [ListenPacket].
func (c *Conn) WriteTo(b []byte, addr net.Addr) (int, error) {
	if peer := c.out.Below.RemoteAddr(); !isNil(addr) && !sameAddr(addr, peer) {
		return 0, c.opError("write", &otherPeerError{net.AddrError{
			Err: "a connection writes to its peer only, " + peer.String(), Addr: addr.String(),
		}})
	}
	return c.Write(b)
}

// An otherPeerError is net.ErrWriteToConnected with the addresses.
type otherPeerError struct{ at net.AddrError }

func (e *otherPeerError) Error() string { return "volley: " + e.at.Error() }

// Unwrap returns what the error matches.
func (e *otherPeerError) Unwrap() []error { return []error{net.ErrWriteToConnected, &e.at} }

func isNil(addr net.Addr) bool {
	udp, ok := addr.(*net.UDPAddr)
	return addr == nil || ok && udp == nil
}

func sameAddr(a, b net.Addr) bool {
	x, ok := a.(*net.UDPAddr)
	if y, too := b.(*net.UDPAddr); ok && too {
		return x == y || plainAddrPort(x) == plainAddrPort(y)
	}
	return a.Network() == b.Network() && a.String() == b.String()
}

// plainAddrPort returns an address as a Socket knows it, none for a port that there is not.
func plainAddrPort(a *net.UDPAddr) netip.AddrPort {
	if a.Port != int(uint16(a.Port)) {
		return netip.AddrPort{}
	}
	if len(a.IP) == 0 {
		return netip.AddrPortFrom(loopback4, uint16(a.Port)) // as in package net
	}
	return plain(a.AddrPort())
}

var loopback4 = netip.AddrFrom4([4]byte{127, 0, 0, 1})

// plain returns an address that packets come back from: never mapped or unspecified.
func plain(a netip.AddrPort) netip.AddrPort {
	ip := a.Addr().Unmap()
	switch ip {
	case netip.IPv4Unspecified():
		ip = loopback4
	case netip.IPv6Unspecified():
		ip = netip.IPv6Loopback()
	}
	return netip.AddrPortFrom(ip, a.Port())
}
