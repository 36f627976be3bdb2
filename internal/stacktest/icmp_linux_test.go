package stacktest

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"
	"testing"
	"time"

	"volley"
	"volley/internal/netnstest"
	"volley/netcode"
)

// A forger sends ICMP messages about datagrams of others. It needs privileges.
type forger struct{ fd int }

func newForger(t *testing.T) *forger {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_RAW, syscall.IPPROTO_ICMP)
	if err != nil {
		t.Skip("NOT RUN: raw sockets: ", err)
	}
	t.Cleanup(func() { syscall.Close(fd) })
	return &forger{fd}
}

// forge tells the socket at from of an error of the datagrams that it sends to
// to, as RFC 792 has it: with the first bytes of one.
func (f *forger) forge(t *testing.T, kind, code byte, from, to netip.AddrPort) {
	t.Helper()
	msg := make([]byte, 8+20+8)
	msg[0], msg[1] = kind, code
	if kind == 3 && code == 4 {
		binary.BigEndian.PutUint16(msg[6:], 1400) // MTU of the next hop
	}
	ip, udp := msg[8:28], msg[28:]
	ip[0], ip[8], ip[9] = 0x45, 64, syscall.IPPROTO_UDP
	binary.BigEndian.PutUint16(ip[2:], 28+100)
	src, dst := from.Addr().As4(), to.Addr().As4()
	copy(ip[12:], src[:])
	copy(ip[16:], dst[:])
	binary.BigEndian.PutUint16(udp, from.Port())
	binary.BigEndian.PutUint16(udp[2:], to.Port())
	binary.BigEndian.PutUint16(udp[4:], 8+100)
	sum := uint32(0)
	for i := 0; i < len(msg); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(msg[i:]))
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	binary.BigEndian.PutUint16(msg[2:], ^uint16(sum))
	if err := syscall.Sendto(f.fd, msg, 0, &syscall.SockaddrInet4{Addr: src}); err != nil {
		t.Fatal(err)
	}
}

// TestForgedICMP checks that no ICMP message ends a connection or costs a
// message, neither on the plain wire nor in a session of netcode.
func TestForgedICMP(t *testing.T) {
	if !netnstest.Inside(t, "ip") {
		return
	}
	netnstest.Do(t, "ip link set lo up")
	f := newForger(t)
	t.Run("volley", func(t *testing.T) { testForgedICMP(t, f, dialPlain) })
	t.Run("netcode", func(t *testing.T) { testForgedICMP(t, f, dialSecure) })
}

func dialPlain(t *testing.T) (c, s net.Conn) {
	l, err := volley.Listen("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	if c, err = volley.Dial("udp", l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if s, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	return c, s
}

func dialSecure(t *testing.T) (c, s net.Conn) {
	key := netcode.Key{1}
	l, err := netcode.Listen("udp", "127.0.0.1:0", key, 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if c, err = new(netcode.Dialer).DialWithKey(ctx, l.Addr().String(), key, 1, 1); err != nil {
		t.Fatal(err)
	}
	if s, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	return c, s
}

func testForgedICMP(t *testing.T, f *forger, dial func(*testing.T) (c, s net.Conn)) {
	c, s := dial(t)
	defer c.Close()
	defer s.Close()
	from, to := c.LocalAddr().(*net.UDPAddr).AddrPort(), c.RemoteAddr().(*net.UDPAddr).AddrPort()
	exchange := func(what string) {
		t.Helper()
		for _, way := range [][2]net.Conn{{c, s}, {s, c}} {
			if _, err := way[0].Write([]byte(what)); err != nil {
				t.Fatalf("%s: Write = %v, want nil", what, err)
			}
			b := make([]byte, 100)
			way[1].SetReadDeadline(time.Now().Add(time.Minute)) // a watchdog
			n, err := way[1].Read(b)
			for errors.Is(err, syscall.ECONNREFUSED) { // which Read tells, and lives on
				n, err = way[1].Read(b)
			}
			if string(b[:n]) != what || err != nil {
				t.Fatalf("Read = %q, %v, want %q", b[:n], err, what)
			}
		}
	}
	exchange("at first")
	for _, kind := range []byte{3, 12, 11, 4, 5} {
		for code := range byte(16) {
			f.forge(t, kind, code, from, to)
			exchange(fmt.Sprintf("after type %d code %d", kind, code))
			for range 40 {
				f.forge(t, kind, code, from, to)
			}
			exchange(fmt.Sprintf("after 40 of type %d code %d", kind, code))
		}
	}
	if c, ok := c.(*volley.Conn); ok {
		if tr := c.Stats().Transport; tr.ReadErrors+tr.WriteErrors == 0 {
			t.Error("no errors counted: were the messages forged well?")
		}
	}
}
