package porous

import (
	"context"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"volley/internal/loopback"
)

// refusing returns an address at which nobody listens.
func refusing(t *testing.T) string {
	t.Helper()
	pc, err := net.ListenUDP("udp4", &net.UDPAddr{IP: loopback.Host().AsSlice()})
	require.NoError(t, err)
	defer pc.Close()
	return pc.LocalAddr().String()
}

// The error of Dial tells of a machine that says that nobody listens, whatever ended
// the attempt.
func TestDialRefused(t *testing.T) {
	_, err := (&Dialer{Config: &Config{HandshakeTimeout: 200 * time.Millisecond}}).Dial(t.Context(), "udp4", refusing(t))
	require.ErrorIs(t, err, ErrHandshakeTimeout)
	require.NotErrorIs(t, err, net.ErrClosed)
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
	require.False(t, err.(net.Error).Timeout())
	require.True(t, strings.Contains(err.Error(), "handshake in time; the socket's last error: "), err.Error())

	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	_, err = new(Dialer).Dial(ctx, "udp4", refusing(t))
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
	require.True(t, err.(net.Error).Timeout())
}

// So does that of a connection whose peer has gone.
func TestIdleTimeoutTellsWhy(t *testing.T) {
	l, err := Listen("udp4", loopback.Addr())
	require.NoError(t, err)
	c, err := (&Dialer{Config: &Config{IdleTimeout: time.Second, KeepAlive: 100 * time.Millisecond}}).Dial(t.Context(), "udp4", l.Addr().String())
	require.NoError(t, err)
	defer c.Abort()
	s, err := l.AcceptConn(context.Background())
	require.NoError(t, err)
	l.side.Muxes()[0].Close()
	s.out.Below.Close() // the peer is not told
	_, err = c.Read(make([]byte, 1))
	require.ErrorIs(t, err, ErrIdleTimeout)
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
}
