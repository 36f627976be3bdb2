package porous_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"volley/netcode"
	"volley/porous"
	"volley/simnet"
)

func init() {
	porous.Sessions = sessions
	porous.SealedPipe = func() (x, y net.Conn) { return netcode.Pipe(1, nil) }
}

// sessions returns the two ends of a session of netcode over a simulated link,
// which is made while that is perfect. The session outlives any silence that the
// connection above survives.
func sessions(tb testing.TB, seed uint64, link simnet.Link) (client, server net.Conn, change func(simnet.Link)) {
	const addr = "10.0.0.1:7777"
	n := simnet.New(seed)
	issuer := netcode.Issuer{
		PrivateKey: netcode.GenerateKey(),
		Servers:    []netip.AddrPort{netip.MustParseAddrPort(addr)},
		Timeout:    time.Hour,
	}
	pc, err := n.Listen(addr)
	require.NoError(tb, err)
	lc := netcode.ListenConfig{PrivateKey: issuer.PrivateKey}
	l, err := lc.ListenOn(pc)
	require.NoError(tb, err)
	tb.Cleanup(func() { l.Close(); n.Close() })
	token, err := issuer.Issue(1, nil)
	require.NoError(tb, err)
	x, err := n.Listen("10.0.0.2:0")
	require.NoError(tb, err)
	client, err = (&netcode.Dialer{}).DialOn(context.Background(), x, token)
	require.NoError(tb, err)
	server, err = l.Accept()
	require.NoError(tb, err)
	n.SetDefault(link)
	return client, server, n.SetDefault
}

// The end of the session below is the connection's.
func TestSessionEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, y, _ := sessions(t, 1, simnet.Link{Latency: 10 * time.Millisecond})
		a, b := porous.Wrapped(x, nil), porous.Wrapped(y, nil)
		defer b.Abort()
		fmt.Fprint(a, "read me first")
		require.NoError(t, a.Flush(t.Context()))
		x.Close()
		buf := make([]byte, 100)
		n, err := b.Read(buf)
		require.NoError(t, err)
		require.Equal(t, "read me first", string(buf[:n]))
		_, err = b.Read(buf)
		require.Equal(t, io.EOF, err)
		_, err = b.Write(buf)
		require.ErrorIs(t, err, io.ErrClosedPipe)
		a.Abort()

		// What it has under way is lost, and Close says so.
		x, y, _ = sessions(t, 1, simnet.Link{Latency: 10 * time.Millisecond})
		a, b = porous.Wrapped(x, nil), porous.Wrapped(y, nil)
		require.NoError(t, a.Flush(t.Context()))
		id, err := a.WriteMessage(t.Context(), []byte("lost"), porous.Reliable)
		require.NoError(t, err)
		y.Close()
		_, err = a.Read(buf)
		require.Equal(t, io.EOF, err)
		var lost *porous.UndeliveredError
		require.ErrorAs(t, a.Close(), &lost)
		require.Equal(t, 1, lost.Messages)
		require.ErrorIs(t, lost, io.ErrClosedPipe)
		require.Equal(t, []porous.Receipt{{ID: id, Fate: porous.Lost}}, a.AppendReceipts(nil))
		b.Abort()
	})
}

// R14: who forges the peer's address ends a plain connection by one byte, unless
// that is verified, and does nothing to one over a session of netcode.
func TestR14ForgedDatagrams(t *testing.T) {
	const server, client = "10.0.0.1:7777", "10.0.0.2:9"
	forgeries := [][]byte{{2}, {1, 0, 0, 0, 1}, {3}, {7, 0, 1, 0, 0, 0, 1}}
	synctest.Test(t, func(t *testing.T) {
		for _, kind := range []string{"plain", "verified", "sealed"} {
			sealed := kind == "sealed"
			n := simnet.New(1)
			n.SetDefault(simnet.Link{Latency: 10 * time.Millisecond})
			pc, err := n.Listen(server)
			require.NoError(t, err)
			raw, err := n.Listen(client)
			require.NoError(t, err)
			x := &forger{PacketConn: raw, from: net.UDPAddrFromAddrPort(netip.MustParseAddrPort(server))}
			var inner net.Conn
			var l net.Listener
			if sealed {
				issuer := netcode.Issuer{PrivateKey: netcode.GenerateKey(), Servers: []netip.AddrPort{netip.MustParseAddrPort(server)}}
				nl, err := (&netcode.ListenConfig{PrivateKey: issuer.PrivateKey}).ListenOn(pc)
				require.NoError(t, err)
				l, err = porous.NewListener(nl, nil)
				require.NoError(t, err)
				token, err := issuer.Issue(1, nil)
				require.NoError(t, err)
				inner, err = (&netcode.Dialer{}).DialOn(t.Context(), x, token)
				require.NoError(t, err)
			} else {
				l, err = (&porous.ListenConfig{}).ListenOn(pc)
				require.NoError(t, err)
				inner = packetPeer{x, x.from}
			}
			c := porous.Wrapped(inner, &porous.Config{VerifyDisconnect: kind == "verified"})
			s, err := l.Accept()
			require.NoError(t, err)
			require.NoError(t, c.Flush(t.Context()))
			list := forgeries
			x.forge.Store(&list)
			fmt.Fprint(s, "first")
			fmt.Fprint(s, "second")
			buf := make([]byte, 100)
			m, err := c.Read(buf)
			if kind == "plain" {
				require.Equal(t, io.EOF, err)
			} else {
				require.NoError(t, err)
				require.Equal(t, "first", string(buf[:m]))
				m, err = c.Read(buf)
				require.NoError(t, err)
				require.Equal(t, "second", string(buf[:m]))
			}
			c.Abort()
			s.(*porous.Conn).Abort()
			l.Close()
			n.Close()
		}
	})
}

// A forger gives forged datagrams before the next one that has arrived.
type forger struct {
	net.PacketConn
	from    net.Addr
	forge   atomic.Pointer[[][]byte]
	waiting []byte
}

func (f *forger) ReadFrom(b []byte) (int, net.Addr, error) {
	if f.waiting != nil {
		if list := f.forge.Load(); list != nil && len(*list) > 0 {
			rest := (*list)[1:]
			f.forge.Store(&rest)
			return copy(b, (*list)[0]), f.from, nil
		}
		n := copy(b, f.waiting)
		f.waiting = nil
		return n, f.from, nil
	}
	n, from, err := f.PacketConn.ReadFrom(b)
	if list := f.forge.Load(); err == nil && list != nil && len(*list) > 0 {
		f.waiting = append([]byte(nil), b[:n]...)
		return f.ReadFrom(b)
	}
	return n, from, err
}

// A packetPeer is a net.Conn with one peer of a PacketConn.
type packetPeer struct {
	net.PacketConn
	peer net.Addr
}

func (c packetPeer) Read(b []byte) (int, error) {
	n, _, err := c.ReadFrom(b)
	return n, err
}
func (c packetPeer) Write(b []byte) (int, error) { return c.WriteTo(b, c.peer) }
func (c packetPeer) RemoteAddr() net.Addr        { return c.peer }

func TestNewListener(t *testing.T) {
	const addr = "10.0.0.1:7777"
	synctest.Test(t, func(t *testing.T) {
		n := simnet.New(1)
		defer n.Close()
		n.SetDefault(simnet.Link{Latency: 10 * time.Millisecond, Loss: 0.1})
		issuer := netcode.Issuer{PrivateKey: netcode.GenerateKey(), Servers: []netip.AddrPort{netip.MustParseAddrPort(addr)}}
		pc, err := n.Listen(addr)
		require.NoError(t, err)
		inner, err := (&netcode.ListenConfig{PrivateKey: issuer.PrivateKey}).ListenOn(pc)
		require.NoError(t, err)
		l, err := porous.NewListener(inner, &porous.Config{Channels: 2})
		require.NoError(t, err)
		defer l.Close()
		token, err := issuer.Issue(1, nil)
		require.NoError(t, err)
		x, err := n.Listen("10.0.0.2:0")
		require.NoError(t, err)
		session, err := (&netcode.Dialer{}).DialOn(t.Context(), x, token)
		require.NoError(t, err)
		c := porous.Wrapped(session, &porous.Config{Channels: 2})
		fmt.Fprint(c.Channel(1), "sealed")
		s, err := l.AcceptConn(t.Context())
		require.NoError(t, err)
		buf := make([]byte, 100)
		m, err := s.Channel(1).Read(buf)
		require.NoError(t, err)
		require.Equal(t, "sealed", string(buf[:m]))
		require.Equal(t, []*porous.Conn{s}, slices.Collect(l.Conns()))
		require.Equal(t, porous.ListenerStats{Conns: 1, Accepted: 1}, l.Stats())
		require.NoError(t, c.Close())
		require.NoError(t, s.Close())
		require.Empty(t, slices.Collect(l.Conns()))
		_, err = l.Dial(t.Context(), "10.0.0.2:1")
		require.ErrorIs(t, err, errors.ErrUnsupported)

		large := porous.Config{MaxMessageSize: 1400 << 16, SendBuffer: 1 << 30, ReceiveBuffer: 1 << 30} // for frames of 1472 bytes
		bad, err := porous.NewListener(pipeListener{}, &large)
		require.NoError(t, err)
		_, err = bad.Accept()
		require.ErrorAs(t, err, new(*porous.ConfigError))
	})
}

// A pipeListener accepts pipes of which nobody has the other end.
type pipeListener struct{ net.Listener }

func (pipeListener) Addr() net.Addr { return &net.UDPAddr{} }

func (pipeListener) Accept() (net.Conn, error) {
	x, _ := netcode.Pipe(1, nil)
	return x, nil
}
