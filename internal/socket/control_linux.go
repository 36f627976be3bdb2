package socket

import (
	"encoding/binary"
	"net"
	"net/netip"
	"syscall"
	"unsafe"
)

// controlSize is the room for UDP_GRO, SO_RXQ_OVFL, IP_PKTINFO and IPV6_PKTINFO.
const controlSize = 128

// control holds control messages. The element type aligns it.
type control [controlSize / 8]uint64

func (c *control) bytes() *[controlSize]byte { return (*[controlSize]byte)(unsafe.Pointer(c)) }

// append adds a zeroed control message behind n bytes, and returns its data and the new n.
func (c *control) append(n int, level, kind int32, size int) (data unsafe.Pointer, end int) {
	b := c.bytes()[n : n+syscall.CmsgSpace(size)]
	clear(b)
	h := (*syscall.Cmsghdr)(unsafe.Pointer(&b[0]))
	h.Level, h.Type = level, kind
	h.SetLen(syscall.CmsgLen(size))
	return unsafe.Pointer(&b[syscall.CmsgLen(0)]), n + len(b)
}

// appendSegment makes a message a run of datagrams of the given size (UDP_SEGMENT).
func (c *control) appendSegment(n, size int) int {
	data, n := c.append(n, solUDP, udpSegment, 2)
	*(*uint16)(data) = uint16(size)
	return n
}

func (c *control) appendLocal(n int, local netip.Addr) int {
	if local.Is4() {
		data, n := c.append(n, syscall.IPPROTO_IP, syscall.IP_PKTINFO, syscall.SizeofInet4Pktinfo)
		(*syscall.Inet4Pktinfo)(data).Spec_dst = local.As4()
		return n
	}
	data, n := c.append(n, syscall.IPPROTO_IPV6, syscall.IPV6_PKTINFO, syscall.SizeofInet6Pktinfo)
	info := (*syscall.Inet6Pktinfo)(data)
	info.Addr = local.As16()
	if zone := local.Zone(); zone != "" {
		info.Ifindex = zones.index(zone)
	}
	return n
}

// controlInfo is what the kernel tells of a received message.
type controlInfo struct {
	segment  int // size of the segments that it put together, zero if it did not
	drops    uint32
	hasDrops bool
	local    netip.Addr // that the message was sent to, if it can be answered from
}

// parse reads control messages of size bytes altogether.
func (c *control) parse(size int) (info controlInfo) {
	b := c.bytes()[:]
	b = b[:min(size, len(b))]
	for len(b) >= syscall.SizeofCmsghdr {
		h := (*syscall.Cmsghdr)(unsafe.Pointer(&b[0]))
		n := int(h.Len)
		if n < syscall.SizeofCmsghdr || n > len(b) {
			break
		}
		data := b[syscall.CmsgLen(0):n]
		switch {
		case h.Level == solUDP && h.Type == udpGRO && len(data) >= 4:
			info.segment = int(binary.NativeEndian.Uint32(data))
		case h.Level == solUDP && h.Type == udpGRO && len(data) >= 2:
			info.segment = int(binary.NativeEndian.Uint16(data))
		case h.Level == syscall.SOL_SOCKET && h.Type == syscall.SO_RXQ_OVFL && len(data) >= 4:
			info.drops, info.hasDrops = binary.NativeEndian.Uint32(data), true
		case h.Level == syscall.IPPROTO_IP && h.Type == syscall.IP_PKTINFO && len(data) >= syscall.SizeofInet4Pktinfo:
			info.setLocal4((*syscall.Inet4Pktinfo)(unsafe.Pointer(&data[0])))
		case h.Level == syscall.IPPROTO_IPV6 && h.Type == syscall.IPV6_PKTINFO && len(data) >= syscall.SizeofInet6Pktinfo:
			info.setLocal6((*syscall.Inet6Pktinfo)(unsafe.Pointer(&data[0])))
		}
		b = b[min(syscall.CmsgSpace(n-syscall.CmsgLen(0)), len(b)):]
	}
	return info
}

// setLocal4 takes the address from which to answer, also for broadcasts.
func (info *controlInfo) setLocal4(p *syscall.Inet4Pktinfo) {
	if local := netip.AddrFrom4(p.Spec_dst); !local.IsUnspecified() {
		info.local = local
	}
}

// setLocal6 takes the destination of an IPv6 packet, unless answers cannot come from it.
func (info *controlInfo) setLocal6(p *syscall.Inet6Pktinfo) {
	local := netip.AddrFrom16(p.Addr)
	if local.Is4In6() || local.IsMulticast() || local.IsUnspecified() {
		return
	}
	if local.IsLinkLocalUnicast() {
		local = local.WithZone(zones.name(p.Ifindex))
	}
	info.local = local
}

// setLen stores a length in struct msghdr or iovec, whose fields depend on the architecture.
func setLen[T ~uint32 | ~uint64 | ~int32](field *T, n int) { *field = T(n) }

// sockaddr has room for struct sockaddr_in6 and sockaddr_in.
type sockaddr = syscall.RawSockaddrInet6

// putSockaddr writes addr for a socket of the given family, and returns the length.
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

// sockaddrAddrPort returns the unmapped address in sa; zero for families other than IP.
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
