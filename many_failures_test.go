package volley

import (
	"fmt"
	"net"
	"os"
	"slices"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"volley/simnet"
)

// An error concerns one connection alone, and is told with it.
func TestWriteAllErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clients, servers := crowdOf(t, 70)
		servers[3].Close()
		servers[5].SetWriteDeadline(time.Now().Add(-time.Second))
		x, y := Pipe(nil) // waits for room, and cannot gather
		defer y.Close()
		defer x.Close()
		small, _ := Pipe(&Config{MaxMessageSize: 2})
		defer small.Close()
		conns := append(slices.Clone(servers), nil, clients[0], x, small)

		err := WriteAll([]byte("hello"), slices.Values(conns))
		var all *WriteAllError
		require.ErrorAs(t, err, &all)
		require.Equal(t, len(conns), all.Of)
		want := map[*Conn]error{servers[3]: net.ErrClosed, servers[5]: os.ErrDeadlineExceeded, nil: syscall.EINVAL, small: nil}
		require.Len(t, all.Failed, len(want))
		for c, failure := range all.Failed {
			target, ok := want[c]
			require.True(t, ok, "failed: %v", failure)
			if target != nil {
				require.ErrorIs(t, failure, target)
				require.ErrorIs(t, err, target)
			}
			if c != nil {
				require.IsType(t, &net.OpError{}, failure)
			}
		}
		var tooLarge *MessageTooLargeError
		require.ErrorAs(t, err, &tooLarge)
		require.Contains(t, err.Error(), "4 of 74 messages not written, the first: ")

		time.Sleep(time.Second)
		for i, c := range clients {
			if i == 3 || i == 5 {
				require.Zero(t, c.user.In.Len())
			} else {
				wantMessage(t, c, "hello")
			}
		}
		wantMessage(t, servers[0], "hello")
		wantMessage(t, y, "hello")

		err = WriteAll(make([]byte, servers[0].MaxMessageSize()+1), slices.Values(servers[:1]))
		var large *MessageTooLargeError
		require.ErrorAs(t, err, &large)
		_, single := servers[0].Write(make([]byte, servers[0].MaxMessageSize()+1))
		require.Equal(t, single.Error(), err.Error())
	})
}

// crowdAt returns connections that a Listener has accepted at a socket that wrap has
// made of one.
func crowdAt(t *testing.T, n int, wrap func(net.PacketConn) net.PacketConn) (servers []*Conn) {
	t.Helper()
	network := simnet.New(1)
	t.Cleanup(func() { network.Close() })
	pc, err := network.Listen("10.0.0.1:7777")
	require.NoError(t, err)
	l, err := new(ListenConfig).ListenOn(wrap(pc))
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	for i := range n {
		inner, err := network.Dial(fmt.Sprintf("10.0.0.2:%d", 1+i), "10.0.0.1:7777")
		require.NoError(t, err)
		c := mustConn(inner, nil)
		t.Cleanup(func() { c.Close() })
		_, err = c.Write([]byte("hello"))
		require.NoError(t, err)
		s := accept(t, l)
		t.Cleanup(func() { s.Close() })
		servers = append(servers, s)
	}
	return servers
}

// A brokenPacketConn refuses to send from a moment on.
type brokenPacketConn struct {
	net.PacketConn
	mu  sync.Mutex
	err error
}

func (b *brokenPacketConn) wrap(pc net.PacketConn) net.PacketConn {
	b.PacketConn = pc
	return b
}

func (b *brokenPacketConn) WriteTo(p []byte, to net.Addr) (int, error) {
	b.mu.Lock()
	err := b.err
	b.mu.Unlock()
	if err != nil {
		return 0, err
	}
	return b.PacketConn.WriteTo(p, to)
}

// A socket that is gone is an error on each of its connections, and what it
// refuses for the moment on none.
func TestWriteAllBrokenSocket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var broken brokenPacketConn
		_, others := crowdOf(t, 2)
		servers := slices.Concat(others, crowdAt(t, 5, broken.wrap))
		breaks := func(err error) {
			synctest.Wait() // nobody transmits, who would send a message later
			broken.mu.Lock()
			broken.err = err
			broken.mu.Unlock()
		}
		breaks(syscall.ENOBUFS)
		require.NoError(t, WriteAll([]byte("hello"), slices.Values(servers)))
		breaks(net.ErrClosed)
		for range 2 {
			var all *WriteAllError
			require.ErrorAs(t, WriteAll([]byte("hello"), slices.Values(servers)), &all)
			synctest.Wait()
			require.Len(t, all.Failed, 5)
			for _, s := range servers[2:] {
				require.ErrorIs(t, all.Failed[s], net.ErrClosed)
			}
		}
	})
}

// An error of before is told for a message that is not written, also if another
// socket breaks in the same pass.
func TestWriteAllToldOfBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var broken brokenPacketConn
		s := crowdAt(t, 1, broken.wrap)[0]
		clients, _ := crowdOf(t, 1) // dialed, so written to when the pass is over
		broken.mu.Lock()
		broken.err = net.ErrClosed
		broken.mu.Unlock()
		x := clients[0]
		synctest.Wait() // what it had to say of itself has left
		before := x.Stats().MessagesSent
		x.mu.Lock()
		x.out.SentUnlocking(nil, syscall.EPERM, x.out.Deadline()) // as if it had been in a pass
		x.mu.Unlock()
		var all *WriteAllError
		require.ErrorAs(t, WriteAll([]byte("hello"), slices.Values([]*Conn{s, x})), &all)
		require.ErrorIs(t, all.Failed[s], net.ErrClosed)
		require.ErrorIs(t, all.Failed[x], syscall.EPERM)
		require.Equal(t, before, x.Stats().MessagesSent, "written, and yet told to have failed")
	})
}

// A hookedPacketConn calls a function before it sends.
type hookedPacketConn struct {
	net.PacketConn
	hook func(to net.Addr)
}

func (h *hookedPacketConn) WriteTo(p []byte, to net.Addr) (int, error) {
	h.hook(to)
	return h.PacketConn.WriteTo(p, to)
}

// However much is written to one connection meanwhile, those behind it in the
// pass are free again at once: their own messages do not wait for its flood.
func TestWriteAllBesideFlood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var servers []*Conn
		const flood = 100
		var mu sync.Mutex
		left, held := 0, 0
		hook := func(to net.Addr) {
			mu.Lock()
			more := left > 0 && to.String() == servers[0].RemoteAddr().String()
			if more {
				left--
			}
			mu.Unlock()
			if !more {
				return
			}
			servers[0].Write([]byte("one more"))
			time.Sleep(time.Millisecond) // who can go on does
			servers[1].mu.Lock()
			busy := servers[1].out.Busy()
			servers[1].mu.Unlock()
			if busy {
				mu.Lock()
				held++
				mu.Unlock()
			}
		}
		servers = crowdAt(t, 2, func(pc net.PacketConn) net.PacketConn { return &hookedPacketConn{pc, hook} })
		mu.Lock()
		left = flood
		mu.Unlock()
		require.NoError(t, WriteAll([]byte("hello"), slices.Values(servers)))
		time.Sleep(time.Second)
		mu.Lock()
		defer mu.Unlock()
		require.Zero(t, left)
		require.EqualValues(t, flood+1, servers[0].Stats().MessagesSent)
		require.False(t, sending(servers[0]))
		require.LessOrEqual(t, held, 2) // with the pass itself, and once behind it
	})
}
