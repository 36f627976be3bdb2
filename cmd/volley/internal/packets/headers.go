package packets

import (
	"net/netip"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
)

// A Segment is a UDP datagram or a piece of a TCP stream.
type Segment struct {
	From, To netip.AddrPort
	TCP      bool
	Payload  []byte // part of the packet
	// Missing is how many bytes of the payload were not captured. Of TCP it is 1
	// for any number of them.
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

// raw are numbers of tcpdump.org for packets of IP without anything in front.
var raw = map[layers.LinkType]bool{12: true, 14: true, layers.LinkTypeIPv4: true, layers.LinkTypeIPv6: true}

// Parse finds the datagram or segment in a packet.
func Parse(link layers.LinkType, b []byte) (s Segment, kind Kind) {
	if raw[link] {
		link = layers.LinkTypeRaw
	}
	if link >= layers.LinkTypeMax || layers.LinkTypeMetadata[link].DecodeWith == nil {
		return s, Unknown
	}
	p := gopacket.NewPacket(b, link, gopacket.DecodeOptions{Lazy: true, NoCopy: true})
	var from, to uint16
	switch t := p.TransportLayer().(type) {
	case *layers.UDP:
		from, to = uint16(t.SrcPort), uint16(t.DstPort)
		s.Payload, s.Missing = t.Payload, max(0, int(t.Length)-8-len(t.Payload))
	case *layers.TCP:
		from, to = uint16(t.SrcPort), uint16(t.DstPort)
		s.TCP, s.Payload, s.Seq, s.SYN, s.FIN, s.RST = true, t.Payload, t.Seq, t.SYN, t.FIN, t.RST
		if p.Metadata().Truncated {
			s.Missing = 1
		}
	default:
		if p.Layer(gopacket.LayerTypeFragment) != nil {
			return s, Fragment
		}
		return s, Other
	}
	if p.ErrorLayer() != nil {
		return s, Other
	}
	src, dst := p.NetworkLayer().NetworkFlow().Endpoints()
	s.From, s.To = addrPort(src, from), addrPort(dst, to)
	return s, Whole
}

func addrPort(e gopacket.Endpoint, port uint16) netip.AddrPort {
	a, _ := netip.AddrFromSlice(e.Raw())
	return netip.AddrPortFrom(a.Unmap(), port)
}
