package listen

import (
	"net"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"volley/internal/loopback"
)

// TestEarlyAtAll: what came before the last socket was bound is discarded at all that
// were there.
func TestEarlyAtAll(t *testing.T) {
	var pcs []net.PacketConn
	for range 3 {
		pc, err := net.ListenPacket("udp4", loopback.Addr())
		require.NoError(t, err)
		pcs = append(pcs, pc)
		c, err := net.Dial("udp4", pc.LocalAddr().String())
		require.NoError(t, err)
		_, err = c.Write([]byte("early"))
		require.NoError(t, err)
		c.Close()
		raw, err := pc.(*net.UDPConn).SyscallConn()
		require.NoError(t, err)
		err = raw.Read(func(fd uintptr) bool { // waits until it is there
			_, _, err := syscall.Recvfrom(int(fd), make([]byte, 1), syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
			return err == nil
		})
		require.NoError(t, err)
	}
	p, err := new(Options).open(pcs)
	require.NoError(t, err)
	require.EqualValues(t, 3, p.early)
	p.Close()
}
