package secure

import (
	"net"
	"net/netip"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"volley/internal/netnstest"
)

// A natTalk is a socket of the client, and one of the server.
type natTalk struct {
	t      *testing.T
	client net.Conn
	server *net.UDPConn
}

func newNatTalk(t *testing.T, n *testNAT) *natTalk {
	tk := &natTalk{t: t}
	var err error
	n.server.Run(func() { tk.server, err = net.ListenUDP("udp4", &net.UDPAddr{IP: net.ParseIP(natServer)}) })
	require.NoError(t, err)
	t.Cleanup(func() { tk.server.Close() })
	tk.dial()
	return tk
}

// dial gives the client a new socket.
func (tk *natTalk) dial() {
	tk.t.Helper()
	var err error
	tk.client, err = net.Dial("udp4", tk.server.LocalAddr().String())
	require.NoError(tk.t, err)
	tk.t.Cleanup(func() { tk.client.Close() })
}

// seen sends from the client, and returns the address that the server sees.
func (tk *natTalk) seen() netip.AddrPort {
	tk.t.Helper()
	_, err := tk.client.Write([]byte("hello"))
	require.NoError(tk.t, err)
	tk.server.SetReadDeadline(time.Now().Add(10 * time.Second))
	_, from, err := tk.server.ReadFromUDPAddrPort(make([]byte, 10))
	require.NoError(tk.t, err)
	return from
}

// answer sends to an address, and reports whether the client hears it.
func (tk *natTalk) answer(to netip.AddrPort, wait time.Duration) bool {
	tk.t.Helper()
	_, err := tk.server.WriteToUDPAddrPort([]byte("hello"), to)
	require.NoError(tk.t, err)
	tk.client.SetReadDeadline(time.Now().Add(wait))
	_, err = tk.client.Read(make([]byte, 10))
	return err == nil
}

const (
	soon  = 10 * time.Second
	never = 200 * time.Millisecond
)

// The server sees another port after the router has forgotten its mapping, and the old one is dead.
func TestNATRebind(t *testing.T) {
	if !netnstest.Inside(t, "ip", "nft", "conntrack") {
		return
	}
	n := newTestNAT(t)
	tk := newNatTalk(t, n)
	old := tk.seen()
	require.Equal(t, natPublicWifi, old.Addr().String())
	require.Equal(t, old, tk.seen())
	require.True(t, tk.answer(old, soon))
	for range 3 {
		n.rebind(t)
		require.False(t, tk.answer(old, never))
		new := tk.seen()
		require.NotEqual(t, old, new)
		require.Equal(t, old.Addr(), new.Addr())
		require.True(t, tk.answer(new, soon))
		require.False(t, tk.answer(old, never))
		old = new
	}
}

// A client whose interface is gone can't send from its socket, and a new one goes by the other.
func TestNATInterfaceDown(t *testing.T) {
	if !netnstest.Inside(t, "ip", "nft", "conntrack") {
		return
	}
	n := newTestNAT(t)
	tk := newNatTalk(t, n)
	unbound, err := net.ListenUDP("udp4", nil)
	require.NoError(t, err)
	defer unbound.Close()
	require.Equal(t, natPublicWifi, tk.seen().Addr().String())
	n.down(t, "wifi")
	_, err = tk.client.Write([]byte("x"))
	require.ErrorIs(t, err, syscall.ENETUNREACH)
	_, err = unbound.WriteTo([]byte("x"), tk.server.LocalAddr())
	require.NoError(t, err)
	_, from, err := tk.server.ReadFromUDPAddrPort(make([]byte, 10))
	require.NoError(t, err)
	require.Equal(t, natPublicMobile, from.Addr().String())
	tk.dial()
	public := tk.seen()
	require.Equal(t, natPublicMobile, public.Addr().String())
	require.True(t, tk.answer(public, soon))
	n.down(t, "mobile")
	_, err = unbound.WriteTo([]byte("x"), tk.server.LocalAddr())
	require.ErrorIs(t, err, syscall.ENETUNREACH)
	n.up(t, "wifi")
	tk.dial()
	require.Equal(t, natPublicWifi, tk.seen().Addr().String())
}

// A path that is cut is silent both ways, while another socket gets through.
func TestNATCut(t *testing.T) {
	if !netnstest.Inside(t, "ip", "nft", "conntrack") {
		return
	}
	n := newTestNAT(t)
	tk := newNatTalk(t, n)
	public := tk.seen()
	n.cut(t, tk.client.LocalAddr().(*net.UDPAddr).Port)
	_, err := tk.client.Write([]byte("lost"))
	require.NoError(t, err)
	require.False(t, tk.answer(public, never))
	old := tk.client
	tk.dial()
	other := tk.seen()
	require.NotEqual(t, public, other)
	require.True(t, tk.answer(other, soon))
	n.cut(t, 0)
	require.False(t, tk.answer(other, never))
	n.mend(t)
	tk.client = old
	require.Equal(t, public, tk.seen())
	require.True(t, tk.answer(public, soon))
}
