package porous

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"volley/internal/testenv"
	"volley/internal/wire"
	"volley/porous/internal/core"
	"volley/simnet"
)

// simListener listens in a simulated network.
func simListener(t *testing.T, n *simnet.Network, addr string, lc *ListenConfig) *Listener {
	pc, err := n.Listen(addr)
	require.NoError(t, err)
	l, err := lc.ListenOn(pc)
	require.NoError(t, err)
	return l
}

// simDial dials in a simulated network.
func simDial(t *testing.T, n *simnet.Network, from, to string, cfg *Config) *Conn {
	x, err := n.Dial(from, to)
	require.NoError(t, err)
	return wrapped(x, cfg)
}

// H1, C13, R12: many peers on one socket, admitted after they have proved their
// address.
func TestListener(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := simnet.New(1)
		defer n.Close()
		n.SetDefault(simnet.Link{Latency: 10 * time.Millisecond, Loss: 0.05})
		l := simListener(t, n, "10.0.0.1:7", &ListenConfig{})
		defer l.Close()
		var dialed []*Conn
		for range 50 {
			dialed = append(dialed, simDial(t, n, "10.0.0.2:0", "10.0.0.1:7", nil))
		}
		accepted := map[string]*Conn{}
		for range dialed {
			c, err := l.Accept()
			require.NoError(t, err)
			accepted[c.RemoteAddr().String()] = c.(*Conn)
		}
		require.Len(t, accepted, 50)
		for _, c := range dialed {
			c.Write([]byte(c.LocalAddr().String()))
		}
		for addr, c := range accepted {
			require.Equal(t, addr, readString(t, c))
		}
		st := l.Stats()
		require.Equal(t, 50, st.Conns)
		require.EqualValues(t, 50, st.Accepted)
		require.GreaterOrEqual(t, st.Challenged, uint64(50))
		abort(dialed...)
		time.Sleep(time.Minute)
		for _, c := range accepted {
			require.NoError(t, c.Close())
		}
		require.Zero(t, l.Stats().Conns)
		require.Zero(t, l.Stats().Memory)
	})
}

// A flood of requests from 100,000 addresses makes nothing and is answered by
// no more than it sends; so do other datagrams, forged acknowledgements, and
// requests that do not fit.
func TestListenerFlood(t *testing.T) {
	l, err := (&ListenConfig{}).newListener()
	require.NoError(t, err)
	a := (*acceptor)(l)
	var out wire.Batch
	received := 0
	handle := func(from netip.AddrPort, b []byte) {
		received += len(b)
		require.Nil(t, a.HandleUnknown(time.Now(), from, false, [][]byte{b}, &out))
	}
	good := core.Connect{Channels: 1, ID: 7}
	for i := range uint32(100_000) {
		from := netip.AddrPortFrom(netip.AddrFrom4([4]byte{byte(i >> 16), byte(i >> 8), byte(i), 1}), uint16(i))
		handle(from, core.AppendConnect(nil, good))
		require.Equal(t, int(i+1), out.Len())
	}
	require.LessOrEqual(t, out.Size(), received, "amplification at most 1.0")
	from := netip.MustParseAddrPort("10.1.1.1:9")
	sent := out.Len()
	for i := range uint32(1000) {
		handle(from, core.AppendConnectAck(nil, i))
	}
	for _, b := range [][]byte{
		nil, {0}, {2}, {3}, core.AppendPing(nil, core.TypePing, 1), core.AppendDataHeader(nil, 1, 0), core.AppendDataAck(nil, nil),
		core.AppendConnect(nil, core.Connect{Version: 1, Channels: 1}), core.AppendConnect(nil, core.Connect{Channels: 2}),
	} {
		handle(from, b)
	}
	require.Equal(t, sent, out.Len(), "C4, C13")
	require.Zero(t, l.side.Conns())
	require.Zero(t, testing.AllocsPerRun(100, func() {
		out.Reset()
		a.HandleUnknown(time.Time{}, from, false, [][]byte{out.Extend(11)[:0]}, &out)
	}))
}

// The same through a Listener that has a peer, who does not notice: what is held
// does not grow, whatever the strangers send.
func TestListenerFloodBesideAPeer(t *testing.T) {
	if testenv.Race {
		t.Skip("the race detector changes what memory costs")
	}
	bubble(t, func(t *testing.T) {
		n := simnet.New(1)
		defer n.Close()
		n.SetDefault(simnet.Link{Latency: 10 * time.Millisecond})
		pc, err := n.Listen("10.0.0.1:7")
		require.NoError(t, err)
		flood := &crowd{PacketConn: pc, peer: "10.0.0.2:5"}
		l, err := (&ListenConfig{}).ListenOn(flood)
		require.NoError(t, err)
		defer l.Close()
		start := time.Now()
		c := simDial(t, n, flood.peer, "10.0.0.1:7", nil)
		defer abort(c)
		s, err := l.AcceptConn(context.Background())
		require.NoError(t, err)
		defer abort(s)
		require.NoError(t, c.Flush(t.Context()))
		require.LessOrEqual(t, time.Since(start), 60*time.Millisecond, "three times there and back, and no half second")
		buf := make([]byte, 100)
		exchange := func() {
			c.Write(buf)
			sent := time.Now()
			_, err := s.Read(buf)
			require.NoError(t, err)
			require.Equal(t, 10*time.Millisecond, time.Since(sent))
		}
		for range 20 {
			exchange()
		}
		before := heap()
		for flood.sources < 100_000 {
			exchange()
		}
		time.Sleep(time.Second)
		require.Less(t, heap()-before, int64(256<<10))
		require.LessOrEqual(t, flood.sent, flood.requests, "amplification at most 1.0")
		require.Greater(t, flood.sent, 100_000*core.ConnectSize/2, "requests are answered")
		require.Equal(t, 1, l.Stats().Conns)
		require.LessOrEqual(t, l.Stats().Memory, int64(32<<10), "of the peer's messages")
		require.Zero(t, s.Stats().FramesResent+c.Stats().FramesResent)
	})
}

// A crowd puts the datagrams of hundreds of strangers before each one of a
// peer.
type crowd struct {
	net.PacketConn
	peer           string
	sources        int // so far
	next           int // of a stranger's datagrams
	left           int // strangers before what waits
	waiting        []byte
	from           net.Addr
	requests, sent int // bytes, of strangers' requests and to them
}

func (c *crowd) ReadFrom(b []byte) (int, net.Addr, error) {
	if c.waiting == nil {
		n, from, err := c.PacketConn.ReadFrom(b)
		if err != nil {
			return n, from, err
		}
		c.waiting, c.from = append(make([]byte, 0, n), b[:n]...), from
		c.left = 200
	}
	if c.left == 0 {
		n := copy(b, c.waiting)
		c.waiting = nil
		return n, c.from, nil
	}
	i := uint32(c.sources)
	from := netip.AddrPortFrom(netip.AddrFrom4([4]byte{11, byte(i >> 16), byte(i >> 8), byte(i)}), uint16(i)|1)
	var n int
	switch c.next {
	case 0:
		n = len(core.AppendConnect(b[:0], core.Connect{Channels: 1, ID: i}))
		c.requests += n
	case 1:
		n = len(core.AppendConnectAck(b[:0], i))
	default:
		n = len(core.AppendDataHeader(b[:0], i, 0))
	}
	if c.next++; c.next == 3 {
		c.next = 0
		c.sources++
		c.left--
	}
	return n, net.UDPAddrFromAddrPort(from), nil
}

func (c *crowd) WriteTo(b []byte, to net.Addr) (int, error) {
	if to.String() == c.peer {
		return c.PacketConn.WriteTo(b, to)
	}
	c.sent += len(b)
	return len(b), nil
}

// R13: a single source cannot make a Listener answer for ever, while others are
// answered; what is remembered of sources, and of connections that have ended,
// has a limit.
func TestR13Sources(t *testing.T) {
	bubble(t, func(t *testing.T) {
		l, err := (&ListenConfig{}).newListener()
		require.NoError(t, err)
		taken := make(map[uint64]bool)
		apart := func(format string) string { // a host that shares its counter with none of the others
			for i := 0; ; i++ {
				host := fmt.Sprintf(format, i)
				if slot := l.sources.slot(netip.MustParseAddr(host)); !taken[slot] {
					taken[slot] = true
					return host
				}
			}
		}
		a, b, network := apart("10.0.0.%d"), apart("10.0.1.%d"), apart("2001:db8:%d::")
		answered := func(host string, n int) int {
			var out wire.Batch
			for i := range n {
				from := netip.AddrPortFrom(netip.MustParseAddr(host), uint16(i))
				(*acceptor)(l).HandleUnknown(time.Now(), from, false, [][]byte{core.AppendConnect(nil, core.Connect{Channels: 1})}, &out)
			}
			return out.Len()
		}
		require.Equal(t, sourceBurst, answered(a, 100_000), "from 65536 ports")
		require.Zero(t, answered("::ffff:"+a, 10), "the same host")
		require.Equal(t, 10, answered(b, 10))
		time.Sleep(time.Second)
		require.Equal(t, sourceRate, answered(a, 100_000))
		require.Equal(t, sourceBurst, answered(network+"1", 1000))
		require.Zero(t, answered(network+"2", 10), "the same network")
		time.Sleep(time.Hour)
		require.Equal(t, sourceBurst, answered(a, 1000))
		require.LessOrEqual(t, unsafe.Sizeof(*l.sources.slots), uintptr(64<<10))
		require.EqualValues(t, 4096, maxTombstones)
	})
}

func TestListenerLimits(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := simnet.New(1)
		defer n.Close()
		filtered := netip.MustParseAddr("10.0.0.9")
		l := simListener(t, n, "10.0.0.1:7", &ListenConfig{
			MaxConns: 2,
			Filter:   func(ap netip.AddrPort) bool { return ap.Addr() != filtered },
		})
		defer l.Close()
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		a := simDial(t, n, "10.0.0.2:0", "10.0.0.1:7", nil)
		b := simDial(t, n, "10.0.0.3:0", "10.0.0.1:7", nil)
		require.NoError(t, a.Flush(ctx))
		require.NoError(t, b.Flush(ctx))
		c := simDial(t, n, "10.0.0.4:0", "10.0.0.1:7", nil)
		d := simDial(t, n, "10.0.0.9:0", "10.0.0.1:7", nil)
		require.ErrorIs(t, c.Flush(ctx), context.DeadlineExceeded)
		require.ErrorIs(t, d.Flush(ctx), context.DeadlineExceeded)
		st := l.Stats()
		require.NotZero(t, st.Refused)
		require.NotZero(t, st.Filtered)
		require.NoError(t, a.Close())
		require.NoError(t, c.Flush(t.Context()), "there is a place again")
		abort(b, c, d)
	})
}

// Of several that ask at the same moment only as many get a connection as there
// is room for, and nothing is kept of one whose handshake stops halfway.
func TestListenerLimitsAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := simnet.New(1)
		defer n.Close()
		n.SetDefault(simnet.Link{Latency: 10 * time.Millisecond})
		l := simListener(t, n, "10.0.0.1:7", &ListenConfig{MaxConns: 2})
		defer l.Close()
		half, err := n.Dial("10.0.0.3:1", "10.0.0.1:7")
		require.NoError(t, err)
		defer half.Close()
		proveAddress(t, half)
		var conns []*Conn
		for range 5 {
			conns = append(conns, simDial(t, n, "10.0.0.2:0", "10.0.0.1:7", nil))
		}
		time.Sleep(5 * time.Second)
		require.Equal(t, 2, l.Stats().Conns)
		require.EqualValues(t, 1, l.Stats().Accepted)
		pending := func() int {
			l.mu.Lock()
			defer l.mu.Unlock()
			return len(l.pending)
		}
		require.Equal(t, 2, pending())
		time.Sleep(time.Minute)
		abort(conns...)
		time.Sleep(time.Minute)
		require.Zero(t, pending())
		require.Zero(t, l.Stats().Conns)
	})
}

// S4, D3: the address of a connection that has ended stays closed for 20 s,
// but for requests to end, which are acknowledged.
func TestListenerLate(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := simnet.New(1)
		defer n.Close()
		l := simListener(t, n, "10.0.0.1:7", &ListenConfig{})
		defer l.Close()
		c := simDial(t, n, "10.0.0.2:5", "10.0.0.1:7", nil)
		s, err := l.AcceptConn(context.Background())
		require.NoError(t, err)
		require.NoError(t, c.Flush(t.Context()))
		s.Abort()
		_, err = c.Read(make([]byte, 1))
		require.Error(t, err)
		c.Abort()

		x, err := n.Dial("10.0.0.2:5", "10.0.0.1:7")
		require.NoError(t, err)
		buf := make([]byte, 100)
		x.Write([]byte{2})
		m, err := x.Read(buf)
		require.NoError(t, err)
		require.Equal(t, []byte{3}, buf[:m])
		x.SetReadDeadline(time.Now().Add(time.Second))
		x.Write(core.AppendConnect(nil, core.Connect{Channels: 1, ID: 7}))
		_, err = x.Read(buf)
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
		time.Sleep(20 * time.Second)
		x.SetReadDeadline(time.Time{})
		x.Write(core.AppendConnect(nil, core.Connect{Channels: 1, ID: 7}))
		m, err = x.Read(buf)
		require.NoError(t, err)
		require.Equal(t, core.ConnectSize, m)
		x.Close()
	})
}

func TestListenerClose(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := simnet.New(1)
		defer n.Close()
		l := simListener(t, n, "10.0.0.1:7", &ListenConfig{})
		a := simDial(t, n, "10.0.0.2:0", "10.0.0.1:7", nil)
		b := simDial(t, n, "10.0.0.2:0", "10.0.0.1:7", nil)
		accepted, err := l.AcceptConn(context.Background())
		require.NoError(t, err)
		require.NoError(t, a.Flush(t.Context()))
		require.NoError(t, b.Flush(t.Context()))
		_, err = acceptWithin(l, -1)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		synctest.Wait()
		require.NoError(t, l.Close())
		require.NoError(t, l.Close())
		_, err = l.Accept()
		require.ErrorIs(t, err, net.ErrClosed)
		peer := a
		if accepted.RemoteAddr().String() != a.LocalAddr().String() {
			peer = b
		}
		peer.Write([]byte("accepted ones live on"))
		require.Equal(t, "accepted ones live on", readString(t, accepted))
		require.NoError(t, peer.Close())
		require.NoError(t, accepted.Close())
		abort(a, b)
	})
}

// What the host allows is shared by all connections.
func TestListenerMemory(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := simnet.New(1)
		defer n.Close()
		n.SetDefault(simnet.Link{Latency: time.Millisecond})
		l := simListener(t, n, "10.0.0.1:7", &ListenConfig{MaxMemory: 1 << 20})
		defer l.Close()
		var conns, dialed []*Conn
		for range 4 {
			c := simDial(t, n, "10.0.0.2:0", "10.0.0.1:7", nil)
			dialed = append(dialed, c)
			for range 50 {
				c.Write(make([]byte, 16_000))
			}
			s, err := l.AcceptConn(context.Background())
			require.NoError(t, err)
			conns = append(conns, s)
		}
		time.Sleep(10 * time.Second)
		queued := 0
		for _, s := range conns {
			queued += s.Stats().ReadQueue + s.Stats().ReceiveQueue
		}
		require.LessOrEqual(t, queued, 1<<20)
		require.LessOrEqual(t, l.Stats().Memory, int64(1<<20))
		require.Greater(t, l.Stats().Memory, int64(1<<19))
		for i, s := range conns {
			go func() {
				for {
					if _, err := s.ReadMessage(context.Background(), nil); err != nil {
						return
					}
				}
			}()
			_ = i
		}
		for _, c := range dialed {
			require.NoError(t, c.Flush(t.Context()))
			require.NoError(t, c.Close())
		}
		time.Sleep(time.Minute)
		abort(conns...)
		require.Zero(t, l.Stats().Memory)
	})
}

func TestDialErrors(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := simnet.New(1)
		defer n.Close()
		c := simDial(t, n, "10.0.0.2:0", "10.0.0.1:7", nil)
		start := time.Now()
		require.ErrorIs(t, c.Flush(t.Context()), ErrHandshakeTimeout)
		require.Equal(t, 20*time.Second, time.Since(start))
		_, err := c.Write(nil)
		require.ErrorIs(t, err, ErrHandshakeTimeout)
		c.Close()

		x, y := simnet.Pair(1, simnet.Link{}, simnet.Link{})
		a, b := wrapped(x, &Config{Channels: 1}), wrapped(y, &Config{Channels: 2})
		defer abort(a, b)
		require.Error(t, a.Flush(t.Context()))
		require.Error(t, b.Flush(t.Context()))
		a.mu.Lock()
		b.mu.Lock()
		refused := a.out.Err() == ErrRefused || b.out.Err() == ErrRefused
		b.mu.Unlock()
		a.mu.Unlock()
		require.True(t, refused)
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	l, err := net.ListenPacket("udp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	_, err = new(Dialer).Dial(ctx, "udp", l.LocalAddr().String())
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

// Conns has the connections that Accept and Dial have returned, as long as they live.
func TestListenerConns(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := simnet.New(1)
		defer n.Close()
		l := simListener(t, n, "10.0.0.1:7", &ListenConfig{})
		defer l.Close()
		other := simListener(t, n, "10.0.0.9:7", &ListenConfig{})
		defer other.Close()
		a := simDial(t, n, "10.0.0.2:0", "10.0.0.1:7", nil)
		require.NoError(t, a.Flush(t.Context()))
		time.Sleep(time.Second)
		require.Empty(t, slices.Collect(l.Conns()), "nobody has accepted it")
		x, err := l.AcceptConn(t.Context())
		require.NoError(t, err)
		y, err := l.Dial(t.Context(), "10.0.0.9:7")
		require.NoError(t, err)
		require.ElementsMatch(t, []*Conn{x, y}, slices.Collect(l.Conns()))
		for range l.Conns() {
			break
		}
		require.NoError(t, a.Close())
		require.Equal(t, []*Conn{y}, slices.Collect(l.Conns()), "the other one has ended")
		require.NoError(t, l.Close())
		require.Equal(t, []*Conn{y}, slices.Collect(l.Conns()))
		abort(x, y)
		require.Empty(t, slices.Collect(l.Conns()))
	})
}
