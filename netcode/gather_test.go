package netcode

import (
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"volley/internal/datagram"
	"volley/internal/wire"
)

// A gatherConn is a transport that takes part in passes, of which the test
// decides what has left.
type gatherConn struct {
	*orderConn
	out  wire.Batch
	from datagram.Sender
}

func (g *gatherConn) Features() datagram.Features { return datagram.Features{Gather: g} }

func (g *gatherConn) Gather(*datagram.Gathering) *wire.Batch               { return &g.out }
func (g *gatherConn) Gathered(_ *datagram.Gathering, from datagram.Sender) { g.from = from }

// left gives to the network what has been gathered.
func (g *gatherConn) left() {
	g.WriteBatch(&g.out)
	g.out.Reset()
}

// An above is a layer on top of a session that takes part in a pass.
type above struct {
	told   int
	unsent []string
	err    error
}

func (a *above) Sent(unsent *wire.Batch, err error) {
	a.told, a.err = a.told+1, err
	for i := range unsentLen(unsent) {
		a.unsent = append(a.unsent, string(unsent.At(i)))
	}
}

func unsentLen(b *wire.Batch) int {
	if b == nil {
		return 0
	}
	return b.Len()
}

func startGathering(t *testing.T) (*Conn, *gatherConn) {
	t.Helper()
	c, o := startOrdered(t, func() time.Duration { return time.Millisecond })
	g := &gatherConn{orderConn: o}
	c.dc = g
	return c, g
}

// pass gathers payloads on behalf of a layer above.
func pass(c *Conn, from datagram.Sender, payloads ...string) {
	var g datagram.Gathering
	s := (*stacked)(c)
	out := s.Features().Gather.Gather(&g)
	for _, p := range payloads {
		out.Append([]byte(p))
	}
	s.Gathered(&g, from)
}

// What is sealed into a pass leaves before what is written meanwhile, also if
// there is no room for it in the socket at first; the layer above is done with
// it then.
func TestGather(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, g := startGathering(t)
		for _, room := range []bool{true, false} {
			var a above
			pass(c, &a, "one", "two")
			require.Equal(t, 2, g.out.Len())
			require.Zero(t, a.told)
			_, err := c.Write([]byte("behind it"))
			require.NoError(t, err)
			var b above
			pass(c, &b, "queued")
			require.Equal(t, above{told: 1}, b)
			require.Equal(t, 2, g.out.Len())
			if room {
				g.left()
				g.from.Sent(nil, nil)
			} else {
				g.from.Sent(&g.out, nil)
				g.out.Reset()
			}
			require.Equal(t, above{told: 1}, a)
			synctest.Wait()
			time.Sleep(time.Second)
		}
		g.wantOrder(t, 8)
		require.EqualValues(t, 8, c.Stats().MessagesSent)
		pass(c, nil, "nobody wants to know")
		g.left()
		g.from.Sent(nil, nil)
		c.Close()
	})
}

// What would have to wait goes back to the layer above, unsealed; for one that
// does not want it, it waits.
func TestGatherBlocked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, g := startGathering(t)
		var a above
		pass(c, &a, "x")
		for !c.out.Full() {
			pass(c, &a, "x")
		}
		n := a.told
		pass(c, &a, "one", "two")
		require.Equal(t, n+1, a.told)
		require.Equal(t, []string{"one", "two"}, a.unsent)
		go func() {
			time.Sleep(time.Second)
			g.left()
			g.from.Sent(nil, nil)
		}()
		begin := time.Now()
		pass(c, nil, "x")
		require.GreaterOrEqual(t, time.Since(begin), time.Second)
		synctest.Wait()
		time.Sleep(time.Second)
		g.wantOrder(t, 1+n+1)
		c.Close()
	})
}

// Errors are told to the layer above, and what was not sealed makes nobody wait.
func TestGatherErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, g := startGathering(t)
		var a above
		pass(c, &a, "x")
		g.from.Sent(nil, net.ErrClosed)
		require.Equal(t, above{told: 1, err: net.ErrClosed}, a)
		g.out.Reset()

		var tooLarge *MessageTooLargeError
		pass(c, &a, string(make([]byte, MaxMessageSize+1)))
		require.ErrorAs(t, a.err, &tooLarge)
		require.Zero(t, g.out.Len())
		require.False(t, c.out.Busy())

		c.end(nil, io.EOF)
		pass(c, &a, "x")
		require.Equal(t, datagram.ErrPeerClosed, a.err)
		c.Close()
		pass(c, &a, "x")
		require.ErrorIs(t, a.err, net.ErrClosed)
		require.Equal(t, 4, a.told)
		pass(c, nil, "x")
		require.Zero(t, g.out.Len())
	})
}
