package stacktest

import (
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"volley/netcode"
	"volley/simnet"
)

// talkToys sends messages both ways on both channels of a connection, with a
// reader for each, and closes it from a's side.
func talkToys(t *testing.T, a, b *toy) {
	const messages = 20
	begin := time.Now()
	var readers sync.WaitGroup
	for _, c := range []*toy{a, b} {
		for channel := range c.in {
			readers.Go(func() {
				var buf [toyMessage]byte
				for i := range messages {
					n, err := c.Read(channel, buf[:])
					if got, want := string(buf[:n]), fmt.Sprint(channel, i); got != want || err != nil {
						t.Errorf("Read(%d) = %q, %v, want %q", channel, got, err, want)
						return
					}
				}
			})
		}
	}
	for i := range messages {
		for channel := range a.in {
			text := []byte(fmt.Sprint(channel, i))
			require.NoError(t, a.Write(byte(channel), text))
			require.NoError(t, b.Write(byte(channel), text))
		}
	}
	readers.Wait()
	require.GreaterOrEqual(t, time.Since(begin), time.Duration(2*messages-1)*toyPace, "paced")
	require.NoError(t, a.Close())
	synctest.Wait()
	time.Sleep(time.Second)
	_, err := b.Read(1, nil)
	require.Equal(t, io.EOF, err)
	require.NoError(t, b.Close())
}

// TestToyNetwork: three sockets that accept and dial, two of which dial each
// other at once.
func TestToyNetwork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := simnet.New(1)
		n.SetDefault(simnet.Link{Latency: 5 * time.Millisecond})
		var sockets []*toySocket
		var addrs []netip.AddrPort
		for i := range 3 {
			pc, err := n.Listen(fmt.Sprintf("10.0.0.%d:7", 1+i))
			require.NoError(t, err)
			sockets = append(sockets, newToySocket(pc))
			addrs = append(addrs, pc.LocalAddr().(*net.UDPAddr).AddrPort())
		}
		dial := func(from, to int) *toy {
			c, err := sockets[from].Dial(addrs[to])
			require.NoError(t, err)
			return c
		}
		a, b := dial(0, 1), dial(1, 0)
		c := dial(2, 0)
		talkToys(t, a, b)
		talkToys(t, c, <-sockets[0].accepted)
		require.Zero(t, len(sockets[0].accepted)+len(sockets[1].accepted), "two that dialed each other have met")

		// Who did not hear of the end is told so when it sends.
		c = dial(1, 2)
		d := <-sockets[2].accepted
		n.SetLink(addrs[2].Addr(), addrs[1].Addr(), simnet.Link{Loss: 1})
		require.NoError(t, d.Close())
		time.Sleep(10 * time.Millisecond)
		n.SetLink(addrs[2].Addr(), addrs[1].Addr(), simnet.Link{})
		require.NoError(t, c.Write(0, []byte("still there?")))
		_, err := c.Read(0, nil)
		require.Equal(t, io.EOF, err)
		require.NoError(t, c.Close())
		for _, s := range sockets {
			s.mux.Close()
		}
	})
}

// TestToyStacked: the same protocol over a session of netcode, by function
// calls, and over connections that are not volley's own.
func TestToyStacked(t *testing.T) {
	for name, pair := range map[string]func(t *testing.T) (a, b net.Conn, done func()){
		"netcode": func(t *testing.T) (a, b net.Conn, done func()) {
			s := newSessions(t, simnet.Link{Latency: 3 * time.Millisecond})
			a = s.dial(t)
			b, err := s.inner.Accept()
			require.NoError(t, err)
			return a, b, func() { s.inner.Close() }
		},
		"netcode.Pipe": func(*testing.T) (a, b net.Conn, done func()) {
			a, b = netcode.Pipe(1, nil)
			return a, b, func() {}
		},
		"foreign": func(*testing.T) (a, b net.Conn, done func()) {
			a, b = simnet.Pair(1, simnet.Link{}, simnet.Link{})
			return a, b, func() {}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				x, y, done := pair(t)
				a, err := toyOver(x)
				require.NoError(t, err)
				b, err := toyOver(y)
				require.NoError(t, err)
				talkToys(t, a, b)
				done()
			})
		})
	}
}
