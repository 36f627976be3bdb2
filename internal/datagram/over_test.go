package datagram

import (
	"net"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"volley/internal/loopback"
	"volley/internal/socket"
)

// Over takes the Conn below a connection of volley's own, a socket of its own for UDP,
// and whatever else as it is.
func TestOver(t *testing.T) {
	cfg := OverConfig{Socket: socket.Config{DisableOffload: true}, MaxDatagram: 1000, MaxForeign: 2000, MaxMessage: 3000}
	a, _ := NewPipe(testAddr("a"), testAddr("b"))
	layers.Delete(reflect.TypeFor[*layeredConn]())
	RegisterLayer(func(c *layeredConn) Conn { return c.below })
	dc, err := Over(&layeredConn{below: a}, cfg)
	require.NoError(t, err)
	require.Same(t, a, dc)

	near, far := net.Pipe()
	defer far.Close()
	dc, err = Over(near, cfg)
	require.NoError(t, err)
	foreign, ok := dc.(*Foreign)
	require.True(t, ok)
	require.Equal(t, 2000, foreign.MaxDatagram())
	require.Equal(t, 2*(64<<10+3000), foreign.sock.limit)
	require.NoError(t, dc.Close())

	other, err := net.ListenPacket("udp4", loopback.Addr())
	require.NoError(t, err)
	defer other.Close()
	udp, err := net.Dial("udp4", other.LocalAddr().String())
	require.NoError(t, err)
	dc, err = Over(udp, cfg)
	require.NoError(t, err)
	single, ok := dc.(*Single)
	require.True(t, ok)
	require.Equal(t, 1000, single.MaxDatagram())
	require.Equal(t, udp.LocalAddr(), single.LocalAddr())
	require.Equal(t, other.LocalAddr().String(), single.RemoteAddr().String())
	require.False(t, single.Stats().Socket.GSO)
	require.NoError(t, dc.Close())

	dc, err = Over(udp, cfg)
	require.Error(t, err, "it is closed")
	require.Nil(t, dc)
}
