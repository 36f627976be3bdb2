package porous

import (
	"errors"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"volley/internal/datagram"
	"volley/internal/loopback"
	"volley/simnet"
)

// DialOn connects over sockets of the system, connected or not, and of simnet. The
// socket is closed with the connection.
func TestDialOn(t *testing.T) {
	l, err := Listen("udp4", loopback.Addr())
	require.NoError(t, err)
	defer l.Close()
	for _, connected := range []bool{false, true} {
		pc, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
		if connected {
			pc, err = net.DialUDP("udp4", nil, l.Addr().(*net.UDPAddr))
		}
		require.NoError(t, err)
		testDialOn(t, l, pc)
		closed := func() bool { return errors.Is(pc.SetDeadline(time.Time{}), net.ErrClosed) }
		require.Eventually(t, closed, time.Minute, 10*time.Millisecond)
	}
	bubble(t, func(t *testing.T) {
		n := simnet.New(1)
		defer n.Close()
		n.SetDefault(simnet.Link{Latency: time.Millisecond})
		l := simListener(t, n, "10.0.0.1:7", &ListenConfig{})
		defer l.Close()
		pc, err := n.Listen("10.0.0.2:7")
		require.NoError(t, err)
		testDialOn(t, l, pc)
		time.Sleep(2100 * time.Millisecond) // for a peer that asks again
		pc, err = n.Listen("10.0.0.2:7")
		require.NoError(t, err, "the address is free")
		pc.Close()
	})
}

func testDialOn(t *testing.T, l *Listener, pc net.PacketConn) {
	c, err := new(Dialer).DialOn(t.Context(), pc, l.Addr())
	require.NoError(t, err)
	s, err := l.AcceptConn(t.Context())
	require.NoError(t, err)
	require.Equal(t, pc.LocalAddr().String(), c.LocalAddr().String())
	require.Equal(t, l.Addr().String(), c.RemoteAddr().String())
	c.Write([]byte("over a socket that exists"))
	require.Equal(t, "over a socket that exists", readString(t, s))
	require.NoError(t, s.Close())
	require.NoError(t, c.Close())
}

// If DialOn fails, the socket is closed.
func TestDialOnErrors(t *testing.T) {
	for name, raddr := range map[string]net.Addr{
		"nil":    nil,
		"port 0": &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)},
		"family": &net.UDPAddr{IP: net.IPv6loopback, Port: 9},
		"text":   pipeAddr("nowhere"),
		"other":  &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 9},
	} {
		pc, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
		if name == "other" {
			pc, err = net.DialUDP("udp4", nil, &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 8})
		}
		require.NoError(t, err)
		_, err = new(Dialer).DialOn(t.Context(), pc, raddr)
		if raddr == nil {
			require.ErrorAs(t, err, new(*ConfigError))
		} else {
			require.ErrorAs(t, err, new(*net.AddrError), name)
		}
		require.ErrorIs(t, pc.SetDeadline(time.Time{}), net.ErrClosed, name)
	}
}

// pipeAddr is an address of no socket.
func pipeAddr(name string) net.Addr { return datagram.PipeAddr{Net: "porous-pipe", Name: name} }
