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

	"volley/internal/loopback"
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
		for channel := range c.sides {
			readers.Go(func() {
				var buf [toyMost - 1]byte
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
		for channel := range a.sides {
			text := []byte(fmt.Sprint(channel, i))
			require.NoError(t, a.Write(byte(channel), text))
			require.NoError(t, b.Write(byte(channel), text))
		}
	}
	readers.Wait()
	require.GreaterOrEqual(t, time.Since(begin), (2*messages-1)*toyPace, "paced")
	var buf [toyMost - 1]byte
	require.Error(t, a.Write(0, make([]byte, toyMost)))
	require.NoError(t, a.Write(0, make([]byte, toyMost-1)))
	n, err := b.Read(0, buf[:])
	require.NoError(t, err)
	require.Equal(t, toyMost-1, n)
	require.NoError(t, a.Close())
	require.ErrorIs(t, a.Write(0, nil), net.ErrClosed)
	_, err = b.Read(1, buf[:])
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
			s, err := newToySocket(pc)
			require.NoError(t, err)
			sockets = append(sockets, s)
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
		_, err := c.Read(0, make([]byte, 1))
		require.Equal(t, io.EOF, err)
		require.NoError(t, c.Close())
		for _, s := range sockets {
			s.mux.Close()
		}
	})
}

// TestToyUDP: over the loopback, where the callers of Read read the sockets: of one
// that accepts, and of one that dials from a socket that accepts, too, or is
// dialed. While there are two of them, for two channels, the goroutine does.
func TestToyUDP(t *testing.T) {
	listen := func() *toySocket {
		pc, err := net.ListenPacket("udp", loopback.Addr())
		require.NoError(t, err)
		s, err := newToySocket(pc)
		require.NoError(t, err)
		t.Cleanup(func() { s.mux.Close() })
		return s
	}
	for name, dial := range map[string]func(to net.Addr) (*toy, error){
		"accepting": func(to net.Addr) (*toy, error) { return listen().Dial(to.(*net.UDPAddr).AddrPort()) },
		"dialed": func(to net.Addr) (*toy, error) {
			inner, err := net.Dial("udp", to.String())
			require.NoError(t, err)
			c, err := toyOver(inner)
			require.NoError(t, err)
			return c, c.Write(toyHello, nil)
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := listen()
			a, err := dial(l.mux.Addr())
			require.NoError(t, err)
			talkToys(t, a, <-l.accepted)
		})
	}
}

// TestToyBacklog: whom nobody accepts is told so, and the reader does not wait.
func TestToyBacklog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := simnet.New(1)
		var sockets []*toySocket
		for i := range 2 {
			pc, err := n.Listen(fmt.Sprintf("10.0.0.%d:7", 1+i))
			require.NoError(t, err)
			s, err := newToySocket(pc)
			require.NoError(t, err)
			defer s.mux.Close()
			sockets = append(sockets, s)
		}
		sockets[1].accepted = make(chan *toy)
		c, err := sockets[0].Dial(netip.MustParseAddrPort("10.0.0.2:7"))
		require.NoError(t, err)
		_, err = c.Read(0, make([]byte, 1))
		require.Equal(t, io.EOF, err)
		require.NoError(t, c.Close())
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
