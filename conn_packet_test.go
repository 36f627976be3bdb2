package volley

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"volley/internal/testenv"
	"volley/simnet"
)

// A Conn is a net.PacketConn of one peer: dialed, accepted and in memory.
func TestConnAsPacketConn(t *testing.T) {
	client, server := udpPair(t, nil)
	a, b := Pipe(nil)
	defer a.Close()
	defer b.Close()
	for name, pair := range map[string][2]net.PacketConn{"UDP": {client, server}, "Pipe": {a, b}} {
		t.Run(name, func(t *testing.T) {
			x, y := pair[0], pair[1]
			peer := x.(net.Conn).RemoteAddr()
			buf := make([]byte, 100)
			for _, to := range []net.Addr{nil, peer, (*net.UDPAddr)(nil), copyOf(peer)} {
				n, err := x.WriteTo([]byte("message"), to)
				require.NoError(t, err, "to %v", to)
				require.Equal(t, 7, n)
				y.SetReadDeadline(time.Now().Add(30 * time.Second))
				n, from, err := y.ReadFrom(buf)
				require.NoError(t, err)
				require.Equal(t, "message", string(buf[:n]))
				require.Equal(t, y.(net.Conn).RemoteAddr().String(), from.String())
			}
			for _, to := range []net.Addr{&net.UDPAddr{IP: net.IPv4(10, 0, 0, 9), Port: 5}, &net.TCPAddr{Port: 7}} {
				n, err := x.WriteTo([]byte("message"), to)
				require.Zero(t, n)
				require.ErrorIs(t, err, net.ErrWriteToConnected)
				addrErr, ok := errors.AsType[*net.AddrError](err)
				require.True(t, ok)
				require.Equal(t, to.String(), addrErr.Addr)
				require.Contains(t, err.Error(), peer.String())
				_, ok = err.(*net.OpError)
				require.True(t, ok)
			}
			y.SetReadDeadline(time.Now())
			_, _, err := y.ReadFrom(buf)
			wantTimeout(t, "ReadFrom", err)
		})
	}
}

// copyOf returns an address equal to a, of another value and, for IPv4, in the
// other form.
func copyOf(a net.Addr) net.Addr {
	udp, ok := a.(*net.UDPAddr)
	if !ok {
		return a
	}
	return &net.UDPAddr{IP: append(net.IP(nil), udp.IP.To16()...), Port: udp.Port}
}

func TestConnPacketAllocations(t *testing.T) {
	if testenv.Race {
		t.Skip("the race detector allocates")
	}
	client, server := udpPair(t, nil)
	msg, buf := make([]byte, 200), make([]byte, 300)
	to := client.RemoteAddr()
	each := func() {
		client.WriteTo(msg, to)
		_, from, err := server.ReadFrom(buf)
		if err != nil || from == nil {
			t.Fatal(from, err)
		}
	}
	for range 100 {
		each()
	}
	require.LessOrEqual(t, testing.AllocsPerRun(500, each), 0.1)
}

// Two Listeners that dial each other, at once or one after the other, meet in
// one connection; so do they where each one's firewall lets in answers only.
func TestListenersDialEachOther(t *testing.T) {
	for _, delay := range []time.Duration{0, time.Millisecond, 9 * time.Millisecond, 11 * time.Millisecond, 30 * time.Millisecond} {
		for _, firewalls := range []bool{false, true} {
			t.Run(fmt.Sprint(delay, firewalls), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					n := simnet.New(1)
					defer n.Close()
					n.SetDefault(simnet.Link{Latency: 10 * time.Millisecond})
					a, b := listenAt(t, n, "10.0.0.1:7"), listenAt(t, n, "10.0.0.2:7")
					defer a.Close()
					defer b.Close()
					if firewalls { // the first greeting finds the other side shut
						n.SetLink(netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2"), simnet.Link{Loss: 1})
					}
					x, err := a.Dial(t.Context(), "10.0.0.2:7")
					require.NoError(t, err)
					defer x.Close()
					time.Sleep(delay)
					n.SetLink(netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2"), simnet.Link{Latency: 10 * time.Millisecond})
					y, err := b.Dial(t.Context(), "10.0.0.1:7")
					require.NoError(t, err)
					defer y.Close()
					time.Sleep(50 * time.Millisecond)
					x.Write([]byte("from a"))
					y.Write([]byte("from b"))
					wantMessage(t, x, "from b")
					wantMessage(t, y, "from a")
					require.Equal(t, 1, a.Stats().Conns)
					require.Equal(t, 1, b.Stats().Conns)
					_, err = a.Dial(t.Context(), "10.0.0.2:7")
					require.ErrorIs(t, err, ErrConnExists)
				})
			})
		}
	}
}

func listenAt(t *testing.T, n *simnet.Network, addr string) *Listener {
	t.Helper()
	pc, err := n.Listen(addr)
	require.NoError(t, err)
	l, err := new(ListenConfig).ListenOn(pc)
	require.NoError(t, err)
	return l
}

// The other side of Listener.Dial learns of it by the greeting, and a connection
// that was dialed outlives the Listener as an accepted one does.
func TestListenerDialOverUDP(t *testing.T) {
	a, err := Listen("udp", "127.0.0.1:0")
	require.NoError(t, err)
	b, err := Listen("udp", "127.0.0.1:0")
	require.NoError(t, err)
	defer b.Close()
	c, err := a.Dial(t.Context(), b.Addr().String())
	require.NoError(t, err)
	defer c.Close()
	s, err := b.AcceptConn(context.Background())
	require.NoError(t, err)
	defer s.Close()
	require.Equal(t, a.Addr().String(), s.RemoteAddr().String())
	require.NoError(t, a.Close())
	s.Write([]byte("hello"))
	c.SetReadDeadline(time.Now().Add(30 * time.Second))
	m, err := c.ReadMessage(context.Background(), nil)
	require.NoError(t, err)
	require.Equal(t, "hello", string(m))

	_, err = a.Dial(t.Context(), b.Addr().String())
	require.ErrorIs(t, err, net.ErrClosed)
	_, err = b.Dial(t.Context(), "no port")
	_, ok := errors.AsType[*net.AddrError](err)
	require.True(t, ok, "%v", err)
}

func TestListenerDialSeveralSockets(t *testing.T) {
	lc := ListenConfig{Sockets: 2}
	l, err := lc.Listen(t.Context(), "udp", "127.0.0.1:0")
	if errors.Is(err, errors.ErrUnsupported) {
		t.Skip(err)
	}
	require.NoError(t, err)
	defer l.Close()
	_, err = l.Dial(t.Context(), "127.0.0.1:9")
	ce, ok := errors.AsType[*ConfigError](err)
	require.True(t, ok, "%v", err)
	require.Equal(t, "ListenConfig.Sockets", ce.Field)
}

// DialOn has the fast path on a socket of the system, whether that has a peer or
// not: one system call sends many datagrams, and receives many.
func TestDialOnIsFast(t *testing.T) {
	l, err := Listen("udp4", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	raddr := l.Addr().(*net.UDPAddr)
	if s := l.Stats().Transport; !s.SegmentedSend || !s.SegmentedReceive {
		t.Skip("NOT RUN: the platform has no segmentation offload")
	}
	bound, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	require.NoError(t, err)
	connected, err := net.DialUDP("udp4", nil, raddr)
	require.NoError(t, err)
	for name, pc := range map[string]*net.UDPConn{"bound": bound, "connected": connected} {
		t.Run(name, func(t *testing.T) {
			var d Dialer
			c, err := d.DialOn(context.Background(), pc, raddr)
			require.NoError(t, err)
			defer c.Close()
			s, err := l.AcceptConn(context.Background())
			require.NoError(t, err)
			defer s.Close()
			require.True(t, c.Stats().Transport.SegmentedSend)
			require.True(t, c.Stats().Transport.SegmentedReceive)
			require.NotZero(t, c.Stats().Transport.ReadBuffer)
			require.NotNil(t, c.out.Below.Features().System)
			const count = 50
			long := make([]byte, 10*1024) // ten fragments
			for _, way := range [][2]*Conn{{c, s}, {s, c}} {
				way[1].SetReadDeadline(time.Now().Add(30 * time.Second))
				for range count {
					_, err := way[0].Write(long)
					require.NoError(t, err)
					m, err := way[1].ReadMessage(context.Background(), nil)
					require.NoError(t, err)
					require.Len(t, m, len(long))
				}
			}
			stats := c.Stats()
			require.GreaterOrEqual(t, stats.FragmentsSent, uint64(count*10))
			require.Less(t, stats.Transport.SendCalls, uint64(count*5), "most runs take one call")
			require.Less(t, stats.Transport.ReadCalls, uint64(count*5))
		})
	}
}

// DialOn greets, takes what its peer sends and nothing from others, and
// closes the socket: over UDP, connected UDP, and addresses of another kind.
func TestDialOn(t *testing.T) {
	l, err := Listen("udp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	raddr := l.Addr().(*net.UDPAddr)
	bound, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	require.NoError(t, err)
	connected, err := net.DialUDP("udp", nil, raddr)
	require.NoError(t, err)
	for name, pc := range map[string]net.PacketConn{"UDP": bound, "connected": connected} {
		t.Run(name, func(t *testing.T) {
			var d Dialer
			c, err := d.DialOn(context.Background(), pc, raddr)
			require.NoError(t, err)
			defer c.Close()
			s, err := l.AcceptConn(context.Background()) // by the greeting
			require.NoError(t, err)
			defer s.Close()
			other, err := net.DialUDP("udp", nil, pc.LocalAddr().(*net.UDPAddr))
			require.NoError(t, err)
			defer other.Close()
			other.Write([]byte{0, 0, 0, 0xff, 0xff, 'x'})
			s.Write([]byte("first"))
			c.SetReadDeadline(time.Now().Add(30 * time.Second))
			m, err := c.ReadMessage(context.Background(), nil)
			require.NoError(t, err)
			require.Equal(t, "first", string(m))
			require.Equal(t, raddr.String(), c.RemoteAddr().String())
			require.NoError(t, c.Close())
			for end := time.Now().Add(30 * time.Second); err == nil && time.Now().Before(end); time.Sleep(time.Millisecond) {
				err = pc.SetDeadline(time.Time{}) // Close does not wait for who handles packets
			}
			require.ErrorIs(t, err, net.ErrClosed)
		})
	}
}

func TestDialOnOtherAddresses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, l, _ := network(t, &ListenConfig{})
		pc, err := n.Listen("10.0.0.2:5000")
		require.NoError(t, err)
		d := Dialer{Quiet: true}
		named := namedConn{pc}
		c, err := d.DialOn(context.Background(), named, name("10.0.0.1:7777"))
		require.NoError(t, err)
		defer c.Close()
		wantNoConn(t, l)
		c.Write([]byte("hello"))
		s := accept(t, l)
		defer s.Close()
		wantMessage(t, s, "hello")
		s.Write([]byte("answer"))
		wantMessage(t, c, "answer")
		require.Equal(t, net.Addr(name("10.0.0.1:7777")), c.RemoteAddr())
	})
}

// A namedConn is a net.PacketConn whose addresses are not those of UDP.
type namedConn struct{ net.PacketConn }

type name string

func (name) Network() string  { return "named" }
func (n name) String() string { return string(n) }

func (c namedConn) ReadFrom(b []byte) (int, net.Addr, error) {
	n, from, err := c.PacketConn.ReadFrom(b)
	if from != nil {
		from = name(from.String())
	}
	return n, from, err
}

func (c namedConn) WriteTo(b []byte, to net.Addr) (int, error) {
	addr, err := net.ResolveUDPAddr("udp", to.String())
	if err != nil {
		return 0, err
	}
	return c.PacketConn.WriteTo(b, addr)
}

func TestDialOnErrors(t *testing.T) {
	var d Dialer
	_, err := d.DialOn(context.Background(), nil, &net.UDPAddr{Port: 1})
	_, ok := errors.AsType[*ConfigError](err)
	require.True(t, ok, "%v", err)

	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	require.NoError(t, err)
	defer pc.Close()
	for _, addr := range []net.Addr{nil, (*net.UDPAddr)(nil)} {
		_, err = d.DialOn(context.Background(), pc, addr)
		_, ok = errors.AsType[*net.AddrError](err)
		require.True(t, ok, "%v", err)
	}
	bad := Dialer{Config: &Config{MaxMessageSize: -1}}
	_, err = bad.DialOn(context.Background(), pc, &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 9})
	_, ok = errors.AsType[*ConfigError](err)
	require.True(t, ok, "%v", err)
	require.NoError(t, pc.Close()) // it was still ours

	udp, err := net.DialUDP("udp", nil, &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 9})
	require.NoError(t, err)
	defer udp.Close()
	_, err = d.DialOn(context.Background(), udp, &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 10})
	require.ErrorIs(t, err, net.ErrWriteToConnected)
}
