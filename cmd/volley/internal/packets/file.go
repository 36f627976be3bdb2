// Package packets reads what programs such as tcpdump and Wireshark have
// captured: files of packets, the headers in front of datagrams, and the streams
// of TCP. It takes any input, and reads files from front to back, however long they
// are.
package packets

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"
)

// A Packet is one packet of a file.
type Packet struct {
	Time time.Time       // zero: unknown
	Link layers.LinkType // what is in front of IP
	Data []byte
	Size int // bytes on the network: more than in Data if the rest was not captured
}

// maxPacket limits the bytes of one packet.
const maxPacket = 1 << 20

// A Reader reads a file in the format pcap or pcapng.
type Reader struct {
	source gopacket.PacketDataSource
	link   layers.LinkType // of all packets of pcap
}

// magicNg begins a file of pcapng, the others one of pcap with micro- or nanoseconds.
const magicNg = "\x0a\x0d\x0d\x0a"

var magics = []string{magicNg, "\xa1\xb2\xc3\xd4", "\xd4\xc3\xb2\xa1", "\xa1\xb2\x3c\x4d", "\x4d\x3c\xb2\xa1"}

// IsCapture reports whether a file that begins so is one of packets. It wants four bytes.
func IsCapture(b []byte) bool {
	return len(b) >= 4 && slices.Contains(magics, string(b[:4]))
}

// NewReader begins to read a file.
func NewReader(r io.Reader) (*Reader, error) {
	in := bufio.NewReaderSize(r, 64<<10)
	magic, err := in.Peek(4)
	if err != nil || !IsCapture(magic) {
		return nil, errors.New("this is not a capture: it is neither pcap nor pcapng")
	}
	if string(magic) == magicNg {
		ng, err := pcapgo.NewNgReader(in, pcapgo.NgReaderOptions{WantMixedLinkType: true})
		return &Reader{source: ng}, damage(err)
	}
	old, err := pcapgo.NewReader(in)
	if err != nil {
		return nil, damage(err)
	}
	old.SetSnaplen(maxPacket) // some programs write longer packets than they say
	return &Reader{source: old, link: old.LinkType()}, nil
}

// Next returns the next packet. The error is io.EOF at the end of the file.
func (r *Reader) Next() (Packet, error) {
	data, info, err := r.source.ReadPacketData()
	if err != nil {
		return Packet{}, damage(err)
	}
	p := Packet{Time: info.Timestamp, Link: r.link, Data: data, Size: info.Length}
	if len(info.AncillaryData) > 0 {
		p.Link = info.AncillaryData[0].(layers.LinkType)
	}
	if year := p.Time.UTC().Year(); year < 1970 || year > 9999 { // later times have no form in JSON
		p.Time = time.Time{}
	}
	return p, nil
}

// damage says what is wrong with a file. The end is nothing wrong, except within a packet.
func damage(err error) error {
	switch {
	case err == nil || err == io.EOF:
		return err
	case errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("the capture ends within a packet; was it cut off, or is it still being written?")
	}
	return fmt.Errorf("the capture is damaged: %w", err)
}
