package packets

import (
	"encoding/binary"
	"net/netip"
)

// Numbers of what is in front of IP, as tcpdump.org lists them.
const (
	LinkNull     = 0
	LinkEthernet = 1
	LinkRaw      = 101
	LinkLoop     = 108
	LinkSLL      = 113
	LinkIPv4     = 228
	LinkIPv6     = 229
	LinkSLL2     = 276
)

// A Segment is a UDP datagram or a piece of a TCP stream.
type Segment struct {
	From, To netip.AddrPort
	TCP      bool
	Payload  []byte // part of the packet
	// Missing is how many bytes of the payload were not captured.
	Missing int

	Seq           uint32 // of TCP: the number of the first byte, or of SYN
	SYN, FIN, RST bool
}

// A Kind says what a packet is.
type Kind uint8

const (
	Other    Kind = iota // nothing of UDP and TCP, or damaged
	Unknown              // the number of what is in front of IP is not known here
	Fragment             // a fragment of IP, which is not put together
	Whole
)

// Parse finds the datagram or segment in a packet.
func Parse(link uint32, b []byte) (s Segment, kind Kind) {
	ip, known := insideLink(link, b)
	if !known {
		return s, Unknown
	}
	return ParseIP(ip)
}

// insideLink returns the packet of IP, nil if there is none.
func insideLink(link uint32, b []byte) (ip []byte, known bool) {
	switch link {
	case LinkNull, LinkLoop:
		return from(b, 4), true
	case LinkRaw, LinkIPv4, LinkIPv6, 12, 14:
		return b, true
	case LinkEthernet:
		return insideEthernet(b, 12), true
	case LinkSLL:
		return insideEthernet(b, 14), true
	case LinkSLL2:
		if len(b) < 20 {
			return nil, true
		}
		if t := binary.BigEndian.Uint16(b); t != 0x0800 && t != 0x86dd {
			return nil, true
		}
		return b[20:], true
	}
	return nil, false
}

func from(b []byte, n int) []byte {
	if len(b) < n {
		return nil
	}
	return b[n:]
}

// insideEthernet returns what follows the type at off, and tags of VLANs.
func insideEthernet(b []byte, off int) []byte {
	for range 4 {
		if len(b) < off+2 {
			return nil
		}
		switch binary.BigEndian.Uint16(b[off:]) {
		case 0x0800, 0x86dd:
			return b[off+2:]
		case 0x8100, 0x88a8, 0x9100:
			off += 4
		default:
			return nil
		}
	}
	return nil
}

// ParseIP finds the datagram or segment in a packet of IP.
func ParseIP(b []byte) (s Segment, kind Kind) {
	if len(b) == 0 {
		return s, Other
	}
	switch b[0] >> 4 {
	case 4:
		return parseIPv4(b)
	case 6:
		return parseIPv6(b)
	}
	return s, Other
}

func parseIPv4(b []byte) (s Segment, kind Kind) {
	if len(b) < 20 {
		return s, Other
	}
	header, total := int(b[0]&0xf)*4, int(binary.BigEndian.Uint16(b[2:]))
	if total == 0 { // left to the network card
		total = len(b)
	}
	if header < 20 || header > total || header > len(b) {
		return s, Other
	}
	if binary.BigEndian.Uint16(b[6:])&0x3fff != 0 {
		return s, Fragment
	}
	src, dst := netip.AddrFrom4([4]byte(b[12:])), netip.AddrFrom4([4]byte(b[16:]))
	return parseTransport(src, dst, b[9], b[header:min(total, len(b))], total-header)
}

func parseIPv6(b []byte) (s Segment, kind Kind) {
	if len(b) < 40 {
		return s, Other
	}
	left := int(binary.BigEndian.Uint16(b[4:]))
	if left == 0 {
		left = len(b) - 40
	}
	src, dst := netip.AddrFrom16([16]byte(b[8:])), netip.AddrFrom16([16]byte(b[24:]))
	next, rest := b[6], b[40:]
	rest = rest[:min(left, len(rest))]
	for range 8 { // more headers than programs send
		n := 0
		switch next {
		case 0, 43, 60:
			if len(rest) < 8 {
				return s, Other
			}
			n = 8 + 8*int(rest[1])
		case 51:
			if len(rest) < 8 {
				return s, Other
			}
			n = 8 + 4*int(rest[1])
		case 44:
			if len(rest) < 8 {
				return s, Other
			}
			if binary.BigEndian.Uint16(rest[2:])&^6 != 0 {
				return s, Fragment
			}
			n = 8
		default:
			return parseTransport(src, dst, next, rest, left)
		}
		if n > len(rest) {
			return s, Other
		}
		next, rest, left = rest[0], rest[n:], left-n
	}
	return s, Other
}

// parseTransport finds the payload of UDP and TCP in b, which has size bytes on
// the network.
func parseTransport(src, dst netip.Addr, protocol byte, b []byte, size int) (s Segment, kind Kind) {
	header := 8
	switch protocol {
	case 17:
		if len(b) < 8 {
			return s, Other
		}
		if n := int(binary.BigEndian.Uint16(b[4:])); n >= 8 && n < size {
			size = n
			b = b[:min(n, len(b))]
		}
	case 6:
		if len(b) < 20 {
			return s, Other
		}
		header = int(b[12]>>4) * 4
		if header < 20 || header > len(b) {
			return s, Other
		}
		s.TCP, s.Seq = true, binary.BigEndian.Uint32(b[4:])
		s.FIN, s.SYN, s.RST = b[13]&1 != 0, b[13]&2 != 0, b[13]&4 != 0
	default:
		return s, Other
	}
	s.From = netip.AddrPortFrom(src.Unmap(), binary.BigEndian.Uint16(b))
	s.To = netip.AddrPortFrom(dst.Unmap(), binary.BigEndian.Uint16(b[2:]))
	s.Payload, s.Missing = b[header:], max(0, size-len(b))
	return s, Whole
}
