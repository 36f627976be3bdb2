package main

import (
	"fmt"
	"io"
	"math"
	"net/netip"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"

	"volley/capture"
)

// Datagrams of a capture become packets of IP, for which pcapng has the link type "raw".

const (
	headersIPv4 = 20 + 8
	headersIPv6 = 40 + 8
	maxPayload  = math.MaxUint16 - headersIPv4 // of UDP over IPv4
)

// writePcapng returns how many datagrams it has written, and how many UDP cannot carry.
func writePcapng(r *capture.Reader, out io.Writer) (n, skipped int, err error) {
	w, err := pcapgo.NewNgWriterInterface(out, pcapgo.NgInterface{
		Name: "volley", Description: "datagrams of protocol cores, with headers that were made up", LinkType: layers.LinkTypeRaw,
	}, pcapgo.NgWriterOptions{SectionInfo: pcapgo.NgSectionInfo{
		Application: "volley " + r.Header.Library, OS: r.Header.Platform, Comment: "of a capture by package capture of volley",
	}})
	if err != nil {
		return 0, 0, err
	}
	p := &packer{w: w, pairs: make(map[uint64]endpoints)}
	err = p.all(r)
	if flushErr := w.Flush(); err == nil {
		err = flushErr
	}
	return p.n, p.skipped, err
}

// A packer puts datagrams into packets.
type packer struct {
	w          *pcapgo.NgWriter
	pairs      map[uint64]endpoints // of connections, by their ids
	buf        gopacket.SerializeBuffer
	n, skipped int
	id         uint16 // of IPv4 packets
}

// endpoints are the addresses of a connection.
type endpoints struct{ local, remote netip.AddrPort }

func (p *packer) all(r *capture.Reader) error {
	p.buf = gopacket.NewSerializeBuffer()
	for {
		record, err := r.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		switch id := record.Conn.ID; record.Kind {
		case "opened", "joined":
			p.pairs[id] = endsOf(record.Conn)
		case "closed":
			delete(p.pairs, id)
		default:
			for _, packet := range record.Packets {
				if err := p.write(p.pairs[id], packet); err != nil {
					return err
				}
			}
		}
	}
}

// endsOf returns the addresses that a connection has, or some that stand for them.
func endsOf(c *capture.Connection) endpoints {
	local, localErr := netip.ParseAddrPort(c.Local)
	remote, remoteErr := netip.ParseAddrPort(c.Remote)
	local, remote = plain(local), plain(remote)
	switch {
	case remoteErr == nil && localErr == nil && local.Addr().Is4() == remote.Addr().Is4():
		return endpoints{local, remote}
	case remoteErr == nil: // a socket on all addresses
		all := netip.IPv4Unspecified()
		if !remote.Addr().Is4() {
			all = netip.IPv6Unspecified()
		}
		return endpoints{netip.AddrPortFrom(all, local.Port()), remote}
	}
	port := 49152 + uint16(c.ID%16384)
	return endpoints{
		netip.AddrPortFrom(netip.AddrFrom4([4]byte{192, 0, 2, 1}), port),
		netip.AddrPortFrom(netip.AddrFrom4([4]byte{192, 0, 2, 2}), port),
	}
}

// plain returns an address without zone, and of IPv4 where it is one.
func plain(a netip.AddrPort) netip.AddrPort {
	if !a.IsValid() {
		return a
	}
	return netip.AddrPortFrom(a.Addr().Unmap().WithZone(""), a.Port())
}

// write writes one datagram. Of one whose end was left out it says how long it was.
func (p *packer) write(e endpoints, d capture.Packet) error {
	if d.Size > maxPayload {
		p.skipped++
		return nil
	}
	from, to := e.remote, e.local
	if d.Sent {
		from, to = to, from
	}
	packet, err := p.packet(from, to, d)
	if err != nil {
		return fmt.Errorf("datagram %d: %w", p.n+1, err)
	}
	p.n++
	return p.w.WritePacket(gopacket.CaptureInfo{
		Timestamp: d.Time, CaptureLength: len(packet), Length: len(packet) + d.Size - len(d.Data),
	}, packet)
}

// packet returns a datagram with headers.
func (p *packer) packet(from, to netip.AddrPort, d capture.Packet) ([]byte, error) {
	udp := &layers.UDP{
		SrcPort: layers.UDPPort(from.Port()), DstPort: layers.UDPPort(to.Port()), Length: uint16(8 + d.Size),
	}
	var ip gopacket.SerializableLayer
	if from.Addr().Is4() {
		p.id++
		ip4 := &layers.IPv4{
			Version: 4, IHL: 5, TTL: 64, Protocol: layers.IPProtocolUDP, Id: p.id, Length: uint16(headersIPv4 + d.Size),
			SrcIP: from.Addr().AsSlice(), DstIP: to.Addr().AsSlice(),
		}
		udp.SetNetworkLayerForChecksum(ip4)
		ip = ip4
	} else {
		ip6 := &layers.IPv6{
			Version: 6, HopLimit: 64, NextHeader: layers.IPProtocolUDP, Length: uint16(8 + d.Size),
			SrcIP: from.Addr().AsSlice(), DstIP: to.Addr().AsSlice(),
		}
		udp.SetNetworkLayerForChecksum(ip6)
		ip = ip6
	}
	whole := len(d.Data) == d.Size
	// A checksum of what is not there cannot be made; 0 is none.
	if err := gopacket.SerializeLayers(p.buf, gopacket.SerializeOptions{ComputeChecksums: whole}, udp, gopacket.Payload(d.Data)); err != nil {
		return nil, err
	}
	err := ip.SerializeTo(p.buf, gopacket.SerializeOptions{ComputeChecksums: true})
	return p.buf.Bytes(), err
}
