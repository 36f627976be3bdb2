package datagram

import (
	"net"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"volley/internal/loopback"
	"volley/internal/socket"
	"volley/internal/wire"
)

// Poll reads, and has alarms go off; from its first call on nothing else does.
func TestPoll(t *testing.T) {
	pc, err := net.ListenPacket("udp4", loopback.Addr())
	require.NoError(t, err)
	sock, err := socket.NewUDP(pc.(*net.UDPConn), socket.Config{})
	require.NoError(t, err)
	var handled, ticks atomic.Int32
	a := &fakeAcceptor{handler: func(c Conn) Handler {
		return &fakeHandler{
			batch: func([][]byte, *wire.Batch) {
				handled.Add(1)
				c.Schedule(time.Now())
			},
			tick: func(now time.Time, _ *wire.Batch) time.Time { ticks.Add(1); return now },
		}
	}}
	m := NewMux(sock, MuxConfig{Acceptor: a, TickLag: time.Millisecond})
	m.Start()
	client, err := net.Dial("udp4", pc.LocalAddr().String())
	require.NoError(t, err)
	defer client.Close()
	send := func() {
		_, err := client.Write([]byte("x"))
		require.NoError(t, err)
		for !sock.Features().Peek.Unread() && handled.Load() == 0 {
			time.Sleep(time.Millisecond)
		}
	}
	send() // the goroutine takes it
	for handled.Load() == 0 || ticks.Load() == 0 {
		time.Sleep(time.Millisecond)
	}
	m.Poll()
	before := handled.Load()
	atTick := ticks.Load()
	_, err = client.Write([]byte("y"))
	require.NoError(t, err)
	for !sock.Features().Peek.Unread() {
		time.Sleep(time.Millisecond)
	}
	time.Sleep(3 * inlinePatience)
	require.Equal(t, before, handled.Load(), "nobody reads")
	require.Equal(t, atTick, ticks.Load(), "nobody ticks")
	m.Poll()
	require.Equal(t, before+1, handled.Load())
	require.Equal(t, atTick+1, ticks.Load(), "once a call")
	for range 20 { // more than one system call's worth
		_, err := client.Write([]byte("z"))
		require.NoError(t, err)
	}
	for handled.Load() == before+1 {
		m.Poll()
	}
	require.Equal(t, 1, m.Peers())
	require.NoError(t, m.Close())
	m.Poll()
	a.peer(0).Close()
	m.Poll() // after the end
	require.True(t, m.turns.closed.Load())
	require.Equal(t, netip.MustParseAddrPort(client.LocalAddr().String()), a.peer(0).AddrPort())
}

// A Mux that was closed, or is closed while a goroutine reads, does not keep Poll.
func TestPollAfterClose(t *testing.T) {
	for range 50 {
		pc, err := net.ListenPacket("udp4", loopback.Addr())
		require.NoError(t, err)
		sock, err := socket.NewUDP(pc.(*net.UDPConn), socket.Config{})
		require.NoError(t, err)
		m := NewMux(sock, MuxConfig{Acceptor: &fakeAcceptor{}})
		m.Start()
		done := make(chan struct{})
		go func() {
			m.Poll()
			m.Poll()
			close(done)
		}()
		require.NoError(t, m.Close())
		<-done
	}
}
