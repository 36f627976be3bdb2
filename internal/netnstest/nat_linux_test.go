package netnstest

import (
	"net"
	"net/netip"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A talk is a socket of the client, and one of the server.
type talk struct {
	t      *testing.T
	client net.Conn
	server *net.UDPConn
}

func newTalk(t *testing.T, n *NAT) *talk {
	tk := &talk{t: t}
	var err error
	n.Server.Run(func() { tk.server, err = net.ListenUDP("udp4", &net.UDPAddr{IP: net.ParseIP(NATServer)}) })
	require.NoError(t, err)
	t.Cleanup(func() { tk.server.Close() })
	tk.dial()
	return tk
}

// dial gives the client a new socket.
func (tk *talk) dial() {
	tk.t.Helper()
	var err error
	tk.client, err = net.Dial("udp4", tk.server.LocalAddr().String())
	require.NoError(tk.t, err)
	tk.t.Cleanup(func() { tk.client.Close() })
}

// seen sends from the client, and returns the address that the server sees.
func (tk *talk) seen() netip.AddrPort {
	tk.t.Helper()
	_, err := tk.client.Write([]byte("hello"))
	require.NoError(tk.t, err)
	tk.server.SetReadDeadline(time.Now().Add(10 * time.Second))
	_, from, err := tk.server.ReadFromUDPAddrPort(make([]byte, 10))
	require.NoError(tk.t, err)
	return from
}

// answer sends to an address, and reports whether the client hears it.
func (tk *talk) answer(to netip.AddrPort, wait time.Duration) bool {
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
	if !Inside(t, "ip", "nft", "conntrack") {
		return
	}
	n := NewNAT(t)
	tk := newTalk(t, n)
	old := tk.seen()
	require.Equal(t, NATPublicWifi, old.Addr().String())
	require.Equal(t, old, tk.seen())
	require.True(t, tk.answer(old, soon))
	for range 3 {
		n.Rebind(t)
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
	if !Inside(t, "ip", "nft", "conntrack") {
		return
	}
	n := NewNAT(t)
	tk := newTalk(t, n)
	unbound, err := net.ListenUDP("udp4", nil)
	require.NoError(t, err)
	defer unbound.Close()
	require.Equal(t, NATPublicWifi, tk.seen().Addr().String())
	n.Down(t, "wifi")
	_, err = tk.client.Write([]byte("x"))
	require.ErrorIs(t, err, syscall.ENETUNREACH)
	_, err = unbound.WriteTo([]byte("x"), tk.server.LocalAddr())
	require.NoError(t, err)
	_, from, err := tk.server.ReadFromUDPAddrPort(make([]byte, 10))
	require.NoError(t, err)
	require.Equal(t, NATPublicMobile, from.Addr().String())
	tk.dial()
	public := tk.seen()
	require.Equal(t, NATPublicMobile, public.Addr().String())
	require.True(t, tk.answer(public, soon))
	n.Down(t, "mobile")
	_, err = unbound.WriteTo([]byte("x"), tk.server.LocalAddr())
	require.ErrorIs(t, err, syscall.ENETUNREACH)
	n.Up(t, "wifi")
	tk.dial()
	require.Equal(t, NATPublicWifi, tk.seen().Addr().String())
}

// A path that is cut is silent both ways, while another socket gets through.
func TestNATCut(t *testing.T) {
	if !Inside(t, "ip", "nft", "conntrack") {
		return
	}
	n := NewNAT(t)
	tk := newTalk(t, n)
	public := tk.seen()
	n.Cut(t, tk.client.LocalAddr().(*net.UDPAddr).Port)
	_, err := tk.client.Write([]byte("lost"))
	require.NoError(t, err)
	require.False(t, tk.answer(public, never))
	old := tk.client
	tk.dial()
	other := tk.seen()
	require.NotEqual(t, public, other)
	require.True(t, tk.answer(other, soon))
	n.Cut(t, 0)
	require.False(t, tk.answer(other, never))
	n.Mend(t)
	tk.client = old
	require.Equal(t, public, tk.seen())
	require.True(t, tk.answer(public, soon))
}
