package socket

import (
	"encoding/binary"
	"net"
	"net/netip"
	"syscall"
	"unsafe"
)

// setLen stores a length in a field of struct msghdr or iovec, whose width
// depends on the architecture.
func setLen[T ~uint32 | ~uint64 | ~int32](field *T, n int) { *field = T(n) }

// sockaddr has room for struct sockaddr_in6 and sockaddr_in.
type sockaddr = syscall.RawSockaddrInet6

// putSockaddr writes addr to sa in the form that a socket of the given address
// family takes, and returns its length.
func putSockaddr(sa *sockaddr, family int, addr netip.AddrPort) (int, error) {
	ip := addr.Addr()
	if family == syscall.AF_INET {
		if ip = ip.Unmap(); !ip.Is4() {
			return 0, &net.AddrError{Err: "not an IPv4 address", Addr: ip.String()}
		}
		sa4 := (*syscall.RawSockaddrInet4)(unsafe.Pointer(sa))
		*sa4 = syscall.RawSockaddrInet4{Family: syscall.AF_INET, Addr: ip.As4()}
		putPort(&sa4.Port, addr.Port())
		return syscall.SizeofSockaddrInet4, nil
	}
	if !ip.IsValid() {
		return 0, &net.AddrError{Err: "no address", Addr: addr.String()}
	}
	*sa = sockaddr{Family: syscall.AF_INET6, Addr: ip.As16()}
	putPort(&sa.Port, addr.Port())
	if zone := ip.Zone(); zone != "" {
		sa.Scope_id = zones.index(zone)
	}
	return syscall.SizeofSockaddrInet6, nil
}

// sockaddrAddrPort returns the address in sa, unmapped; the zero AddrPort if
// it is of another family than IPv4 and IPv6.
func sockaddrAddrPort(sa *sockaddr) netip.AddrPort {
	switch sa.Family {
	case syscall.AF_INET:
		sa4 := (*syscall.RawSockaddrInet4)(unsafe.Pointer(sa))
		return netip.AddrPortFrom(netip.AddrFrom4(sa4.Addr), port(&sa4.Port))
	case syscall.AF_INET6:
		ip := netip.AddrFrom16(sa.Addr).Unmap()
		if sa.Scope_id != 0 && ip.Is6() {
			ip = ip.WithZone(zones.name(sa.Scope_id))
		}
		return netip.AddrPortFrom(ip, port(&sa.Port))
	}
	return netip.AddrPort{}
}

// A port stands in network byte order in memory.

func putPort(field *uint16, port uint16) {
	binary.BigEndian.PutUint16((*[2]byte)(unsafe.Pointer(field))[:], port)
}

func port(field *uint16) uint16 {
	return binary.BigEndian.Uint16((*[2]byte)(unsafe.Pointer(field))[:])
}
