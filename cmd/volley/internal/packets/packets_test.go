package packets

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net/netip"
	"testing"
	"time"

	"github.com/gopacket/gopacket/layers"
	"github.com/stretchr/testify/require"
)

// udp returns a packet of IPv4 with a datagram.
func udp(payload string) []byte {
	b := []byte{0x45, 0, 0, byte(28 + len(payload)), 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2,
		0x13, 0x88, 0x1e, 0x61, 0, byte(8 + len(payload)), 0, 0}
	return append(b, payload...)
}

// udp6 returns a packet of IPv6 with a datagram, behind extension headers.
func udp6(payload string, extensions ...byte) []byte {
	b := make([]byte, 40)
	b[0], b[5], b[6] = 0x60, byte(len(extensions)+8+len(payload)), 17
	if len(extensions) > 0 {
		b[6] = 60
	}
	b[23], b[39] = 1, 2
	b = append(b, extensions...)
	b = append(b, 0x13, 0x88, 0x1e, 0x61, 0, byte(8+len(payload)), 0, 0)
	return append(b, payload...)
}

var (
	ten1 = netip.MustParseAddrPort("10.0.0.1:5000")
	ten2 = netip.MustParseAddrPort("10.0.0.2:7777")
	six1 = netip.MustParseAddrPort("[::1]:5000")
	six2 = netip.MustParseAddrPort("[::2]:7777")
)

func TestParseLinks(t *testing.T) {
	ether := func(typ ...byte) []byte { return append(make([]byte, 12), typ...) }
	for _, c := range []struct {
		name  string
		link  layers.LinkType
		front []byte
		ip    []byte
		six   bool
	}{
		{"raw", layers.LinkTypeRaw, nil, udp("hello"), false},
		{"raw, IPv6", layers.LinkTypeRaw, nil, udp6("hello"), true},
		{"IPv4", layers.LinkTypeIPv4, nil, udp("hello"), false},
		{"IPv6", layers.LinkTypeIPv6, nil, udp6("hello"), true},
		{"IPv6 with options", layers.LinkTypeIPv6, nil, udp6("hello", 17, 0, 1, 4, 0, 0, 0, 0), true},
		{"loopback of BSD", layers.LinkTypeNull, []byte{2, 0, 0, 0}, udp("hello"), false},
		{"loopback of OpenBSD", layers.LinkTypeLoop, []byte{0, 0, 0, 24}, udp6("hello"), true},
		{"Ethernet", layers.LinkTypeEthernet, ether(8, 0), udp("hello"), false},
		{"Ethernet, padded", layers.LinkTypeEthernet, ether(8, 0), append(udp("hello"), make([]byte, 13)...), false},
		{"Ethernet, two VLANs", layers.LinkTypeEthernet, ether(0x88, 0xa8, 0, 1, 0x81, 0, 0, 2, 0x86, 0xdd), udp6("hello"), true},
		{"Linux cooked", layers.LinkTypeLinuxSLL, append(make([]byte, 14), 8, 0), udp("hello"), false},
		{"Linux cooked 2", layers.LinkTypeLinuxSLL2, append([]byte{0x86, 0xdd}, make([]byte, 18)...), udp6("hello"), true},
	} {
		s, kind := Parse(c.link, append(c.front, c.ip...))
		require.Equal(t, Whole, kind, c.name)
		require.Equal(t, "hello", string(s.Payload), c.name)
		require.Zero(t, s.Missing, c.name)
		want := []netip.AddrPort{ten1, ten2}
		if c.six {
			want = []netip.AddrPort{six1, six2}
		}
		require.Equal(t, want, []netip.AddrPort{s.From, s.To}, c.name)
		for n := range len(c.front) + len(c.ip) { // cut short anywhere
			Parse(c.link, append(c.front[:len(c.front):len(c.front)], c.ip...)[:n])
		}
	}
	_, kind := Parse(999, udp("hello"))
	require.Equal(t, Unknown, kind)
	for name, b := range map[string][]byte{"ARP": append(ether(8, 6), udp("hello")...), "nothing": nil} {
		_, kind := Parse(layers.LinkTypeEthernet, b)
		require.Equal(t, Other, kind, name)
	}
}

func TestParseOdd(t *testing.T) {
	b := udp("hello")
	s, kind := Parse(layers.LinkTypeRaw, b[:30])
	require.Equal(t, Whole, kind)
	require.Equal(t, "he", string(s.Payload))
	require.Equal(t, 3, s.Missing)

	b[6] = 0x20 // more fragments
	_, kind = Parse(layers.LinkTypeRaw, b)
	require.Equal(t, Fragment, kind)
	b[6], b[7] = 0, 1 // not the first
	_, kind = Parse(layers.LinkTypeRaw, b)
	require.Equal(t, Fragment, kind)
	b[6], b[7] = 0x40, 0 // not to be fragmented
	_, kind = Parse(layers.LinkTypeRaw, b)
	require.Equal(t, Whole, kind)

	six := udp6("hello", 17, 0, 0, 0, 0, 0, 0, 1)
	six[6], six[43] = 44, 8
	_, kind = Parse(layers.LinkTypeRaw, six)
	require.Equal(t, Fragment, kind)

	b[9] = 1 // ICMP
	_, kind = Parse(layers.LinkTypeRaw, b)
	require.Equal(t, Other, kind)
}

// Types of blocks in pcapng.
const (
	blockInterface = 1
	blockOld       = 2
	blockSimple    = 3
	blockEnhanced  = 6
)

// A fileBuilder writes files of one byte order.
type fileBuilder struct {
	order interface {
		binary.ByteOrder
		binary.AppendByteOrder
	}
	b []byte
}

func (w *fileBuilder) u32(v ...uint32) {
	for _, x := range v {
		w.b = w.order.AppendUint32(w.b, x)
	}
}

// block appends a block of pcapng.
func (w *fileBuilder) block(typ uint32, body []byte) {
	body = append(bytes.Clone(body), make([]byte, -len(body)&3)...)
	w.u32(typ, uint32(12+len(body)))
	w.b = append(w.b, body...)
	w.u32(uint32(12 + len(body)))
}

// body returns what is appended by f.
func (w *fileBuilder) body(f func(*fileBuilder)) []byte {
	inner := fileBuilder{order: w.order}
	f(&inner)
	return inner.b
}

func pcap(order binary.ByteOrder, magic uint32, fraction uint32, packets ...[]byte) []byte {
	w := builder(order)
	w.u32(magic)
	w.b = w.order.AppendUint16(w.order.AppendUint16(w.b, 2), 4)
	w.u32(0, 0, 65535, uint32(layers.LinkTypeRaw))
	for i, p := range packets {
		w.u32(uint32(1_700_000_000+i), fraction, uint32(len(p)), uint32(len(p)+1))
		w.b = append(w.b, p...)
	}
	return w.b
}

func builder(order binary.ByteOrder) *fileBuilder {
	if order == binary.ByteOrder(binary.BigEndian) {
		return &fileBuilder{order: binary.BigEndian}
	}
	return &fileBuilder{order: binary.LittleEndian}
}

// pcapng has a section with all types of packets, and another one after that.
func pcapng(order binary.ByteOrder) []byte {
	w := builder(order)
	for range 2 {
		w.block(0x0a0d0d0a, w.body(func(w *fileBuilder) {
			w.u32(0x1a2b3c4d)
			w.b = append(w.order.AppendUint16(w.b, 1), 0, 0)
			w.u32(0xffffffff, 0xffffffff)
		}))
		w.block(blockInterface, w.body(func(w *fileBuilder) { // microseconds
			w.b = w.order.AppendUint16(w.b, uint16(layers.LinkTypeRaw))
			w.b = append(w.b, 0, 0, 0, 0, 0, 0)
		}))
		w.block(blockInterface, w.body(func(w *fileBuilder) { // nanoseconds, an hour late
			w.b = w.order.AppendUint16(w.b, uint16(layers.LinkTypeEthernet))
			w.b = append(w.b, 0, 0, 0, 0, 0, 0)
			for _, v := range []uint16{2, 3} {
				w.b = w.order.AppendUint16(w.b, v)
			}
			w.b = append(w.b, "lo\x00\x00"...)
			for _, v := range []uint16{9, 1} {
				w.b = w.order.AppendUint16(w.b, v)
			}
			w.b = append(w.b, 9, 0, 0, 0)
			for _, v := range []uint16{14, 8} {
				w.b = w.order.AppendUint16(w.b, v)
			}
			w.b = w.order.AppendUint64(w.b, 3600)
			w.b = append(w.b, 0, 0, 0, 0)
		}))
		w.block(0x80000bad, make([]byte, 100)) // what nobody knows
		w.block(blockEnhanced, w.body(func(w *fileBuilder) {
			us := uint64(1_700_000_000_000_500)
			w.u32(0, uint32(us>>32), uint32(us), 3, 5)
			w.b = append(w.b, "abc"...)
		}))
		w.block(blockOld, w.body(func(w *fileBuilder) {
			ns := uint64(1_699_996_400_000_000_700)
			w.b = append(w.order.AppendUint16(w.b, 1), 0, 0)
			w.u32(uint32(ns>>32), uint32(ns), 2, 2)
			w.b = append(w.b, "de"...)
		}))
		w.block(blockSimple, w.body(func(w *fileBuilder) {
			w.u32(4)
			w.b = append(w.b, "fghi"...)
		}))
	}
	return w.b
}

// readAll returns the packets of a file.
func readAll(b []byte) (list []Packet, err error) {
	r, err := NewReader(bytes.NewReader(b))
	if err != nil {
		return nil, err
	}
	for {
		p, err := r.Next()
		if errors.Is(err, io.EOF) {
			return list, nil
		} else if err != nil {
			return list, err
		}
		p.Data = bytes.Clone(p.Data)
		list = append(list, p)
	}
}

func TestFiles(t *testing.T) {
	for _, order := range []binary.ByteOrder{binary.LittleEndian, binary.BigEndian} {
		for magic, unit := range map[uint32]time.Duration{0xa1b2c3d4: time.Microsecond, 0xa1b23c4d: time.Nanosecond} {
			list, err := readAll(pcap(order, magic, 250, []byte("abc"), nil, []byte("d")))
			require.NoError(t, err)
			require.Len(t, list, 3)
			require.Equal(t, []byte("abc"), list[0].Data)
			require.Equal(t, []any{layers.LinkTypeRaw, 4, time.Unix(1_700_000_002, 250*int64(unit))}, []any{list[0].Link, list[0].Size, list[2].Time.Local()})
		}
		list, err := readAll(pcapng(order))
		require.NoError(t, err)
		require.Len(t, list, 6)
		for i := range 2 {
			require.Equal(t, Packet{time.Unix(1_700_000_000, 500_000).UTC(), layers.LinkTypeRaw, []byte("abc"), 5}, list[3*i])
			require.Equal(t, Packet{time.Unix(1_700_000_000, 700).UTC(), layers.LinkTypeEthernet, []byte("de"), 2}, list[3*i+1])
			require.Equal(t, Packet{time.Time{}, layers.LinkTypeRaw, []byte("fghi"), 4}, list[3*i+2])
		}
	}
}

// TestFilesDamaged reads files that end anywhere, or say nonsense.
func TestFilesDamaged(t *testing.T) {
	for _, whole := range [][]byte{
		pcap(binary.LittleEndian, 0xa1b2c3d4, 0, []byte("abc"), []byte("d")), pcapng(binary.BigEndian), pcapng(binary.LittleEndian),
	} {
		all, err := readAll(whole)
		require.NoError(t, err)
		errs := 0
		for n := range whole {
			list, err := readAll(whole[:n])
			require.LessOrEqual(t, len(list), len(all))
			if err != nil {
				errs++
			}
		}
		require.Greater(t, errs, len(whole)*3/4)
	}
	w := builder(binary.LittleEndian)
	w.b = pcap(binary.LittleEndian, 0xa1b2c3d4, 0)
	w.u32(0, 0, 0xffffffff, 0)
	_, err := readAll(w.b)
	require.ErrorContains(t, err, "the capture is damaged: capture length exceeds snap length: 4294967295")

	for _, length := range []uint32{0, 8, 13, 0xfffffffc} {
		w.b = pcapng(binary.LittleEndian)[:28]
		w.u32(blockEnhanced, length, 0, 0)
		_, err = readAll(w.b)
		require.Error(t, err, length)
	}
	w.b = pcapng(binary.LittleEndian)[:28]
	w.block(blockEnhanced, make([]byte, 20))
	_, err = readAll(w.b)
	require.ErrorContains(t, err, "the capture is damaged: Interface id 0 not present")
	_, err = readAll([]byte("hello"))
	require.ErrorContains(t, err, "neither pcap nor pcapng")
}

// A time that no calendar of ours has is unknown, so that it can be printed in any
// form.
func TestFileTimes(t *testing.T) {
	for _, c := range []struct {
		resolution byte
		high, low  uint32
		offset     uint64
		want       time.Time
	}{
		{0x80, 0, 1_700_000_000, 0, time.Unix(1_700_000_000, 0)},
		{0x80, 0xffffffff, 0xffffffff, 0, time.Time{}},
		{0x80, 0x7fffffff, 0xffffffff, 1, time.Time{}},
		{0x80, 0, 0, 1 << 63, time.Time{}},
		{0x80, 58, 4294967295, 0, time.Time{}},
		{0x80, 0, 1, 253402300797, time.Unix(253402300798, 0)},
		{0x80, 0, 2, 253402300797, time.Unix(253402300799, 0)},
		{0x80, 0, 3, 253402300797, time.Time{}},
	} {
		w := fileBuilder{order: binary.LittleEndian}
		w.b = pcapng(binary.LittleEndian)[:28]
		w.block(blockInterface, w.body(func(w *fileBuilder) {
			w.b = append(w.b, byte(layers.LinkTypeRaw), 0, 0, 0, 0, 0, 0, 0, 9, 0, 1, 0, c.resolution, 0, 0, 0, 14, 0, 8, 0)
			w.b = w.order.AppendUint64(w.b, c.offset)
		}))
		w.block(blockEnhanced, w.body(func(w *fileBuilder) { w.u32(0, c.high, c.low, 0, 0) }))
		list, err := readAll(w.b)
		require.NoError(t, err)
		require.True(t, c.want.Equal(list[0].Time), "%v, not %v", list[0].Time, c.want)
		_, err = list[0].Time.MarshalJSON()
		require.NoError(t, err)
	}
}

// segments returns segments of a stream, as they arrive.
func stream(t *testing.T, s *Streams, segments ...Segment) *Stream {
	t.Helper()
	var last *Stream
	for _, g := range segments {
		g.TCP, g.From, g.To = true, ten1, ten2
		last = s.Add(&g)
	}
	return last
}

func TestStreams(t *testing.T) {
	bytes := func(seq uint32, text string) Segment { return Segment{Seq: seq, Payload: []byte(text)} }
	const top = 0xfffffffe // so that numbers wrap around
	for name, c := range map[string]struct {
		segments []Segment
		want     string
		gap      bool
	}{
		"in order":        {[]Segment{{Seq: top - 1, SYN: true}, bytes(top, "abc"), bytes(1, "de")}, "abcde", false},
		"out of order":    {[]Segment{{Seq: top - 1, SYN: true}, bytes(4, "ghi"), bytes(1, "def"), bytes(top, "abc")}, "abcdefghi", false},
		"repeated":        {[]Segment{{SYN: true}, bytes(1, "abc"), bytes(1, "abc"), bytes(2, "bcde")}, "abcde", false},
		"in mid-stream":   {[]Segment{bytes(1000, "abc"), bytes(1003, "de")}, "abcde", false},
		"two times SYN":   {[]Segment{{SYN: true}, {SYN: true}, bytes(1, "abc"), {SYN: true}}, "abc", false},
		"a new one":       {[]Segment{{SYN: true}, bytes(1, "abc"), {Seq: 77, SYN: true}, bytes(78, "de")}, "de", false},
		"not all is here": {[]Segment{{SYN: true}, bytes(1, "abc"), {Seq: 4, Payload: []byte("d"), Missing: 1}, bytes(6, "f")}, "abcd", true},
		"a hole":          {append([]Segment{{SYN: true}}, many(bytes)...), "", true},
	} {
		s := new(Streams)
		got := stream(t, s, c.segments...)
		require.Equal(t, c.want, string(got.Bytes), name)
		require.Equal(t, c.gap, got.Gap, name)
	}
	s := new(Streams)
	require.True(t, stream(t, s, Segment{SYN: true}, bytes(1, "abc"), Segment{Seq: 4, FIN: true}).Ended)
	require.Empty(t, s.ways)
	for i := range maxStreams + 10 { // nobody can make us keep more
		s.Add(&Segment{From: netip.AddrPortFrom(ten1.Addr(), uint16(i)), To: ten2, SYN: true})
	}
	require.LessOrEqual(t, len(s.ways), maxStreams)
}

// many returns more segments than are kept until what is before them comes.
func many(segment func(uint32, string) Segment) (list []Segment) {
	for i := range maxPieces + 1 {
		list = append(list, segment(uint32(10+2*i), "x"))
	}
	return list
}

// FuzzFile reads any file, and everything in it.
func FuzzFile(f *testing.F) {
	f.Add(pcapng(binary.LittleEndian))
	f.Add(pcapng(binary.BigEndian))
	f.Add(pcap(binary.LittleEndian, 0xa1b2c3d4, 0, udp("hello"), udp6("hello", 17, 0, 1, 4, 0, 0, 0, 0)))
	f.Fuzz(func(t *testing.T, b []byte) {
		list, _ := readAll(b)
		var streams Streams
		total := 0
		for _, p := range list {
			total += len(p.Data)
			for _, link := range []layers.LinkType{p.Link, layers.LinkTypeRaw, layers.LinkTypeEthernet, layers.LinkTypeLinuxSLL, layers.LinkTypeLinuxSLL2, layers.LinkTypeNull} {
				s, kind := Parse(link, p.Data)
				if kind == Whole && s.TCP {
					streams.Add(&s)
				}
			}
		}
		if total > len(b) {
			t.Errorf("%d bytes in packets, of a file of %d", total, len(b))
		}
	})
}
