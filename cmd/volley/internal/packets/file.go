// Package packets reads what programs such as tcpdump and Wireshark have
// captured: files of packets, the headers in front of datagrams, and the streams
// of TCP. It takes any input: what it keeps is bounded, and files are read from
// front to back, however long they are.
package packets

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"
)

// A Packet is one packet of a file.
type Packet struct {
	Time time.Time // zero: unknown
	Link uint32    // what is in front of IP: a LINKTYPE number of tcpdump.org
	Data []byte    // until the next call of Next
	Size int       // bytes on the network: more than in Data if the rest was not captured
}

const (
	maxPacket     = 1 << 20 // bytes of one packet
	maxInterfaces = 1 << 12 // of a section
)

// A Reader reads a file in the format pcap or pcapng.
type Reader struct {
	r     *bufio.Reader
	order binary.ByteOrder
	data  []byte

	next func() (Packet, error)
	link uint32        // pcap
	unit time.Duration // pcap: what fractions of seconds count
	ifs  []interfaceInfo
}

// magics are the first bytes of the formats.
var magics = map[string]func(*Reader) error{
	"\xa1\xb2\xc3\xd4": func(r *Reader) error { return r.openPcap(binary.BigEndian, time.Microsecond) },
	"\xd4\xc3\xb2\xa1": func(r *Reader) error { return r.openPcap(binary.LittleEndian, time.Microsecond) },
	"\xa1\xb2\x3c\x4d": func(r *Reader) error { return r.openPcap(binary.BigEndian, time.Nanosecond) },
	"\x4d\x3c\xb2\xa1": func(r *Reader) error { return r.openPcap(binary.LittleEndian, time.Nanosecond) },
	"\x0a\x0d\x0d\x0a": func(r *Reader) error { r.next = r.nextNg; return nil },
}

// IsCapture reports whether a file that begins so is one of packets. It wants
// four bytes.
func IsCapture(b []byte) bool {
	return len(b) >= 4 && magics[string(b[:4])] != nil
}

// NewReader begins to read a file.
func NewReader(r io.Reader) (*Reader, error) {
	reader := &Reader{r: bufio.NewReaderSize(r, 64<<10)}
	magic, err := reader.r.Peek(4)
	if err != nil || !IsCapture(magic) {
		return nil, errors.New("this is not a capture: it is neither pcap nor pcapng")
	}
	return reader, magics[string(magic)](reader)
}

// Next returns the next packet. The error is io.EOF at the end of the file.
func (r *Reader) Next() (Packet, error) { return r.next() }

// cut turns the end of a file where there should be more into an error that says
// so.
func cut(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("the capture ends within a packet; was it cut off, or is it still being written?")
	}
	return err
}

// read returns the next n bytes, until the next call.
func (r *Reader) read(n int) ([]byte, error) {
	if n > cap(r.data) {
		r.data = make([]byte, n)
	}
	b := r.data[:n]
	_, err := io.ReadFull(r.r, b)
	return b, err
}

func (r *Reader) openPcap(order binary.ByteOrder, unit time.Duration) error {
	h, err := r.read(24)
	if err != nil {
		return cut(err)
	}
	r.order, r.unit, r.next = order, unit, r.nextPcap
	r.link = order.Uint32(h[20:]) & 0x0fffffff // above are remarks about checksums
	return nil
}

func (r *Reader) nextPcap() (p Packet, err error) {
	h, err := r.read(16)
	if errors.Is(err, io.EOF) {
		return p, io.EOF
	} else if err != nil {
		return p, cut(err)
	}
	p.Time = time.Unix(int64(r.order.Uint32(h)), int64(r.order.Uint32(h[4:]))*int64(r.unit))
	n, size := r.order.Uint32(h[8:]), r.order.Uint32(h[12:])
	if n > maxPacket {
		return p, fmt.Errorf("the capture is damaged: a packet has %d bytes", n)
	}
	p.Link, p.Size = r.link, int(min(size, 1<<30))
	p.Data, err = r.read(int(n))
	if err != nil {
		return p, cut(err)
	}
	return p, nil
}

// Types of blocks in pcapng.
const (
	blockSection   = 0x0a0d0d0a
	blockInterface = 1
	blockOld       = 2
	blockSimple    = 3
	blockEnhanced  = 6
)

// interfaceInfo is what a file says of the place where packets were captured.
type interfaceInfo struct {
	link   uint32
	snap   uint32
	units  uint64 // of a second in its times
	offset int64  // seconds to add
}

// nextNg reads blocks until one holds a packet.
func (r *Reader) nextNg() (p Packet, err error) {
	for {
		typ, body, err := r.block()
		if err != nil {
			return p, err
		}
		switch typ {
		case blockInterface:
			if err := r.addInterface(body); err != nil {
				return p, err
			}
		case blockEnhanced, blockOld, blockSimple:
			return r.packet(typ, body)
		}
	}
}

// block reads a block. Of those that hold no packet and are large, there is no
// body.
func (r *Reader) block() (typ uint32, body []byte, err error) {
	h, err := r.read(8)
	if errors.Is(err, io.EOF) {
		return 0, nil, io.EOF
	} else if err != nil {
		return 0, nil, cut(err)
	}
	if bytes.Equal(h[:4], []byte{0x0a, 0x0d, 0x0d, 0x0a}) {
		return r.section(bytes.Clone(h))
	}
	if r.order == nil {
		return 0, nil, errDamaged
	}
	typ = r.order.Uint32(h)
	return r.rest(typ, r.order.Uint32(h[4:]), 8)
}

var errDamaged = errors.New("the capture is damaged: a block of pcapng has a wrong length")

// section begins a section of the file, which says in what order bytes are.
func (r *Reader) section(h []byte) (uint32, []byte, error) {
	magic, err := r.read(4)
	if err != nil {
		return 0, nil, cut(err)
	}
	switch string(magic) {
	case "\x1a\x2b\x3c\x4d":
		r.order = binary.BigEndian
	case "\x4d\x3c\x2b\x1a":
		r.order = binary.LittleEndian
	default:
		return 0, nil, errors.New("the capture is damaged: a section of pcapng has no byte order")
	}
	r.ifs = r.ifs[:0]
	return r.rest(blockSection, r.order.Uint32(h[4:]), 12)
}

// rest reads what follows the first done bytes of a block.
func (r *Reader) rest(typ, length uint32, done uint32) (uint32, []byte, error) {
	if length < done+4 || length%4 != 0 {
		return 0, nil, errDamaged
	}
	n := int64(length - done - 4)
	holds := typ == blockInterface || typ == blockEnhanced || typ == blockOld || typ == blockSimple
	if holds && n > maxPacket {
		return 0, nil, fmt.Errorf("the capture is damaged: a block has %d bytes", length)
	}
	if !holds {
		_, err := io.CopyN(io.Discard, r.r, n+4)
		return typ, nil, cutOrNil(err)
	}
	b, err := r.read(int(n) + 4)
	if err != nil {
		return 0, nil, cut(err)
	}
	if r.order.Uint32(b[n:]) != length {
		return 0, nil, errDamaged
	}
	return typ, b[:n], nil
}

func cutOrNil(err error) error {
	if err == nil {
		return nil
	}
	return cut(err)
}

// addInterface reads the description of an interface.
func (r *Reader) addInterface(b []byte) error {
	if len(b) < 8 {
		return errDamaged
	}
	if len(r.ifs) == maxInterfaces {
		return fmt.Errorf("more than %d interfaces in a capture", maxInterfaces)
	}
	info := interfaceInfo{link: uint32(r.order.Uint16(b)), snap: r.order.Uint32(b[4:]), units: 1e6}
	for b = b[8:]; len(b) >= 4; {
		code, n := r.order.Uint16(b), int(r.order.Uint16(b[2:]))
		if b = b[4:]; code == 0 || n > len(b) {
			break
		}
		switch {
		case code == 9 && n == 1:
			info.units = units(b[0])
		case code == 14 && n == 8:
			info.offset = int64(r.order.Uint64(b))
		}
		b = b[min(len(b), (n+3)&^3):]
	}
	r.ifs = append(r.ifs, info)
	return nil
}

// units returns how many of its units of time a second has: a power of 10, or of
// 2 if the highest bit is set. What does not fit is taken for microseconds.
func units(resolution byte) uint64 {
	n := resolution & 0x7f
	switch {
	case resolution&0x80 != 0 && n < 64:
		return 1 << n
	case resolution&0x80 == 0 && n < 19:
		u := uint64(1)
		for range n {
			u *= 10
		}
		return u
	}
	return 1e6
}

// lastSecond is the last whole one of the year 9999, since 1970: later times have no
// form in JSON.
const lastSecond = 253402300799

// time converts a time of the interface.
func (i *interfaceInfo) time(t uint64) time.Time {
	s := t / i.units
	at := int64(s) + i.offset // negative if it overflows
	if s > lastSecond || at < 0 || at >= lastSecond {
		return time.Time{}
	}
	frac := float64(t%i.units) / float64(i.units)
	return time.Unix(at, int64(frac*1e9+0.5))
}

// packet reads a block that holds a packet.
func (r *Reader) packet(typ uint32, b []byte) (p Packet, err error) {
	need, id, n := 20, uint32(0), uint32(0)
	if typ == blockSimple {
		need = 4
	}
	if len(b) < need {
		return p, errDamaged
	}
	switch typ {
	case blockEnhanced:
		id = r.order.Uint32(b)
	case blockOld:
		id = uint32(r.order.Uint16(b))
	}
	if uint64(id) >= uint64(len(r.ifs)) {
		return p, fmt.Errorf("the capture is damaged: a packet of interface %d, which is not described", id)
	}
	info := &r.ifs[id]
	p.Link = info.link
	if typ == blockSimple {
		size := r.order.Uint32(b)
		if n = size; info.snap != 0 {
			n = min(n, info.snap)
		}
		p.Size = int(min(size, 1<<30))
	} else {
		p.Time = info.time(uint64(r.order.Uint32(b[4:]))<<32 | uint64(r.order.Uint32(b[8:])))
		n = r.order.Uint32(b[12:])
		p.Size = int(min(r.order.Uint32(b[16:]), 1<<30))
	}
	if uint64(n) > uint64(len(b)-need) {
		return p, errDamaged
	}
	p.Data = b[need : need+int(n)]
	return p, nil
}
