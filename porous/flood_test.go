package porous

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"volley/netcode"
	"volley/simnet"
)

// Messages of a flood share frames; single ones leave at once, in frames of
// their own.
func TestFloodSharesFrames(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := simnet.New(1)
		defer n.Close()
		n.SetDefault(simnet.Link{Latency: 10 * time.Millisecond})
		l := simListener(t, n, "10.0.0.1:7", &ListenConfig{})
		defer l.Close()
		c := simDial(t, n, "10.0.0.2:0", "10.0.0.1:7", nil)
		defer c.Close()
		s, err := l.AcceptConn()
		require.NoError(t, err)
		defer s.Close()
		msg, buf := make([]byte, 64), make([]byte, 64)
		read := func() {
			_, err := s.Read(buf)
			require.NoError(t, err)
		}
		c.Write(msg)
		read()
		time.Sleep(100 * time.Millisecond)
		for range 50 {
			start := time.Now()
			c.Write(msg)
			read()
			require.Equal(t, 10*time.Millisecond, time.Since(start))
			time.Sleep(5 * time.Millisecond)
		}
		require.EqualValues(t, 51, c.Stats().FramesSent)
		for range 5000 {
			c.Write(msg)
		}
		for range 5000 {
			read()
		}
		require.Less(t, c.Stats().FramesSent, uint64(600))
		time.Sleep(time.Second)
		start := time.Now()
		c.Write(msg)
		read()
		require.Equal(t, 10*time.Millisecond, time.Since(start), "what ends a flood does not wait either")
	})
}

// overNetcode returns both ends of a connection over a session of netcode over
// loopback.
func overNetcode(b testing.TB) (x, y *Conn) {
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	require.NoError(b, err)
	issuer := netcode.Issuer{PrivateKey: netcode.GenerateKey(), Servers: []netip.AddrPort{pc.LocalAddr().(*net.UDPAddr).AddrPort()}}
	lc := netcode.ListenConfig{PrivateKey: issuer.PrivateKey}
	l, err := lc.ListenPacket(pc)
	require.NoError(b, err)
	b.Cleanup(func() { l.Close() })
	token, err := issuer.Issue(1, nil)
	require.NoError(b, err)
	client, err := netcode.Dial(context.Background(), token)
	require.NoError(b, err)
	server, err := l.Accept()
	require.NoError(b, err)
	x, y = NewConn(client, nil), NewConn(server, nil)
	b.Cleanup(func() { y.Abort(); x.Abort() })
	return x, y
}

func overLoopback(b testing.TB) (x, y *Conn) {
	l, err := Listen("udp", "127.0.0.1:0", nil)
	require.NoError(b, err)
	b.Cleanup(func() { l.Close() })
	x, err = Dial(context.Background(), "udp", l.Addr().String(), nil)
	require.NoError(b, err)
	y, err = l.AcceptConn()
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

func benchmarkFlood(b *testing.B, pair func(testing.TB) (x, y *Conn), size int) {
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
