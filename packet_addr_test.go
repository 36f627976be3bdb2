package volley

import (
	"errors"
	"net"
	"testing"

	"github.com/stretchr/testify/require"
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
		_, err = d.DialPacket(below, addr)
		_, ok = errors.AsType[*net.AddrError](err)
		require.True(t, ok, "DialPacket to %v: %v", addr, err)
		require.NoError(t, below.Close(), "the socket is the caller's")
	}
	require.Zero(t, pc.Stats().Peers)
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
