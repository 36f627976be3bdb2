package volley

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"volley/simnet"
)

// An address that no socket can have is told at once, and is not taken for
// another one by the low bits of its port.
func TestPacketAddressesThatAreNone(t *testing.T) {
	pc := listenPacket(t, &ListenConfig{})
	ip := net.IPv4(127, 0, 0, 1)
	for _, addr := range []net.Addr{
		&net.UDPAddr{IP: ip, Port: 70000}, &net.UDPAddr{IP: ip, Port: -1}, &net.UDPAddr{Port: 65536 + 9},
		&net.UDPAddr{IP: ip}, &net.UDPAddr{IP: net.IP{1, 2, 3}, Port: 7}, pipeAddr("a"),
	} {
		_, err := pc.WriteTo([]byte("x"), addr)
		_, ok := errors.AsType[*net.AddrError](err)
		require.True(t, ok, "WriteTo %v: %v", addr, err)

		below, err := net.ListenPacket("udp", "127.0.0.1:0")
		require.NoError(t, err)
		var d Dialer
		_, err = d.DialOn(context.Background(), below, addr)
		_, ok = errors.AsType[*net.AddrError](err)
		require.True(t, ok, "DialOn to %v: %v", addr, err)
		require.NoError(t, below.Close(), "the socket is the caller's")
	}
	require.Zero(t, pc.Stats().Peers)
}

// The same where addresses are not those of a socket of the system, and where there
// is no IP, which is this machine.
func TestPacketAddressesElsewhere(t *testing.T) {
	n := simnet.New(1)
	defer n.Close()
	below, err := n.Listen("10.0.0.1:7777")
	require.NoError(t, err)
	pc, err := NewPacketConn(onlyPacketConn{below}, nil)
	require.NoError(t, err)
	defer pc.Close()
	require.NotNil(t, pc.sock.Features().Addrs)
	for _, port := range []int{70000, -1, 0} {
		_, err = pc.WriteTo([]byte("x"), &net.UDPAddr{IP: net.IPv4(10, 0, 0, 2), Port: port})
		_, ok := errors.AsType[*net.AddrError](err)
		require.True(t, ok, "port %d: %v", port, err)
	}
	require.Zero(t, pc.Stats().Peers)
	require.Equal(t, "127.0.0.1:9", addrPortOf(pc.sock, &net.UDPAddr{Port: 9}).String())
}

// An onlyPacketConn hides what else a net.PacketConn can do.
type onlyPacketConn struct{ net.PacketConn }

// An address that a socket of IPv4 cannot reach makes no peer.
func TestPacketConnOfIPv4(t *testing.T) {
	var lc ListenConfig
	pc, err := lc.ListenPacket(t.Context(), "udp4", ":0")
	require.NoError(t, err)
	defer pc.Close()
	_, err = pc.WriteTo([]byte("x"), &net.UDPAddr{IP: net.IPv6loopback, Port: 9})
	_, ok := errors.AsType[*net.AddrError](err)
	require.True(t, ok, "%v", err)
	_, err = pc.WriteToUDPAddrPort([]byte("x"), netip.MustParseAddrPort("[::1]:9"))
	_, ok = errors.AsType[*net.AddrError](err)
	require.True(t, ok, "%v", err)
	require.Zero(t, pc.Stats().Peers)
	_, err = pc.WriteToUDPAddrPort([]byte("x"), netip.MustParseAddrPort("[::ffff:127.0.0.1]:9"))
	require.NoError(t, err)
	require.EqualValues(t, 1, pc.Stats().Peers)
}

// An uncomparableAddr cannot be compared by ==, which would panic.
type uncomparableAddr []byte

func (uncomparableAddr) Network() string  { return "bytes" }
func (a uncomparableAddr) String() string { return string(a) }

func TestSameAddrComparesWhateverThereIs(t *testing.T) {
	require.True(t, sameAddr(uncomparableAddr("a"), uncomparableAddr("a")))
	require.False(t, sameAddr(uncomparableAddr("a"), uncomparableAddr("b")))
	a := &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 7}
	require.True(t, sameAddr(a, a))
}
