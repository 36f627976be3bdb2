package stacktest

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"volley"
	"volley/netcode"
)

// stackPair returns a connection over UDP on loopback, encrypted or not.
func stackPair(b *testing.B, encrypted bool) (client, server *volley.Conn) {
	b.Helper()
	if !encrypted {
		l, err := volley.Listen("udp", "127.0.0.1:0")
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { l.Close() })
		client, err = volley.Dial("udp", l.Addr().String())
		if err != nil {
			b.Fatal(err)
		}
		server, err = l.AcceptConn(context.Background())
		if err != nil {
			b.Fatal(err)
		}
		return client, server
	}
	nc, ns := sessionPair(b)
	return newConn(nc, nil), newConn(ns, nil)
}

func sessionPair(b *testing.B) (client, server *netcode.Conn) {
	b.Helper()
	key := netcode.GenerateKey()
	l, err := netcode.Listen("udp", "127.0.0.1:0", key, 1)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { l.Close() })
	client, err = new(netcode.Dialer).DialWithKey(b.Context(), l.Addr().String(), key, 1, 1)
	if err != nil {
		b.Fatal(err)
	}
	if server, err = l.AcceptConn(b.Context()); err != nil {
		b.Fatal(err)
	}
	return client, server
}

// count reads until the connection ends and counts.
func count(c net.Conn) *atomic.Int64 {
	var n atomic.Int64
	go func() {
		buf := make([]byte, 64<<10)
		for {
			if _, err := c.Read(buf); err != nil {
				return
			}
			n.Add(1)
		}
	}()
	return &n
}

// settle waits until nothing more arrives.
func settle(n *atomic.Int64) int64 {
	last := n.Load()
	for range 20 {
		time.Sleep(5 * time.Millisecond)
		if now := n.Load(); now == last {
			return now
		} else {
			last = now
		}
	}
	return last
}

// oneWay writes payloads of 256 bytes as fast as it can; the figure of worth is
// what has arrived.
func oneWay(b *testing.B, from, to net.Conn) {
	defer from.Close()
	defer to.Close()
	got := count(to)
	msg := make([]byte, 256)
	b.SetBytes(256)
	b.ReportAllocs()
	start := time.Now()
	for b.Loop() {
		if _, err := from.Write(msg); err != nil {
			b.Fatal(err)
		}
	}
	elapsed := time.Since(start)
	n := settle(got)
	b.ReportMetric(float64(n)/elapsed.Seconds(), "received/s")
	b.ReportMetric(100*float64(n)/float64(b.N), "%received")
}

// BenchmarkOneWay is a flood of small messages over UDP on loopback.
func BenchmarkOneWay(b *testing.B) {
	b.Run("messages", func(b *testing.B) {
		x, y := stackPair(b, false)
		oneWay(b, x, y)
	})
	b.Run("messages over sessions", func(b *testing.B) {
		x, y := stackPair(b, true)
		oneWay(b, x, y)
	})
	b.Run("sessions", func(b *testing.B) {
		x, y := sessionPair(b)
		oneWay(b, x, y)
	})
}

// BenchmarkEcho is a round trip of a message of 256 bytes.
func BenchmarkEcho(b *testing.B) {
	for _, encrypted := range []bool{false, true} {
		name := map[bool]string{false: "messages", true: "messages over sessions"}[encrypted]
		b.Run(name, func(b *testing.B) {
			x, y := stackPair(b, encrypted)
			defer x.Close()
			defer y.Close()
			go func() {
				buf := make([]byte, 1024)
				for {
					n, err := y.Read(buf)
					if err != nil {
						return
					}
					y.Write(buf[:n])
				}
			}()
			msg, buf := make([]byte, 256), make([]byte, 1024)
			b.ReportAllocs()
			for b.Loop() {
				x.Write(msg)
				if _, err := x.Read(buf); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkDial is a connect over loopback: token, handshake, both sides.
func BenchmarkDial(b *testing.B) {
	key := netcode.GenerateKey()
	lc := netcode.ListenConfig{PrivateKey: key, MaxClients: 1 << 16}
	l, err := lc.Listen(b.Context(), "udp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	id := uint64(0)
	b.ReportAllocs()
	for b.Loop() {
		id++
		c, err := new(netcode.Dialer).DialWithKey(b.Context(), l.Addr().String(), key, 0, id)
		if err != nil {
			b.Fatal(err)
		}
		s, err := l.AcceptConn(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		s.Close()
		c.Close()
	}
}
