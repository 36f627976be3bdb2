package volley

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"volley/internal/datagram"
	"volley/internal/registry"
)

// An askedConn counts how often its Stats are asked for, which over a UDP socket is
// a system call each time.
type askedConn struct {
	datagram.Conn
	times int
}

func (c *askedConn) Stats() datagram.Stats {
	c.times++
	return c.Conn.Stats()
}

// TestViewAsksOnce: a look at a connection asks its transport once, explained or
// not.
func TestViewAsksOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := Pipe(nil)
		defer b.Close()
		defer a.Close()
		asked := &askedConn{Conn: a.out.Below}
		a.out.Below = asked
		for _, explain := range []bool{false, true} {
			asked.times = 0
			var v registry.Conn
			require.True(t, (*handler)(a).View(&v, explain))
			require.Equal(t, explain, v.Explain != "")
			require.Equal(t, 1, asked.times, "explained: %v", explain)
		}
	})
}
