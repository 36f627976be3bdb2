package stacktest

import (
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"volley"
	"volley/netcode"
	"volley/simnet"
)

// TestMarkers: programs that take any net.Conn find out by two methods what a
// message connection can do, on whatever it stands.
func TestMarkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		check := func(what string, keepsOrder bool, size int, conns ...net.Conn) {
			for _, c := range conns {
				m, ok := c.(interface {
					KeepsOrder() bool
					MaxMessageSize() int
				})
				require.True(t, ok, what)
				require.Equal(t, keepsOrder, m.KeepsOrder(), what)
				require.Equal(t, size, m.MaxMessageSize(), what)
				c.Close()
				require.Equal(t, keepsOrder, m.KeepsOrder(), "%s, closed", what)
			}
		}
		def, _ := volley.Pipe(nil)
		size := def.MaxMessageSize()
		def.Close()
		a, b := volley.Pipe(nil)
		check("a lossless pipe", true, size, a, b)
		link := simnet.Link{Latency: time.Millisecond}
		a, b = netPipe(0, link, nil)
		check("connections over a network in memory", false, size, a, b)
		x, y := netcode.Pipe(1, nil)
		check("sessions on a pipe", true, netcode.MaxMessageSize, x, y)
		x, y = netcode.Pipe(1, nil)
		a, b = newConn(x, nil), newConn(y, nil)
		check("connections on such sessions", true, size, a, b)
		p, q := simnet.Pair(1, simnet.Link{}, simnet.Link{})
		check("foreign connections", false, size, newConn(p, nil), newConn(q, nil))
	})
}
