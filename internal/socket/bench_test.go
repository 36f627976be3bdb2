package socket

import (
	"fmt"
	"net"
	"net/netip"
	"testing"
)

// benchSegment is the size in bytes of the datagrams in the benchmarks.
const benchSegment = 256

// benchPair returns two UDP sockets on the loopback device, the second dialed
// or not, and the address of the first.
func benchPair(b *testing.B, dial bool) (server, client *net.UDPConn, addr netip.AddrPort) {
	b.Helper()
	host := &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)}
	server, err := net.ListenUDP("udp4", host)
	if err != nil {
		b.Fatal(err)
	}
	if dial {
		client, err = net.DialUDP("udp4", nil, server.LocalAddr().(*net.UDPAddr))
	} else {
		client, err = net.ListenUDP("udp4", host)
	}
	if err != nil {
		b.Fatal(err)
	}
	return server, client, server.LocalAddr().(*net.UDPAddr).AddrPort()
}

// BenchmarkSocket sends so many datagrams and then receives them, in one
// goroutine: the cost of both without that of waking anybody. An operation is
// one datagram.
func BenchmarkSocket(b *testing.B) {
	for _, dial := range []bool{true, false} {
		name := map[bool]string{true: "connected", false: "unconnected"}[dial]
		for _, n := range []int{1, 8, 64} {
			b.Run(fmt.Sprintf("net.UDPConn/%s/%d", name, n), func(b *testing.B) { benchUDPConn(b, dial, n) })
			b.Run(fmt.Sprintf("plain/%s/%d", name, n), func(b *testing.B) {
				benchSocket(b, dial, n, func(c *net.UDPConn) Socket { return NewPacket(c) })
			})
			b.Run(fmt.Sprintf("no offload/%s/%d", name, n), func(b *testing.B) {
				benchSocket(b, dial, n, func(c *net.UDPConn) Socket { return mustSocket(b, c, Config{DisableOffload: true}) })
			})
			b.Run(fmt.Sprintf("platform/%s/%d", name, n), func(b *testing.B) {
				benchSocket(b, dial, n, func(c *net.UDPConn) Socket { return mustSocket(b, c, Config{}) })
			})
		}
	}
}

func mustSocket(b *testing.B, c *net.UDPConn, cfg Config) Socket {
	s, err := NewUDP(c, cfg)
	if err != nil {
		b.Fatal(err)
	}
	return s
}

func benchUDPConn(b *testing.B, dial bool, n int) {
	server, client, addr := benchPair(b, dial)
	defer server.Close()
	defer client.Close()
	buf := make([]byte, benchSegment)
	b.ReportAllocs()
	for i := 0; i < b.N; i += n {
		for range n {
			var err error
			if dial {
				_, err = client.Write(buf)
			} else {
				_, err = client.WriteToUDPAddrPort(buf, addr)
			}
			if err != nil {
				b.Fatal(err)
			}
		}
		for range n {
			if _, _, err := server.ReadFromUDPAddrPort(buf); err != nil {
				b.Fatal(err)
			}
		}
	}
}

func benchSocket(b *testing.B, dial bool, n int, makeSocket func(*net.UDPConn) Socket) {
	serverConn, clientConn, addr := benchPair(b, dial)
	server, client := makeSocket(serverConn), makeSocket(clientConn)
	defer server.Close()
	defer client.Close()
	out := []Packet{{Buf: make([]byte, n*benchSegment), Addr: addr, Segment: benchSegment}}
	in := make([]Packet, 16)
	b.ReportAllocs()
	for i := 0; i < b.N; i += n {
		if _, err := client.WriteBatch(out); err != nil {
			b.Fatal(err)
		}
		for got := 0; got < n; {
			k, err := server.ReadBatch(in)
			if err != nil {
				b.Fatal(err)
			}
			for _, p := range in[:k] {
				got += len(p.Buf) / benchSegment
			}
		}
	}
}

// BenchmarkSocketFragments sends what a message in five fragments makes: a
// first datagram and a run of shorter ones.
func BenchmarkSocketFragments(b *testing.B) {
	for _, offload := range []bool{true, false} {
		b.Run(fmt.Sprintf("offload=%t", offload), func(b *testing.B) {
			serverConn, clientConn, addr := benchPair(b, true)
			cfg := Config{DisableOffload: !offload}
			server, client := mustSocket(b, serverConn, cfg), mustSocket(b, clientConn, cfg)
			defer server.Close()
			defer client.Close()
			out := []Packet{
				{Buf: make([]byte, 1040), Addr: addr},
				{Buf: make([]byte, 4*1029), Addr: addr, Segment: 1029},
			}
			in := make([]Packet, 16)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := client.WriteBatch(out); err != nil {
					b.Fatal(err)
				}
				for got := 0; got < 1040+4*1029; {
					k, err := server.ReadBatch(in)
					if err != nil {
						b.Fatal(err)
					}
					for _, p := range in[:k] {
						got += len(p.Buf)
					}
				}
			}
		})
	}
}

// BenchmarkSocketParallelWrites has several goroutines write to one socket,
// as the connections of a listener do. What is not read is dropped.
func BenchmarkSocketParallelWrites(b *testing.B) {
	server, client, addr := benchPair(b, false)
	defer server.Close()
	buf := make([]byte, benchSegment)
	b.Run("net.UDPConn", func(b *testing.B) {
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				if _, err := client.WriteToUDPAddrPort(buf, addr); err != nil {
					b.Fatal(err)
				}
			}
		})
	})
	b.Run("platform", func(b *testing.B) {
		s := mustSocket(b, client, Config{})
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			ps := []Packet{{Buf: buf, Addr: addr}}
			for pb.Next() {
				if _, err := s.WriteBatch(ps); err != nil {
					b.Fatal(err)
				}
			}
		})
	})
	client.Close()
}
