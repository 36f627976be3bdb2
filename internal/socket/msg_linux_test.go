package socket

import (
	"encoding/binary"
	"net"
	"net/netip"
	"runtime"
	"syscall"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

func TestMessageLayout(t *testing.T) {
	// An array of struct mmsghdr has the alignment of its pointers.
	size, word := unsafe.Sizeof(mmsghdr{}), unsafe.Sizeof(uintptr(0))
	if want := unsafe.Sizeof(syscall.Msghdr{}) + word; size != want {
		t.Errorf("size of mmsghdr = %d, want %d", size, want)
	}
}

// TestControlBuild checks the control messages of messages to be sent by reading
// them as if they had been received.
func TestControlBuild(t *testing.T) {
	lo, err := net.InterfaceByName("lo")
	if err != nil {
		t.Skip(err)
	}
	for _, local := range []string{"", "192.0.2.7", "2001:db8::1", "fe80::1%lo"} {
		var c control
		n, want := 0, netip.Addr{}
		if local != "" {
			want = netip.MustParseAddr(local)
			n = c.appendLocal(n, want)
		}
		if got := c.parse(n); got != (controlInfo{local: want}) {
			t.Errorf("control messages for %s read as %+v", local, got)
		}
		end := c.appendSegment(n, 1200)
		if end > controlSize {
			t.Errorf("control messages of %d bytes in %d", end, controlSize)
		}
		h := (*syscall.Cmsghdr)(unsafe.Pointer(&c.bytes()[n]))
		if size := *(*uint16)(unsafe.Pointer(&c.bytes()[n+syscall.CmsgLen(0)])); h.Type != udpSegment || size != 1200 {
			t.Errorf("behind the address: type %d with size %d, want %d with 1200", h.Type, size, udpSegment)
		}
	}
	var c control
	c.appendLocal(0, netip.MustParseAddr("fe80::1%lo"))
	if got := (*syscall.Inet6Pktinfo)(unsafe.Pointer(&c.bytes()[syscall.CmsgLen(0)])).Ifindex; got != uint32(lo.Index) {
		t.Errorf("interface %d for a zone, want %d", got, lo.Index)
	}
}

func TestSockaddr(t *testing.T) {
	for _, test := range []struct {
		family   int
		addr     string
		want     string // as read back
		wantSize int
	}{
		{syscall.AF_INET, "192.0.2.7:4660", "192.0.2.7:4660", 16},
		{syscall.AF_INET, "[::ffff:192.0.2.7]:80", "192.0.2.7:80", 16},
		{syscall.AF_INET6, "192.0.2.7:4660", "192.0.2.7:4660", 28},
		{syscall.AF_INET6, "[2001:db8::1]:65535", "[2001:db8::1]:65535", 28},
		{syscall.AF_INET6, "[fe80::1%lo]:1", "[fe80::1%lo]:1", 28},
		{syscall.AF_INET6, "[fe80::1%1]:1", "[fe80::1%lo]:1", 28},
		{syscall.AF_INET6, "[fe80::1%999999]:1", "[fe80::1%999999]:1", 28},
	} {
		var sa sockaddr
		n, err := putSockaddr(&sa, test.family, netip.MustParseAddrPort(test.addr))
		if n != test.wantSize || err != nil {
			t.Errorf("putSockaddr(%s) = %d, %v, want %d, nil", test.addr, n, err, test.wantSize)
		}
		if got := sockaddrAddrPort(&sa).String(); got != test.want {
			t.Errorf("sockaddrAddrPort of %s = %s, want %s", test.addr, got, test.want)
		}
	}
	var sa sockaddr
	putSockaddr(&sa, syscall.AF_INET6, netip.MustParseAddrPort("[::1]:258"))
	if b := (*[4]byte)(unsafe.Pointer(&sa)); b[2] != 1 || b[3] != 2 {
		t.Errorf("port 258 stands as %v in memory, want network byte order", b[2:])
	}
	for _, addr := range []netip.AddrPort{{}, netip.MustParseAddrPort("[2001:db8::1]:1")} {
		if _, err := putSockaddr(&sa, syscall.AF_INET, addr); err == nil {
			t.Errorf("putSockaddr(AF_INET, %v) = nil, want an error", addr)
		}
	}
	if _, err := putSockaddr(&sa, syscall.AF_INET6, netip.AddrPort{}); err == nil {
		t.Error("putSockaddr(AF_INET6, no address) = nil, want an error")
	}
	if got := sockaddrAddrPort(&sockaddr{Family: syscall.AF_UNIX}); got.IsValid() {
		t.Errorf("sockaddrAddrPort of another family = %v, want none", got)
	}
}

// appendControl appends a control message, or a broken one that claims to be of
// length bytes.
func appendControl(b []byte, level, typ int32, data []byte, length int) []byte {
	var h syscall.Cmsghdr
	h.SetLen(length)
	h.Level, h.Type = level, typ
	b = append(b, unsafe.Slice((*byte)(unsafe.Pointer(&h)), syscall.SizeofCmsghdr)...)
	start := len(b)
	b = append(b, make([]byte, syscall.CmsgSpace(len(data))-syscall.CmsgLen(0))...)
	copy(b[start:], data)
	return b
}

func TestControlParse(t *testing.T) {
	u32 := func(v uint32) []byte { return binary.NativeEndian.AppendUint32(nil, v) }
	u16 := func(v uint16) []byte { return binary.NativeEndian.AppendUint16(nil, v) }
	message := func(level, typ int32, data []byte) func([]byte) []byte {
		return func(b []byte) []byte { return appendControl(b, level, typ, data, syscall.CmsgLen(len(data))) }
	}
	gro := message(solUDP, udpGRO, u32(1200))
	ovfl := message(syscall.SOL_SOCKET, syscall.SO_RXQ_OVFL, u32(77))
	info4 := message(syscall.IPPROTO_IP, syscall.IP_PKTINFO, []byte{0, 0, 0, 0, 192, 0, 2, 7, 192, 0, 2, 255})
	info6 := func(addr string) func([]byte) []byte {
		a := netip.MustParseAddr(addr).As16()
		return message(syscall.IPPROTO_IPV6, syscall.IPV6_PKTINFO, append(a[:], 0, 0, 0, 0))
	}
	other := message(syscall.IPPROTO_IP, 8, u32(5))
	for _, test := range []struct {
		name     string
		parts    []func([]byte) []byte
		segment  int
		drops    uint32
		hasDrops bool
		local    string
	}{
		{"nothing", nil, 0, 0, false, ""},
		{"a run", []func([]byte) []byte{gro}, 1200, 0, false, ""},
		{"a run, 16 bits", []func([]byte) []byte{message(solUDP, udpGRO, u16(1201))}, 1201, 0, false, ""},
		{"drops", []func([]byte) []byte{ovfl}, 0, 77, true, ""},
		{"both", []func([]byte) []byte{ovfl, gro}, 1200, 77, true, ""},
		{"behind another", []func([]byte) []byte{other, gro}, 1200, 0, false, ""},
		{"too short", []func([]byte) []byte{message(solUDP, udpGRO, []byte{1})}, 0, 0, false, ""},
		{"sent to a broadcast address", []func([]byte) []byte{info4}, 0, 0, false, "192.0.2.7"},
		{"everything", []func([]byte) []byte{ovfl, gro, info6("2001:db8::1")}, 1200, 77, true, "2001:db8::1"},
		{"multicast", []func([]byte) []byte{info6("ff02::1"), gro}, 1200, 0, false, ""},
		{"IPv4 at a dual-stack socket", []func([]byte) []byte{gro, info6("::ffff:192.0.2.255"), info4}, 1200, 0, false, "192.0.2.7"},
		{"bad length", []func([]byte) []byte{func(b []byte) []byte {
			return appendControl(b, solUDP, udpGRO, u32(1), 1000)
		}, gro}, 0, 0, false, ""},
		{"zero length", []func([]byte) []byte{func(b []byte) []byte {
			return appendControl(b, solUDP, udpGRO, u32(1), 0)
		}, gro}, 0, 0, false, ""},
	} {
		var b []byte
		for _, part := range test.parts {
			b = part(b)
		}
		var c control
		copy(unsafe.Slice((*byte)(unsafe.Pointer(&c)), controlSize), b)
		want := controlInfo{test.segment, test.drops, test.hasDrops, netip.Addr{}}
		if test.local != "" {
			want.local = netip.MustParseAddr(test.local)
		}
		if got := c.parse(len(b)); got != want {
			t.Errorf("%s: parse = %+v, want %+v", test.name, got, want)
		}
	}
}

func FuzzControlParse(f *testing.F) {
	f.Add(appendControl(nil, solUDP, udpGRO, []byte{0, 4, 0, 0}, syscall.CmsgLen(4)), 24)
	f.Fuzz(func(_ *testing.T, b []byte, size int) {
		var c control
		copy(unsafe.Slice((*byte)(unsafe.Pointer(&c)), controlSize), b)
		c.parse(max(size, 0)) // must not panic
	})
}

// A reader that takes, gives back and takes again has one op, on whichever
// processor it runs, and no collection takes it away.
func TestOneReaderHasOneOp(t *testing.T) {
	spareOp.Store(nil)
	op := takeReceiveOp()
	other := takeReceiveOp()
	require.NotSame(t, op, other)
	op.giveBack()
	other.giveBack()
	for range 3 { // what is in a pool survives two
		runtime.GC()
	}
	require.Same(t, op, takeReceiveOp())
}
