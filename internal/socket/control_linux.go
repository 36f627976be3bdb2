package socket

import (
	"encoding/binary"
	"net/netip"
	"syscall"
	"unsafe"
)

// controlSize is the room in bytes for the control messages of one message. One
// received may have UDP_GRO's and SO_RXQ_OVFL's of four bytes each, IP_PKTINFO's
// of twelve and IPV6_PKTINFO's of twenty; one to be sent has fewer.
const controlSize = 128

// control holds control messages. The element type aligns it.
type control [controlSize / 8]uint64

func (c *control) bytes() *[controlSize]byte { return (*[controlSize]byte)(unsafe.Pointer(c)) }

// append adds a control message with room for size bytes behind the first n, and
// returns where they are, zeroed, and how many bytes there are then.
func (c *control) append(n int, level, kind int32, size int) (data unsafe.Pointer, end int) {
	b := c.bytes()[n : n+syscall.CmsgSpace(size)]
	clear(b)
	h := (*syscall.Cmsghdr)(unsafe.Pointer(&b[0]))
	h.Level, h.Type = level, kind
	h.SetLen(syscall.CmsgLen(size))
	return unsafe.Pointer(&b[syscall.CmsgLen(0)]), n + len(b)
}

// appendSegment makes a message a run of datagrams of the given size
// (UDP_SEGMENT).
func (c *control) appendSegment(n, size int) int {
	data, n := c.append(n, solUDP, udpSegment, 2)
	*(*uint16)(data) = uint16(size)
	return n
}

// appendLocal makes a message leave from one of our addresses.
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

// setLocal4 takes the address that an answer is to come from, which the kernel
// tells also for packets to a broadcast or multicast address.
func (info *controlInfo) setLocal4(p *syscall.Inet4Pktinfo) {
	if local := netip.AddrFrom4(p.Spec_dst); !local.IsUnspecified() {
		info.local = local
	}
}

// setLocal6 takes the address that a packet was sent to, unless that is a
// multicast one, from which nothing can be sent. Packets of IPv4 have it told by
// the option of IPv4.
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
