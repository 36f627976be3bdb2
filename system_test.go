package volley

import (
	"errors"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"volley/simnet"
)

// What programs do with the socket of a net.UDPConn works on ours as far as it
// does no harm.
func TestSocketOptions(t *testing.T) {
	client, server := udpPair(t, nil)
	pc := listenPacket(t, &ListenConfig{})
	for name, c := range map[string]interface {
		SetReadBuffer(int) error
		SetWriteBuffer(int) error
		SyscallConn() (syscall.RawConn, error)
	}{"dialed": client, "accepted": server, "PacketConn": pc} {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, c.SetReadBuffer(64<<10))
			require.NoError(t, c.SetWriteBuffer(32<<10))
			for _, bytes := range []int{0, -1} {
				_, ok := errors.AsType[*ConfigError](c.SetReadBuffer(bytes))
				require.True(t, ok)
			}
			raw, err := c.SyscallConn()
			require.NoError(t, err)
			called := false
			require.NoError(t, raw.Control(func(uintptr) { called = true }))
			require.True(t, called)
			none := func(uintptr) bool { t.Error("it was read or written"); return true }
			require.ErrorIs(t, raw.Read(none), errors.ErrUnsupported)
			require.ErrorIs(t, raw.Write(none), errors.ErrUnsupported)
		})
	}
	for _, s := range []TransportStats{client.Stats().Transport, server.Stats().Transport, pc.Stats().Transport} {
		if s.ReadBuffer != 0 { // told by this system
			require.Equal(t, 64<<10, s.ReadBuffer)
			require.Equal(t, 32<<10, s.WriteBuffer)
		}
	}
}

func TestSocketOptionsWithoutSocket(t *testing.T) {
	n := simnet.New(1)
	defer n.Close()
	pc := packetAt(t, n, "10.0.0.1:7", nil)
	defer pc.Close()
	a, b := Pipe(nil)
	defer a.Close()
	defer b.Close()
	require.ErrorIs(t, a.SetReadBuffer(1000), errors.ErrUnsupported)
	require.ErrorIs(t, a.SetWriteBuffer(1000), errors.ErrUnsupported)
	_, err := a.SyscallConn()
	require.ErrorIs(t, err, errors.ErrUnsupported)
	_, err = pc.SyscallConn()
	require.ErrorIs(t, err, errors.ErrUnsupported)
	require.ErrorIs(t, pc.SetReadBuffer(1000), errors.ErrUnsupported)
}
