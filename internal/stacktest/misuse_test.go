package stacktest

import (
	"context"
	"errors"
	"math"
	"net"
	"testing"
	"testing/synctest"
	"time"
	"volley"

	"github.com/stretchr/testify/require"

	"volley/internal/loopback"
)

// Arguments that are nil are an error of the call, and not a panic.
func TestNilArguments(t *testing.T) {
	var lc volley.ListenConfig
	var d volley.Dialer
	some := &net.UDPAddr{IP: loopback.Host().AsSlice(), Port: 9}
	var udp *net.UDPConn
	for name, call := range map[string]func() error{
		"ListenOn":             func() error { _, err := lc.ListenOn(nil); return err },
		"ListenOn, typed":      func() error { _, err := lc.ListenOn(udp); return err },
		"NewPacketConn":        func() error { _, err := volley.NewPacketConn(nil, nil); return err },
		"NewPacketConn, typed": func() error { _, err := volley.NewPacketConn(udp, nil); return err },
		"DialOn":               func() error { _, err := d.DialOn(context.Background(), nil, some); return err },
		"DialOn, typed":        func() error { _, err := d.DialOn(context.Background(), udp, some); return err },
		"NewListener":          func() error { _, err := volley.NewListener(nil, nil); return err },
		"NewListener, typed":   func() error { _, err := volley.NewListener((*volley.Listener)(nil), nil); return err },
		"NewConn":              func() error { _, err := volley.NewConn(nil, nil); return err },
		"NewConn, typed":       func() error { _, err := volley.NewConn(udp, nil); return err },
		"NewConn of a Conn":    func() error { _, err := volley.NewConn((*volley.Conn)(nil), nil); return err },
	} {
		err := call()
		_, ok := errors.AsType[*volley.ConfigError](err)
		require.True(t, ok, "%s: %v", name, err)
		require.Contains(t, err.Error(), "it is nil", name)
	}
}

// A stream is refused as a socket to listen on, and stays the caller's.
func TestListenOnStream(t *testing.T) {
	below := unixStream{pc: loopbackPacket(t)}
	var lc volley.ListenConfig
	_, err := lc.ListenOn(below)
	_, ok := errors.AsType[*volley.ConfigError](err)
	require.True(t, ok, "%v", err)
	require.NoError(t, below.pc.Close())
}

// A unixStream is a net.PacketConn with the address of a stream.
type unixStream struct {
	net.PacketConn
	pc net.PacketConn
}

func (unixStream) LocalAddr() net.Addr { return &net.UnixAddr{Name: "x", Net: "unix"} }

func loopbackPacket(t *testing.T) net.PacketConn {
	t.Helper()
	pc, err := net.ListenPacket("udp4", loopback.Addr())
	require.NoError(t, err)
	t.Cleanup(func() { pc.Close() })
	return pc
}

// From a socket of IPv4 an IPv6 address cannot be dialed, and the error comes at
// once.
func TestDialOfAnotherFamily(t *testing.T) {
	below := loopbackPacket(t)
	var d volley.Dialer
	_, err := d.DialOn(context.Background(), below, &net.UDPAddr{IP: net.IPv6loopback, Port: 9})
	ae, ok := errors.AsType[*net.AddrError](err)
	require.True(t, ok, "%v", err)
	require.Equal(t, net.AddrError{Err: "not an IPv4 address", Addr: "::1"}, *ae)
	c, err := d.DialOn(context.Background(), below, &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 9}) // the socket was the caller's
	require.NoError(t, err)
	require.NoError(t, c.Close())

	l, err := volley.Listen("udp4", loopback.Addr())
	require.NoError(t, err)
	defer l.Close()
	_, err = l.Dial(t.Context(), "[::1]:9")
	_, ok = errors.AsType[*net.AddrError](err)
	require.True(t, ok, "%v", err)
	require.Zero(t, l.Stats().Conns)
	c, err = l.Dial(t.Context(), "[::ffff:127.0.0.1]:9")
	require.NoError(t, err)
	require.NoError(t, c.Close())
}

// Options that would open thousands of sockets, or with which nothing could ever
// arrive, are errors.
func TestListenConfigBounds(t *testing.T) {
	for _, lc := range []volley.ListenConfig{
		{Sockets: 1025}, {Sockets: math.MaxInt},
		{MaxMemory: 1}, {MaxMemory: 16<<10 - 1},
		{MaxMemory: 64 << 10, Config: &volley.Config{FragmentAbove: 60_000, MaxMessageSize: 60_000}},
	} {
		_, err := lc.Listen(t.Context(), "udp4", loopback.Addr())
		_, ok := errors.AsType[*volley.ConfigError](err)
		require.True(t, ok, "%v", err)
		_, err = lc.ListenPacket(t.Context(), "udp4", loopback.Addr())
		_, ok = errors.AsType[*volley.ConfigError](err)
		require.True(t, ok, "%v", err)
	}
	for _, lc := range []volley.ListenConfig{
		{MaxMemory: 16 << 10}, {MaxMemory: -1}, {MaxMemory: 8 << 10, Config: &volley.Config{MaxMessageSize: 1000}}, {Sockets: -1},
	} {
		l, err := lc.Listen(t.Context(), "udp4", loopback.Addr())
		require.NoError(t, err)
		require.NoError(t, l.Close())
	}
}

// With the least MaxMemory messages of one datagram go both ways, whatever the
// windows.
func TestLeastMaxMemory(t *testing.T) {
	fixed := *volley.ReferenceConfig()
	fixed.KeepAlive = 0 // so that Accept returns
	small := fixed
	small.MaxMessageSize = 1000
	for _, test := range []struct {
		cfg  volley.Config
		size int
		max  int64
	}{
		{volley.Config{}, 1200, 16 << 10},
		{fixed, 1024, 21845},
		{volley.Config{MaxMessageSize: 1000}, 1000, 6826},
		{small, 1000, 12288},
		{volley.Config{MaxMessageSize: 60_000, FragmentAbove: 60_000}, 60_000, 92842},
	} {
		synctest.Test(t, func(t *testing.T) {
			lc := volley.ListenConfig{Config: &test.cfg, MaxMemory: test.max}
			_, l, dial := network(t, &lc)
			a := dial("10.0.0.2:1", &test.cfg)
			defer a.Close()
			b := accept(t, l)
			defer b.Close()
			for range 50 {
				for _, way := range [][2]*volley.Conn{{a, b}, {b, a}} {
					_, err := way[0].Write(make([]byte, test.size))
					require.NoError(t, err)
					way[1].SetReadDeadline(time.Now().Add(time.Minute))
					m, err := way[1].ReadMessage(context.Background(), nil)
					require.NoError(t, err)
					require.Len(t, m, test.size)
				}
			}
			require.Zero(t, b.Stats().MessagesRefused)
			lc.MaxMemory--
			_, err := lc.ListenOn(loopbackPacket(t))
			require.ErrorContains(t, err, "MaxMemory")
		})
	}
}
