package netcode

import (
	"encoding/binary"
	"net/netip"
)

// Address families on the wire.
const (
	familyIPv4 = 1
	familyIPv6 = 2
)

// checkServer returns why ap is no address of a server, "" if it is. It is for our own tokens.
func checkServer(ap netip.AddrPort) string {
	switch addr := ap.Addr().Unmap(); {
	case !ap.IsValid():
		return "is not an address"
	case ap.Addr().Zone() != "":
		return "has a zone"
	case ap.Port() == 0:
		return "has no port"
	case addr.IsUnspecified():
		return "is unspecified"
	case addr.IsMulticast():
		return "is a multicast address"
	case addr == broadcast:
		return "is the broadcast address"
	}
	return ""
}

var broadcast = netip.AddrFrom4([4]byte{255, 255, 255, 255})

// serverList checks the addresses of servers in a configuration and unmaps them.
func serverList(field string, servers []netip.AddrPort) ([]netip.AddrPort, error) {
	list := make([]netip.AddrPort, len(servers))
	for i, ap := range servers {
		if why := checkServer(ap); why != "" {
			return nil, configError(field, "%v %s", ap, why)
		}
		list[i] = unmap(ap)
	}
	return list, nil
}

// unmap returns ap with an IPv4 address in its plain form.
func unmap(ap netip.AddrPort) netip.AddrPort {
	return netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port())
}

// appendAddr appends family, address and port. Each IPv6 group is little-endian.
func appendAddr(b []byte, ap netip.AddrPort) []byte {
	if ap.Addr().Is4() {
		a := ap.Addr().As4()
		b = append(b, familyIPv4)
		b = append(b, a[:]...)
	} else {
		a := ap.Addr().As16()
		swapPairs(&a)
		b = append(b, familyIPv6)
		b = append(b, a[:]...)
	}
	return binary.LittleEndian.AppendUint16(b, ap.Port())
}

// consumeAddr reads an address and returns how many bytes it takes, -1 if b holds none.
func consumeAddr(b []byte) (netip.AddrPort, int) {
	if len(b) < 1 {
		return netip.AddrPort{}, -1
	}
	switch b[0] {
	case familyIPv4:
		if len(b) < 7 {
			return netip.AddrPort{}, -1
		}
		port := binary.LittleEndian.Uint16(b[5:])
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte(b[1:5])), port), 7
	case familyIPv6:
		if len(b) < 19 {
			return netip.AddrPort{}, -1
		}
		a := [16]byte(b[1:17])
		swapPairs(&a)
		port := binary.LittleEndian.Uint16(b[17:])
		return netip.AddrPortFrom(netip.AddrFrom16(a), port), 19
	}
	return netip.AddrPort{}, -1
}

func swapPairs(a *[16]byte) {
	for i := 0; i < len(a); i += 2 {
		a[i], a[i+1] = a[i+1], a[i]
	}
}

func appendAddrs(b []byte, addrs []netip.AddrPort) []byte {
	b = binary.LittleEndian.AppendUint32(b, uint32(len(addrs)))
	for _, ap := range addrs {
		b = appendAddr(b, ap)
	}
	return b
}

// consumeAddrs reads what appendAddrs wrote, and returns the addresses and bytes read.
func consumeAddrs(b []byte, addrs *[maxServers]netip.AddrPort) (count, n int, reason dropReason) {
	if len(b) < 4 {
		return 0, 0, dropTokenLength
	}
	c := binary.LittleEndian.Uint32(b)
	if c < 1 || c > maxServers {
		return 0, 0, dropServerCount
	}
	n = 4
	for i := range int(c) {
		ap, m := consumeAddr(b[n:])
		if m < 0 {
			return 0, 0, dropAddressType
		}
		addrs[i] = ap
		n += m
	}
	return int(c), n, dropNone
}
