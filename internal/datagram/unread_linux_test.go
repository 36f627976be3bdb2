package datagram

import (
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"volley/internal/loopback"
	"volley/internal/socket"
	"volley/internal/wire"
)

// An unreadHandler reports what a Conn says while it is given a batch, and lets
// nothing more be read until it is told.
type unreadHandler struct {
	silentHandler
	conn     Conn
	handling chan bool
	goOn     chan struct{}
}

func (h *unreadHandler) HandleBatch(time.Time, [][]byte, *wire.Batch) {
	h.handling <- h.conn.Features().Unread.Unread()
	<-h.goOn
}

// A Conn says that something is unread from when it has come until it has been
// handled.
func TestUnread(t *testing.T) {
	open := func(c *net.UDPConn, err error) socket.Socket {
		t.Helper()
		require.NoError(t, err)
		sock, err := socket.NewUDP(c, socket.Config{})
		require.NoError(t, err)
		return sock
	}
	local := &net.UDPAddr{IP: loopback.Host().AsSlice()} // where no stranger sends
	for name, dial := range map[string]func(to *net.UDPAddr) (c Conn, start func()){
		"Single": func(to *net.UDPAddr) (Conn, func()) {
			sock := open(net.DialUDP("udp4", local, to))
			return NewSingle(sock, to, 1000), func() {}
		},
		"Peer": func(to *net.UDPAddr) (Conn, func()) {
			m := NewMux(open(net.ListenUDP("udp4", local)), MuxConfig{MaxDatagram: 1000})
			t.Cleanup(func() { m.Close() })
			p, err := m.Dial(to.AddrPort())
			require.NoError(t, err)
			return p, m.Start
		},
	} {
		t.Run(name, func(t *testing.T) {
			other, err := net.ListenUDP("udp4", local)
			require.NoError(t, err)
			defer other.Close()
			conn, start := dial(other.LocalAddr().(*net.UDPAddr))
			defer conn.Close()
			unread := conn.Features().Unread
			wait := func(want bool) {
				t.Helper()
				for end := time.Now().Add(30 * time.Second); unread.Unread() != want; time.Sleep(time.Millisecond) {
					require.True(t, time.Now().Before(end), "it never was %v", want)
				}
			}
			require.False(t, unread.Unread())
			_, err = other.WriteTo([]byte("x"), conn.LocalAddr())
			require.NoError(t, err)
			wait(true) // and nobody reads yet
			h := &unreadHandler{conn: conn, handling: make(chan bool, 1), goOn: make(chan struct{})}
			require.NoError(t, conn.Attach(h))
			start()
			require.True(t, <-h.handling)
			require.True(t, unread.Unread())
			h.goOn <- struct{}{}
			wait(false)
		})
	}
}
