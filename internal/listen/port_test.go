package listen

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"volley/internal/datagram"
	"volley/internal/loopback"
	"volley/internal/socket"
	"volley/simnet"
)

// TestOpenSockets: a port has as many sockets as are asked for, at least one, all on
// the address that the first one was given, and Control sees each.
func TestOpenSockets(t *testing.T) {
	for asked, want := range map[int]int{-1: 1, 0: 1, 1: 1, 3: 3} {
		seen := 0
		p, err := Open(t.Context(), "udp4", loopback.Addr(), Options{Sockets: asked, Control: func(network, _ string, _ syscall.RawConn) error {
			require.Equal(t, "udp4", network)
			seen++
			return nil
		}})
		if errors.Is(err, errors.ErrUnsupported) {
			continue
		}
		require.NoError(t, err)
		require.Equal(t, want, seen)
		require.Len(t, p.socks, want)
		for _, s := range p.socks {
			require.Equal(t, p.Addr().String(), s.LocalAddr().String())
		}
		p.Close()
		for _, s := range p.socks {
			_, err := s.ReadBatch(make([]socket.Packet, 1))
			require.ErrorIs(t, err, net.ErrClosed)
		}

		p, err = Open(t.Context(), "udp4", loopback.Addr(), Options{Sockets: asked})
		require.NoError(t, err, "without Control")
		require.Len(t, p.socks, want)
		p.Close()
	}
}

// TestOpenConfig: the options of UDP sockets are those of all of them.
func TestOpenConfig(t *testing.T) {
	pc, err := net.ListenPacket("udp4", loopback.Addr())
	require.NoError(t, err)
	p, err := OpenPacket(pc, Options{Socket: socket.Config{DisableOffload: true}})
	require.NoError(t, err)
	defer p.Close()
	require.Len(t, p.socks, 1)
	require.False(t, p.socks[0].Stats().GSO)
	require.Equal(t, pc.LocalAddr(), p.Addr())
}

// TestOpenNothing: a UDP socket that is closed makes no Port.
func TestOpenNothing(t *testing.T) {
	pc, err := net.ListenPacket("udp4", loopback.Addr())
	require.NoError(t, err)
	require.NoError(t, pc.Close())
	p, err := OpenPacket(pc, Options{})
	require.Error(t, err)
	require.Nil(t, p)
	p, err = new(Options).open([]net.PacketConn{pc, pc})
	require.Error(t, err, "what is in it cannot be discarded")
	require.Nil(t, p)
	p, err = Open(t.Context(), "udp4", "nowhere", Options{})
	require.Error(t, err)
	require.Nil(t, p)
}

// TestOpenFailsLate: whichever socket cannot be made, all of the port are closed.
func TestOpenFailsLate(t *testing.T) {
	no := errors.New("no")
	for last := 2; last <= 3; last++ {
		var bound int
		var address string
		_, err := Open(t.Context(), "udp4", loopback.Addr(), Options{Sockets: 3, Control: func(_, a string, _ syscall.RawConn) error {
			if address = a; bound == last-1 {
				return no
			}
			bound++
			return nil
		}})
		if errors.Is(err, errors.ErrUnsupported) {
			t.Skip(err)
		}
		require.ErrorIs(t, err, no)
		p, err := Open(t.Context(), "udp4", address, Options{}) // which shares with nobody
		require.NoError(t, err, "after socket %d", last)
		p.Close()
	}
}

// TestOpenPacketOfAnyKind: a socket that exists may be of any kind, and what is in it
// is not discarded.
func TestOpenPacketOfAnyKind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := simnet.New(1)
		defer n.Close()
		pc, err := n.Listen(serverAddr(0).String())
		require.NoError(t, err)
		send(t, n, 1, 0, "early")
		p, err := OpenPacket(pc, Options{})
		require.NoError(t, err)
		defer p.Close()
		require.Zero(t, p.early)
		ps := make([]socket.Packet, 1)
		_, err = p.socks[0].ReadBatch(ps)
		require.NoError(t, err)
		require.Equal(t, "early", string(ps[0].Buf))
	})
}

// A badConn is a socket that cannot be prepared.
type badConn struct{ syscall.RawConn }

func (badConn) Control(func(uintptr)) error { return net.ErrClosed }

// TestControlFails: a socket that cannot share its port is not made, and Control does
// not see it.
func TestControlFails(t *testing.T) {
	seen := 0
	o := Options{Control: func(string, string, syscall.RawConn) error { seen++; return nil }}
	require.Error(t, o.control(2)("udp4", "127.0.0.1:1", badConn{}))
	require.Zero(t, seen)
	require.NoError(t, o.control(1)("udp4", "127.0.0.1:1", badConn{}))
	require.Equal(t, 1, seen)
}

func TestCheckNetwork(t *testing.T) {
	err := CheckNetwork("listen", "tcp")
	require.EqualError(t, err, "listen tcp: unknown network tcp")
	require.ErrorAs(t, err, new(*net.OpError))
}

// TestGroup: the sockets of a port close together; one that stands alone closes with
// its own last connection.
func TestGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for sockets := 1; sockets <= 2; sockets++ {
			n := simnet.New(1)
			l := listenToy(t, n, sockets, 9)
			send(t, n, 1, sockets-1, "hello")
			c, err := l.side.AcceptConn(context.Background())
			require.NoError(t, err)
			synctest.Wait() // the socket's reader may not have done with what it let in
			require.NoError(t, l.side.Close())
			for _, s := range l.socks {
				require.Zero(t, s.closed.Load(), "a socket has closed while the other one has a connection")
			}
			c.Close()
			for _, s := range l.socks {
				require.EqualValues(t, 1, s.closed.Load())
			}
			n.Close()
		}
		n := simnet.New(1)
		defer n.Close()
		pc, err := n.Listen(serverAddr(0).String())
		require.NoError(t, err)
		alone := &closeCounter{Socket: socket.NewPacket(pc), broken: make(chan struct{})}
		p := PortOf(alone)
		require.Equal(t, serverAddr(0).String(), p.Addr().String())
		muxes := p.Muxes(datagram.MuxConfig{})
		require.Len(t, muxes, 1)
		require.NoError(t, muxes[0].Close())
		require.EqualValues(t, 1, alone.closed.Load())
	})
}

// TestResolve: a name is looked up in the family of the socket, and an address
// without a host is this machine's. No name in it needs a server of names.
func TestResolve(t *testing.T) {
	v4, v6 := &net.UDPAddr{IP: net.IPv4(10, 0, 0, 1)}, &net.UDPAddr{IP: net.ParseIP("2001:db8::1")}
	any6, any4 := &net.UDPAddr{IP: net.IPv6unspecified}, &net.UDPAddr{IP: net.IPv4zero}
	for _, test := range []struct {
		local   net.Addr
		address string
		want    string // "": an error
	}{
		{v4, "192.0.2.1:7", "192.0.2.1:7"},
		{v4, "[::ffff:192.0.2.1]:7", "192.0.2.1:7"},
		{v6, "[2001:db8::2]:7", "[2001:db8::2]:7"},
		{v4, "192.0.2.1:domain", "192.0.2.1:53"},
		{v6, "[2001:db8::2]:domain", "[2001:db8::2]:53"},
		{any6, "[2001:db8::2]:domain", "[2001:db8::2]:53"},
		{any6, "192.0.2.1:domain", "192.0.2.1:53"},
		{v6, "[::ffff:192.0.2.1]:domain", "192.0.2.1:53"},
		{v4, "[2001:db8::2]:domain", ""},
		{any4, "[2001:db8::2]:domain", ""},
		{v4, "[2001:db8::2]:7", ""},
		{any4, "[2001:db8::2]:7", ""},
		{v4, ":7", "127.0.0.1:7"},
		{any4, ":domain", "127.0.0.1:53"},
		{any6, ":7", "127.0.0.1:7"},
		{v6, ":7", "[::1]:7"},
		{&net.IPAddr{IP: net.ParseIP("2001:db8::1")}, ":7", "127.0.0.1:7"},
		{nil, ":7", "127.0.0.1:7"},
		{v4, "192.0.2.1", ""},
		{v4, "192.0.2.1:no such service", ""},
		{v4, "192.0.2.1:65536", ""},
		{v4, "", ""},
	} {
		got, err := Resolve(t.Context(), test.local, test.address)
		if test.want == "" {
			require.Error(t, err, "%v %s", test.local, test.address)
			require.Equal(t, netip.AddrPort{}, got)
			continue
		}
		require.NoError(t, err, "%v %s", test.local, test.address)
		require.Equal(t, test.want, got.String(), "%v %s", test.local, test.address)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := Resolve(ctx, v4, "name.invalid:7")
	require.ErrorAs(t, err, new(*net.DNSError), "the resolver's")
}
