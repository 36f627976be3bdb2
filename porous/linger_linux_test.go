package porous

import (
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"volley/porous/internal/core"
)

// A dialed connection that is closed still answers a peer that asks to end again,
// as it has not heard the first answer.
func TestDialedConnAnswersAfterClose(t *testing.T) {
	pc, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	require.NoError(t, err)
	defer pc.Close()
	pc.SetDeadline(time.Now().Add(20 * time.Second))
	await := func(typ core.FrameType) (frame []byte, from net.Addr) {
		for buf := make([]byte, 2000); ; {
			n, from, err := pc.ReadFrom(buf)
			require.NoError(t, err)
			if n > 0 && core.FrameType(buf[0]) == typ {
				return buf[:n], from
			}
		}
	}
	dialed := make(chan *Conn, 1)
	go func() {
		c, _ := new(Dialer).Dial(t.Context(), "udp", pc.LocalAddr().String())
		dialed <- c
	}()
	b, from := await(core.TypeConnect)
	request, ok := core.ParseConnect(b)
	require.True(t, ok)
	pc.WriteTo(core.AppendConnectAck(nil, request.ID), from)
	pc.WriteTo(core.AppendConnect(nil, request), from)
	c := <-dialed
	require.NotNil(t, c)
	pc.WriteTo(core.AppendDisconnect(nil), from)
	_, err = c.Read(make([]byte, 1))
	require.Equal(t, io.EOF, err)
	await(core.TypeDisconnectAck)
	require.NoError(t, c.Close())
	pc.WriteTo(core.AppendDisconnect(nil), from)
	await(core.TypeDisconnectAck)
}
