package datagram

import (
	"net"
	"net/netip"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"volley/internal/wire"
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
			server := udpSocket(t, inner, SocketConfig{})
			defer server.Close()
			host := netip.MustParseAddr(test.to)
			to := netip.AddrPortFrom(host, localPort(inner))
			dialed, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(to))
			if err != nil {
				t.Skip("NOT RUN: ", err)
			}
			client := udpSocket(t, dialed, SocketConfig{})
			defer client.Close()
			watchdog := time.AfterFunc(20*time.Second, func() { client.Close(); server.Close() })
			defer watchdog.Stop()
			send(t, client, Packet{Buf: []byte("hello")})
			ps := make([]Packet, 1)
			if n, err := server.ReadBatch(ps); n != 1 || err != nil || ps[0].Local != host {
				t.Fatalf("ReadBatch = %d, %v, with Local = %v, want 1, nil, %v", n, err, ps[0].Local, host)
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

// TestPeerKeepsLocal checks from where a Mux answers: addresses without a Conn
// from where their datagram went to, and a peer always from where its first one
// did. Whoever forges a datagram of it to another of our addresses changes
// nothing.
func TestPeerKeepsLocal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		at := func(n byte) netip.Addr { return netip.AddrFrom4([4]byte{192, 0, 2, n}) }
		packet := func(peer int, local byte, b string) []Packet {
			return []Packet{{Buf: []byte(b), Addr: peerAddr(peer), Local: at(local)}}
		}
		a := &fakeAcceptor{handler: func(Conn) Handler {
			return &fakeHandler{batch: func(bufs [][]byte, out *wire.Batch) {
				for _, b := range bufs {
					out.Append(append([]byte("re: "), b...))
				}
			}}
		}}
		s := newFakeSocket()
		m := NewMux(s, MuxConfig{Acceptor: a, MaxDatagram: 1000})
		m.Start()
		s.in <- packet(1, 7, "a")
		s.in <- append(packet(1, 8, "forged"), packet(2, 9, "b")...)
		s.in <- packet(1, 7, "c")
		s.in <- packet(3, 9, "ask")
		synctest.Wait()
		p := a.peer(0)
		var b wire.Batch
		b.Append([]byte("d"))
		p.WriteBatch(&b)
		s.mu.Lock()
		for i, want := range []struct {
			text  string
			local byte
		}{{"re: a", 7}, {"re: forged", 7}, {"re: b", 9}, {"re: c", 7}, {"answer", 9}, {"d", 7}} {
			if i >= len(s.sent) || string(s.sent[i].Buf) != want.text || s.sent[i].Local != at(want.local) {
				t.Fatalf("sent %v, want as number %d %q from %v", s.sent, i, want.text, at(want.local))
			}
		}
		s.mu.Unlock()
		if got := p.LocalAddr().String(); got != "192.0.2.7:1" {
			t.Errorf("LocalAddr = %s, want 192.0.2.7:1", got)
		}
		m.Close()
		p.Close()
		a.peer(1).Close()
	})
}
