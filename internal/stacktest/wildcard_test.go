package stacktest

import (
	"context"
	"io"
	"net"
	"net/netip"
	"runtime"
	"testing"
	"time"
	"volley"

	"volley/internal/loopback"
)

// TestWildcardListener checks that a listener on all addresses answers from the
// one that the peer has dialed.
func TestWildcardListener(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("NOT RUN: the addresses 127.0.0.2 and up are there on Linux only")
	}
	for _, test := range []struct{ network, address, to string }{
		{"udp4", "0.0.0.0:0", "127.0.0.1"},
		{"udp4", "0.0.0.0:0", "127.0.0.2"},
		{"udp", "[::]:0", "127.0.0.3"},
		{"udp", ":0", "::1"},
	} {
		t.Run(test.address+" to "+test.to, func(t *testing.T) {
			l, err := volley.Listen(test.network, test.address)
			if err != nil {
				t.Skip("NOT RUN: ", err)
			}
			defer l.Close()
			to := netip.AddrPortFrom(netip.MustParseAddr(test.to), uint16(l.Addr().(*net.UDPAddr).Port))
			c, err := volley.Dial("udp", to.String())
			if err != nil {
				t.Skip("NOT RUN: ", err)
			}
			defer c.Close()
			l.SetDeadline(time.Now().Add(20 * time.Second))
			s, err := l.AcceptConn(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			if got := s.LocalAddr().String(); got != to.String() {
				t.Errorf("LocalAddr of the accepted connection = %s, want %v", got, to)
			}
			heard(t, c, s, "hello")
			heard(t, s, c, "welcome")
		})
	}
}

// heard checks that a message of c arrives at s.
func heard(t *testing.T, c, s *volley.Conn, message string) {
	t.Helper()
	if _, err := c.Write([]byte(message)); err != nil {
		t.Fatalf("Write = %v, want nil", err)
	}
	s.SetReadDeadline(time.Now().Add(20 * time.Second)) // a watchdog
	if m, err := s.ReadMessage(context.Background(), nil); string(m) != message || err != nil {
		t.Fatalf("ReadMessage = %q, %v, want %q", m, err, message)
	}
}

// wildcardDial dials an address of this machine from another one.
func wildcardDial(t *testing.T, from *net.UDPAddr, to string, port int) *volley.Conn {
	t.Helper()
	c, err := loopback.Again(func() (*volley.Conn, error) {
		return volley.DialUDP("udp4", from, &net.UDPAddr{IP: net.ParseIP(to), Port: port})
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// TestWildcardListenerDialedTwice checks that a peer that dials another address of
// a listener, from the same port, has a connection there, whether or not the first
// one has ended, and a new one at the first address.
func TestWildcardListenerDialedTwice(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("NOT RUN: the addresses 127.0.0.2 and up are there on Linux only")
	}
	for _, address := range []string{"0.0.0.0:0", "[::]:0"} {
		l, err := volley.Listen("udp", address)
		if err != nil {
			t.Skip("NOT RUN: ", err)
		}
		defer l.Close()
		l.SetDeadline(time.Now().Add(20 * time.Second))
		port := l.Addr().(*net.UDPAddr).Port
		from := &net.UDPAddr{IP: loopback.Host().AsSlice()}
		var first *volley.Conn
		for _, to := range []string{"127.0.0.2", "127.0.0.3", "127.0.0.4", "127.0.0.2"} {
			c := wildcardDial(t, from, to, port)
			from = c.LocalAddr().(*net.UDPAddr)
			s, err := l.AcceptConn(context.Background())
			if err != nil {
				t.Fatalf("%s: %v", to, err)
			}
			if first != nil && to == "127.0.0.2" { // the client has closed the first one
				if _, err := first.ReadMessage(context.Background(), nil); err != io.EOF {
					t.Errorf("the first connection: %v, want EOF", err)
				}
			}
			defer s.Close()
			if got := s.LocalAddr().(*net.UDPAddr); got.IP.String() != to {
				t.Errorf("LocalAddr = %v, want %s", got, to)
			}
			heard(t, c, s, "hello")
			heard(t, s, c, "welcome")
			c.Close()
			if to == "127.0.0.3" {
				s.Close()
			} else if first == nil {
				first = s
			}
		}
	}
}

// TestWildcardPacketConn is the same of a PacketConn, and that it answers a peer that
// uses two addresses in turn from either.
func TestWildcardPacketConn(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("NOT RUN: the addresses 127.0.0.2 and up are there on Linux only")
	}
	for _, address := range []string{"0.0.0.0:0", "[::]:0"} {
		pc, err := volley.ListenPacket("udp", address)
		if err != nil {
			t.Skip("NOT RUN: ", err)
		}
		defer pc.Close()
		pc.SetReadDeadline(time.Now().Add(60 * time.Second)) // a watchdog
		done := make(chan error)
		go func() {
			buf := make([]byte, 100)
			for {
				n, from, err := pc.ReadFrom(buf)
				if err != nil {
					done <- err
					return
				}
				pc.WriteTo(buf[:n], from)
			}
		}()
		port := pc.LocalAddr().(*net.UDPAddr).Port
		from := &net.UDPAddr{IP: loopback.Host().AsSlice()}
		for _, to := range []string{"127.0.0.2", "127.0.0.3"} {
			c := wildcardDial(t, from, to, port)
			from = c.LocalAddr().(*net.UDPAddr)
			heard(t, c, c, "hello")
			c.Close()
		}

		client, err := loopback.Again(func() (*volley.PacketConn, error) {
			from.Port = 0
			return volley.ListenPacket("udp4", from.String())
		})
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		client.SetReadDeadline(time.Now().Add(20 * time.Second))
		for i := range 10 {
			to := &net.UDPAddr{IP: net.IPv4(127, 0, 0, byte(2+i%2)), Port: port}
			client.WriteTo([]byte{byte(i)}, to)
			buf := make([]byte, 100)
			n, by, err := client.ReadFrom(buf)
			if err != nil || n != 1 || buf[0] != byte(i) || by.String() != to.String() {
				t.Fatalf("message %d to %v: %d bytes by %v, %v", i, to, n, by, err)
			}
		}
		if n := pc.Stats().Peers; n != 4 {
			t.Errorf("%d peers, want 4: two addresses, each at two of ours", n)
		}
		pc.Close()
		<-done
	}
}
