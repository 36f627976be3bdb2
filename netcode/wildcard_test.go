package netcode

import (
	"context"
	"net"
	"net/netip"
	"runtime"
	"testing"
	"time"

	"volley/internal/loopback"
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
			l, err := lc.ListenOn(pc)
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			c, err := new(Dialer).DialWithKey(ctx, to.String(), testKey, testProtocol, 1)
			if err != nil {
				t.Fatalf("new(Dialer).DialWithKey(%v) = %v, want nil", to, err)
			}
			defer c.Close()
			s, err := l.AcceptConn(t.Context())
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

// TestWildcardServerDialedTwice checks that a client that dials another address of a
// server, from the same port, is let in and answered from there, once its session at
// the first one has ended: a server has one session with an address.
func TestWildcardServerDialedTwice(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("NOT RUN: the addresses 127.0.0.2 and up are there on Linux only")
	}
	pc, err := net.ListenUDP("udp4", nil)
	if err != nil {
		t.Skip("NOT RUN: ", err)
	}
	port := uint16(pc.LocalAddr().(*net.UDPAddr).Port)
	server := func(n byte) netip.AddrPort {
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, n}), port)
	}
	lc := ListenConfig{PrivateKey: testKey, ProtocolID: testProtocol, Addresses: []netip.AddrPort{server(2), server(3), server(4)}}
	l, err := lc.ListenOn(pc)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	from := &net.UDPAddr{IP: loopback.Host().AsSlice()}
	for i, timeout := range []time.Duration{time.Second, 15 * time.Second, 15 * time.Second} {
		at := server(byte(2 + i))
		own, err := loopback.Again(func() (*net.UDPConn, error) { return net.ListenUDP("udp4", from) })
		if err != nil {
			t.Fatal(err)
		}
		from = own.LocalAddr().(*net.UDPAddr)
		is := Issuer{PrivateKey: testKey, ProtocolID: testProtocol, Servers: []netip.AddrPort{at}, Timeout: timeout}
		tok, err := is.Issue(uint64(1+i), nil)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		c, err := new(Dialer).DialOn(ctx, own, tok)
		if err != nil {
			t.Fatalf("DialOn to %v = %v, want nil", at, err)
		}
		s, err := l.AcceptConn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		if got := s.LocalAddr().String(); got != at.String() {
			t.Errorf("LocalAddr = %s, want %v", got, at)
		}
		for _, x := range []net.Conn{c, s} {
			x.SetReadDeadline(time.Now().Add(20 * time.Second))
		}
		c.Write([]byte("hello"))
		wantRead(t, s, "hello")
		s.Write([]byte("welcome"))
		wantRead(t, c, "welcome")
		if i == 0 {
			own.Close() // nobody is told: the next one waits for the timeout
		}
		c.Close()
	}
}
