package netcode

import (
	"context"
	"net"
	"net/netip"
	"runtime"
	"testing"
	"time"
)

// TestWildcardServer checks that a server on all addresses answers from the one
// that the client has dialed, during the handshake and after it.
func TestWildcardServer(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("NOT RUN: the addresses 127.0.0.2 and up are there on Linux only")
	}
	for _, test := range []struct{ network, to string }{
		{"udp4", "127.0.0.1"}, {"udp4", "127.0.0.2"}, {"udp", "127.0.0.3"}, {"udp", "::1"},
	} {
		t.Run(test.network+" to "+test.to, func(t *testing.T) {
			own, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.ParseIP(test.to)})
			if err != nil {
				t.Skip("NOT RUN: ", err)
			}
			own.Close()
			pc, err := net.ListenUDP(test.network, nil)
			if err != nil {
				t.Skip("NOT RUN: ", err)
			}
			to := netip.AddrPortFrom(netip.MustParseAddr(test.to), uint16(pc.LocalAddr().(*net.UDPAddr).Port))
			lc := ListenConfig{PrivateKey: testKey, ProtocolID: testProtocol, Addresses: []netip.AddrPort{to}}
			l, err := lc.ListenPacket(pc)
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			c, err := DialShared(ctx, to.String(), testKey, testProtocol, 1)
			if err != nil {
				t.Fatalf("DialShared(%v) = %v, want nil", to, err)
			}
			defer c.Close()
			s, err := l.AcceptConn()
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			for _, x := range []net.Conn{c, s} {
				x.SetReadDeadline(time.Now().Add(20 * time.Second))
			}
			c.Write([]byte("hello"))
			wantRead(t, s, "hello")
			s.Write([]byte("welcome"))
			wantRead(t, c, "welcome")
		})
	}
}
