package socket

import (
	"net"
	"net/netip"
	"runtime"
	"testing"
	"time"
)

// TestAnswerFromSameAddress checks that what a socket on all addresses sends
// with the Local of a received packet comes from the address that this was sent
// to, single datagrams and runs: a dialed socket hears nothing else.
func TestAnswerFromSameAddress(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("NOT RUN: the addresses 127.0.0.2 and up are there on Linux only")
	}
	for _, test := range []struct{ network, to string }{
		{"udp4", "127.0.0.1"}, {"udp4", "127.0.0.2"}, {"udp4", "127.200.3.4"},
		{"udp", "127.0.0.2"}, {"udp", "::1"}, {"udp6", "::1"},
	} {
		t.Run(test.network+"/"+test.to, func(t *testing.T) {
			inner, err := net.ListenUDP(test.network, nil)
			if err != nil {
				t.Skip("NOT RUN: ", err)
			}
			server := udpSocket(t, inner, Config{})
			defer server.Close()
			host := netip.MustParseAddr(test.to)
			to := netip.AddrPortFrom(host, localPort(inner))
			dialed, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(to))
			if err != nil {
				t.Skip("NOT RUN: ", err)
			}
			client := udpSocket(t, dialed, Config{})
			defer client.Close()
			watchdog := time.AfterFunc(patience, func() { client.Close(); server.Close() })
			defer watchdog.Stop()
			send(t, client, Packet{Buf: []byte("hello")})
			ps := make([]Packet, 1)
			for string(ps[0].Buf) != "hello" { // a stranger may mean who had the port before
				if n, err := server.ReadBatch(ps); n != 1 || err != nil {
					t.Fatalf("ReadBatch = %d, %v, want 1, nil", n, err)
				}
			}
			if ps[0].Local != host {
				t.Fatalf("Local = %v, want %v", ps[0].Local, host)
			}
			answers := []Packet{{Buf: []byte("short")}, {Buf: pattern(1, 990), Segment: 100}}
			for i := range answers {
				answers[i].Addr, answers[i].Local = ps[0].Addr, ps[0].Local
			}
			send(t, server, answers...)
			expect(t, client, to, answers...)
		})
	}
}

// TestOneAddressTellsNone checks that a socket that has one address anyway does
// not have it told with every packet.
func TestOneAddressTellsNone(t *testing.T) {
	p := newPair(t, socketMakers["platform"], "udp4", "udp4", "127.0.0.1", false)
	send(t, p.client, Packet{Buf: []byte("x"), Addr: p.serverAddr})
	ps := make([]Packet, 1)
	if _, err := p.server.ReadBatch(ps); err != nil || ps[0].Local.IsValid() {
		t.Errorf("ReadBatch: %v, Local = %v, want none", err, ps[0].Local)
	}
}
