package volley

import (
	"fmt"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"volley/simnet"
)

// These are the parts of golang.org/x/net/nettest.TestConn, for a net.PacketConn:
// over UDP, and over a net.PacketConn whose socket only a goroutine can read.
func TestPacketConnNettest(t *testing.T) {
	pairs := map[string]func(*testing.T) (a, b net.PacketConn){
		"UDP": func(t *testing.T) (a, b net.PacketConn) {
			return listenPacket(t, &ListenConfig{}), listenPacket(t, &ListenConfig{})
		},
		"simnet": func(t *testing.T) (a, b net.PacketConn) {
			n := simnet.New(1)
			x, y := packetAt(t, n, "10.0.0.1:7", nil), packetAt(t, n, "10.0.0.2:7", nil)
			t.Cleanup(func() { x.Close(); y.Close(); n.Close() })
			return x, y
		},
	}
	parts := map[string]func(t *testing.T, a, b net.PacketConn){
		"PingPong": packetPingPong, "RacyUse": packetRacyUse, "PastTimeout": packetPastTimeout,
		"PresentTimeout": packetPresentTimeout, "FutureTimeout": packetFutureTimeout,
		"CloseUnblocks": packetCloseUnblocks, "ConcurrentMethods": packetConcurrentMethods,
	}
	for kind, pair := range pairs {
		for name, part := range parts {
			t.Run(kind+"/"+name, func(t *testing.T) {
				a, b := pair(t)
				part(t, a, b)
			})
		}
	}
}

func packetPingPong(t *testing.T, a, b net.PacketConn) {
	a.SetDeadline(time.Now().Add(30 * time.Second))
	b.SetDeadline(time.Now().Add(30 * time.Second))
	var wg sync.WaitGroup
	defer wg.Wait()
	buf := make([]byte, 100)
	wg.Go(func() {
		buf := make([]byte, 100)
		for range 200 {
			n, from, err := b.ReadFrom(buf)
			if err == nil {
				_, err = b.WriteTo(buf[:n], from)
			}
			if err != nil {
				t.Error(err)
				return
			}
		}
	})
	for i := range 200 {
		want := fmt.Sprint("message ", i)
		_, err := a.WriteTo([]byte(want), b.LocalAddr())
		require.NoError(t, err)
		n, from, err := a.ReadFrom(buf)
		require.NoError(t, err)
		require.Equal(t, want, string(buf[:n]))
		require.Equal(t, b.LocalAddr().String(), from.String())
	}
}

// packetRacyUse has many readers and writers at once, with deadlines that pass.
func packetRacyUse(t *testing.T, a, b net.PacketConn) {
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			buf := make([]byte, 100)
			for range 20 {
				b.SetReadDeadline(time.Now().Add(time.Millisecond))
				if _, _, err := b.ReadFrom(buf); err != nil && !os.IsTimeout(err) {
					t.Errorf("ReadFrom: %v", err)
				}
			}
		})
		wg.Go(func() {
			for range 50 {
				a.SetWriteDeadline(time.Now().Add(time.Millisecond))
				if _, err := a.WriteTo([]byte("message"), b.LocalAddr()); err != nil && !os.IsTimeout(err) {
					t.Errorf("WriteTo: %v", err)
				}
			}
		})
	}
	wg.Wait()
}

func packetPastTimeout(t *testing.T, a, b net.PacketConn) {
	buf := make([]byte, 100)
	for range 2 { // also when a message waits
		a.SetDeadline(time.Unix(1, 0))
		_, _, err := a.ReadFrom(buf)
		wantTimeout(t, "ReadFrom", err)
		_, err = a.WriteTo([]byte("x"), b.LocalAddr())
		wantTimeout(t, "WriteTo", err)
		b.WriteTo([]byte("waits"), a.LocalAddr())
	}
	a.SetDeadline(time.Now().Add(20 * time.Second))
	_, _, err := a.ReadFrom(buf)
	require.NoError(t, err)
}

// packetPresentTimeout sets a deadline that passes at once while a call waits.
func packetPresentTimeout(t *testing.T, a, _ net.PacketConn) {
	for range 3 {
		done := make(chan error)
		go func() {
			_, _, err := a.ReadFrom(make([]byte, 100))
			done <- err
		}()
		a.SetReadDeadline(time.Now())
		wantTimeout(t, "ReadFrom", <-done)
		a.SetReadDeadline(time.Time{})
	}
}

func packetFutureTimeout(t *testing.T, a, b net.PacketConn) {
	var wg sync.WaitGroup
	a.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
	for range 3 {
		wg.Go(func() {
			_, _, err := a.ReadFrom(make([]byte, 100))
			wantTimeout(t, "ReadFrom", err)
		})
	}
	wg.Wait()
	a.SetReadDeadline(time.Time{})
	packetPingPong(t, a, b)
}

func packetCloseUnblocks(t *testing.T, a, b net.PacketConn) {
	a.WriteTo([]byte("x"), b.LocalAddr())
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for {
				if _, _, err := b.ReadFrom(make([]byte, 100)); err != nil {
					wantErr(t, "ReadFrom", err, net.ErrClosed)
					return
				}
			}
		})
		wg.Go(func() {
			for {
				if _, err := b.WriteTo([]byte("y"), a.LocalAddr()); err != nil {
					wantErr(t, "WriteTo", err, net.ErrClosed)
					return
				}
			}
		})
	}
	time.AfterFunc(5*time.Millisecond, func() { b.Close() })
	wg.Wait()
}

func packetConcurrentMethods(t *testing.T, a, b net.PacketConn) {
	var wg sync.WaitGroup
	buf := func() []byte { return make([]byte, 100) }
	for i := range 30 {
		wg.Go(func() { a.ReadFrom(buf()) })
		wg.Go(func() { a.WriteTo(buf(), b.LocalAddr()) })
		wg.Go(func() { a.SetDeadline(time.Now().Add(time.Millisecond)) })
		wg.Go(func() { a.SetReadDeadline(time.Now().Add(time.Millisecond)) })
		wg.Go(func() { a.SetWriteDeadline(time.Now().Add(time.Millisecond)) })
		wg.Go(func() { a.LocalAddr() })
		wg.Go(func() { a.(*PacketConn).Stats() })
		wg.Go(func() { a.(*PacketConn).PeerStats(b.LocalAddr()) })
		wg.Go(func() { a.(*PacketConn).AppendReceipts(nil) })
		wg.Go(func() { b.WriteTo([]byte{byte(i)}, a.LocalAddr()) })
	}
	wg.Wait()
}
