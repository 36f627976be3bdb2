package porous_test

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"volley/netcode"
	"volley/porous"
)

// overNetcode returns both ends of a connection over a session of netcode over
// loopback.
func overNetcode(b testing.TB) (x, y *porous.Conn) {
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	require.NoError(b, err)
	issuer := netcode.Issuer{PrivateKey: netcode.GenerateKey(), Servers: []netip.AddrPort{pc.LocalAddr().(*net.UDPAddr).AddrPort()}}
	lc := netcode.ListenConfig{PrivateKey: issuer.PrivateKey}
	l, err := lc.ListenOn(pc)
	require.NoError(b, err)
	b.Cleanup(func() { l.Close() })
	token, err := issuer.Issue(1, nil)
	require.NoError(b, err)
	client, err := new(netcode.Dialer).Dial(context.Background(), token)
	require.NoError(b, err)
	server, err := l.Accept()
	require.NoError(b, err)
	x, y = porous.Wrapped(client, nil), porous.Wrapped(server, nil)
	b.Cleanup(func() { y.Abort(); x.Abort() })
	return x, y
}

func overLoopback(b testing.TB) (x, y *porous.Conn) {
	l, err := porous.Listen("udp", "127.0.0.1:0")
	require.NoError(b, err)
	b.Cleanup(func() { l.Close() })
	x, err = porous.Dial("udp", l.Addr().String())
	require.NoError(b, err)
	y, err = l.AcceptConn(context.Background())
	require.NoError(b, err)
	b.Cleanup(func() { y.Abort(); x.Abort() })
	return x, y
}

// BenchmarkFlood sends reliable messages in one direction as fast as it can.
func BenchmarkFlood(b *testing.B) {
	for _, kind := range []string{"udp", "netcode"} {
		for _, size := range []int{64, 1024} {
			b.Run(fmt.Sprint(kind, "/", size), func(b *testing.B) {
				pair := overLoopback
				if kind == "netcode" {
					pair = overNetcode
				}
				benchmarkFlood(b, pair, size)
			})
		}
	}
}

func benchmarkFlood(b *testing.B, pair func(testing.TB) (x, y *porous.Conn), size int) {
	x, y := pair(b)
	msg, buf := make([]byte, size), make([]byte, size)
	b.SetBytes(int64(size))
	b.ReportAllocs()
	done := make(chan error, 1)
	b.ResetTimer()
	start := time.Now()
	go func() {
		for range b.N {
			if _, err := y.Read(buf); err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	for range b.N {
		if _, err := x.Write(msg); err != nil {
			b.Fatal(err)
		}
	}
	require.NoError(b, <-done)
	b.ReportMetric(float64(b.N)/time.Since(start).Seconds(), "msgs/s")
	s := x.Stats()
	b.ReportMetric(float64(b.N)/float64(s.FramesSent), "msgs/frame")
	b.ReportMetric(100*float64(s.FramesResent)/float64(s.FramesSent), "%resent")
}
