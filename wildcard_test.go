package volley

import (
	"net"
	"net/netip"
	"runtime"
	"testing"
	"time"
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
			l, err := Listen(test.network, test.address)
			if err != nil {
				t.Skip("NOT RUN: ", err)
			}
			defer l.Close()
			to := netip.AddrPortFrom(netip.MustParseAddr(test.to), uint16(l.Addr().(*net.UDPAddr).Port))
			c, err := Dial("udp", to.String())
			if err != nil {
				t.Skip("NOT RUN: ", err)
			}
			defer c.Close()
			l.SetDeadline(time.Now().Add(20 * time.Second))
			s, err := l.AcceptConn()
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
func heard(t *testing.T, c, s *Conn, message string) {
	t.Helper()
	if _, err := c.Write([]byte(message)); err != nil {
		t.Fatalf("Write = %v, want nil", err)
	}
	s.SetReadDeadline(time.Now().Add(20 * time.Second)) // a watchdog
	if m, err := s.ReadMessage(nil); string(m) != message || err != nil {
		t.Fatalf("ReadMessage = %q, %v, want %q", m, err, message)
	}
}
