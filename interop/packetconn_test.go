package interop

import (
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"volley"
)

// listenPacket returns a net.PacketConn of messages, closed with the test.
func listenPacket(t *testing.T, addr string) net.PacketConn {
	t.Helper()
	pc, err := volley.ListenPacket("udp", addr)
	require.NoError(t, err)
	t.Cleanup(func() { pc.Close() })
	return pc
}

// A DNS server with many clients on one socket.
func TestDNSServer(t *testing.T) {
	pc := listenPacket(t, "127.0.0.1:0")
	serveDNS(t, pc)
	for range 20 {
		c, err := volley.Dial("udp", pc.LocalAddr().String())
		require.NoError(t, err)
		require.NoError(t, c.SetDeadline(time.Now().Add(patience)))
		resolve(t, c, 100)
		resolve(t, c, 1)
		require.NoError(t, c.Close())
	}
}
