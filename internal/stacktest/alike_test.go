package stacktest

import (
	"context"
	"io"
	"iter"
	"net"
	"os"
	"reflect"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"volley"
	"volley/netcode"
	"volley/netplay"
	"volley/porous"
	"volley/riptide"
	"volley/simnet"
)

// pairs are connected pairs of message connections of all packages.
func pairs(t *testing.T) map[string]func() (x, y net.Conn) {
	return map[string]func() (x, y net.Conn){
		"volley":  func() (x, y net.Conn) { return volley.Pipe(nil) },
		"netcode": func() (x, y net.Conn) { return netcode.Pipe(1, nil) },
		"porous":  func() (x, y net.Conn) { return porous.Pipe(nil) },
		"a channel of porous": func() (x, y net.Conn) {
			a, b := porous.Pipe(&porous.Config{Channels: 2})
			t.Cleanup(func() { a.Close(); b.Close() })
			return a.Channel(1), b.Channel(1)
		},
		"volley over netcode": func() (x, y net.Conn) {
			a, b := netcode.Pipe(1, nil)
			return newConn(a, nil), newConn(b, nil)
		},
		"volley over UDP": func() (x, y net.Conn) { return udpPair(t) },
		"volley over another net.Conn": func() (x, y net.Conn) {
			a, b := volley.Pipe(nil)
			return newConn(wrapper{a}, nil), newConn(wrapper{b}, nil)
		},
	}
}

// TestReadReturnsShortBuffer: on a message connection of any package, a Read with too
// short a buffer fills it, drops the rest, and returns io.ErrShortBuffer. The next Read
// returns the next message.
func TestReadReturnsShortBuffer(t *testing.T) {
	for name, open := range pairs(t) {
		t.Run(name, func(t *testing.T) {
			a, b := open()
			defer b.Close()
			defer a.Close()
			b.SetReadDeadline(time.Now().Add(30 * time.Second))
			for range 2 {
				_, err := a.Write([]byte("more than fits"))
				require.NoError(t, err)
				buf := make([]byte, 4)
				n, err := b.Read(buf)
				require.Equal(t, 4, n)
				require.Equal(t, "more", string(buf))
				require.ErrorIs(t, err, io.ErrShortBuffer)
				var oe *net.OpError
				require.ErrorAs(t, err, &oe)
				require.Equal(t, "read", oe.Op)
				require.Same(t, io.ErrShortBuffer, oe.Err)
				require.False(t, oe.Timeout())
			}
			_, err := a.Write([]byte("fits"))
			require.NoError(t, err)
			n, err := b.Read(make([]byte, 4))
			require.NoError(t, err)
			require.Equal(t, 4, n)
		})
	}
}

// A listenerOf is a Listener of a package with connections C.
type listenerOf[C net.Conn] interface {
	net.Listener
	AcceptConn(context.Context) (C, error)
	Conns() iter.Seq[C]
	Shutdown(context.Context) error
}

// TestListenersAlike: the Listeners of all packages have the same methods, also those
// over sessions, which lead from a connection to its session.
func TestListenersAlike(t *testing.T) {
	var _ listenerOf[*netcode.Conn] = (*netcode.Listener)(nil)
	t.Run("volley", func(t *testing.T) {
		testListenerOver(t, func(l net.Listener) (listenerOf[*volley.Conn], error) { return volley.NewListener(l, nil) },
			func(c net.Conn) (*volley.Conn, error) { return volley.NewConn(c, nil) })
	})
	t.Run("porous", func(t *testing.T) {
		testListenerOver(t, func(l net.Listener) (listenerOf[*porous.Conn], error) { return porous.NewListener(l, nil) },
			func(c net.Conn) (*porous.Conn, error) { return porous.NewConn(c, nil) })
	})
}

func testListenerOver[C interface {
	comparable
	net.Conn
	NetConn() net.Conn
}](t *testing.T, over func(net.Listener) (listenerOf[C], error), on func(net.Conn) (C, error)) {
	synctest.Test(t, func(t *testing.T) {
		s := newSessions(t, simnet.Link{Latency: 10 * time.Millisecond})
		defer s.net.Close()
		l, err := over(s.inner)
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = l.AcceptConn(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)

		var clients, servers []C
		for range 3 {
			c, err := on(s.dial(t))
			require.NoError(t, err)
			clients = append(clients, c)
			_, err = c.Write([]byte("hello"))
			require.NoError(t, err)
			server, err := l.AcceptConn(t.Context())
			require.NoError(t, err)
			servers = append(servers, server)
			require.Equal(t, uint64(len(servers)), server.NetConn().(*netcode.Conn).ClientID())
			n, err := server.Read(make([]byte, 10))
			require.NoError(t, err)
			require.Equal(t, 5, n)
		}
		require.ElementsMatch(t, servers, slices.Collect(l.Conns()))
		require.NoError(t, servers[1].Close())
		require.ElementsMatch(t, []C{servers[0], servers[2]}, slices.Collect(l.Conns()))
		require.NoError(t, clients[0].Close())
		synctest.Wait()
		time.Sleep(time.Second)
		require.Equal(t, []C{servers[2]}, slices.Collect(l.Conns()))

		require.NoError(t, l.Close())
		_, err = l.AcceptConn(t.Context())
		require.ErrorIs(t, err, net.ErrClosed)
		require.Equal(t, []C{servers[2]}, slices.Collect(l.Conns()))
		for _, c := range append(clients, servers...) {
			c.Close()
		}
		require.NoError(t, l.Shutdown(t.Context()))
	})
}

// TestExplanationsAlike: the Explanations of all packages have the same shape.
func TestExplanationsAlike(t *testing.T) {
	type explanation interface {
		OK() bool
		String() string
	}
	v, w := volley.Pipe(nil)
	p, q := porous.Pipe(nil)
	w.Close()
	v.Close()
	q.Abort()
	p.Abort()
	for _, e := range []explanation{v.Explain(), p.Explain()} {
		require.False(t, e.OK())
		findings := reflect.ValueOf(e).FieldByName("Findings")
		require.Equal(t, 1, findings.Len())
		f := findings.Index(0)
		require.Equal(t, "ended", f.FieldByName("Kind").Interface())
		require.Equal(t, f.FieldByName("Text").String(), e.String(), "without Advice")
		for field, typ := range map[string]any{"Count": uint64(0), "Value": int64(0), "Limit": int64(0), "Text": "", "Advice": ""} {
			require.Equal(t, reflect.TypeOf(typ), f.FieldByName(field).Type(), field)
		}
	}
}

// TestZeroIsNoValue: a fate, mode, reason or kind that nobody has set is none.
func TestZeroIsNoValue(t *testing.T) {
	for _, v := range []any{
		volley.Delivered, volley.Lost, porous.Delivered, porous.Lost,
		porous.Reliable, porous.Unreliable, porous.Passive,
		riptide.Reliable, riptide.Unreliable, riptide.Notify, riptide.NoAnswer, riptide.PoorConnection,
	} {
		require.NotZero(t, v, "%T", v)
	}
	a, b := volley.Pipe(nil)
	defer b.Close()
	defer a.Close()
	id, err := a.WriteMessage([]byte("first"))
	require.NoError(t, err)
	require.GreaterOrEqual(t, id, uint64(1<<16))
	p, q := porous.Pipe(nil)
	defer q.Abort()
	defer p.Abort()
	id, err = p.WriteMessage(t.Context(), []byte("first"), porous.Reliable)
	require.NoError(t, err)
	require.NotZero(t, id)
}

// TestClosedMeansThisSide: the silence, a restart and other ends of a peer do not match
// net.ErrClosed, which means that this side has closed.
func TestClosedMeansThisSide(t *testing.T) {
	for _, err := range []error{
		volley.ErrIdleTimeout, volley.ErrPeerRestarted, &volley.CloseError{}, &volley.RefusedError{},
		netcode.ErrIdleTimeout, netcode.ErrServerFull, netcode.ErrTokenExpired,
		porous.ErrIdleTimeout, porous.ErrHandshakeTimeout, porous.ErrRefused,
		netplay.ErrIdleTimeout, netplay.ErrKicked, netplay.ErrSlowReader,
		&riptide.DisconnectError{Reason: riptide.TimedOut}, &riptide.DisconnectError{Reason: riptide.ServerStopped},
	} {
		require.NotErrorIs(t, err, net.ErrClosed)
	}
}

// TestClosedAfterClose: after Close every call matches net.ErrClosed. After the peer has
// closed none does.
func TestClosedAfterClose(t *testing.T) {
	all := pairs(t)
	all["netplay"] = func() (x, y net.Conn) {
		client, server := net.Pipe()
		return netplayConn(t, client), netplayConn(t, server)
	}
	for name, open := range all {
		t.Run(name, func(t *testing.T) {
			a, b := open()
			defer b.Close()
			go io.Copy(io.Discard, b) // so that what is not acknowledged does not hold up Close
			require.NoError(t, a.Close())
			_, err := a.Read(make([]byte, 10))
			require.ErrorIs(t, err, net.ErrClosed)
			_, err = a.Write([]byte("late"))
			require.ErrorIs(t, err, net.ErrClosed)
			require.NotErrorIs(t, err, io.ErrClosedPipe)

			if name == "a channel of porous" {
				return // the peer is not told that it is closed
			}
			c, d := open()
			defer c.Close()
			require.NoError(t, d.Close())
			c.SetDeadline(time.Now().Add(30 * time.Second))
			_, err = c.Read(make([]byte, 10))
			require.Error(t, err)
			require.NotErrorIs(t, err, net.ErrClosed)
			require.NotErrorIs(t, err, os.ErrDeadlineExceeded)
			_, err = c.Write([]byte("late"))
			require.Error(t, err)
			require.NotErrorIs(t, err, net.ErrClosed)
		})
	}
}

// A netplayPeer is a connection of package netplay as a net.Conn: each Write is a message
// with no property, and Read takes one.
type netplayPeer struct{ *netplay.Conn }

type empty struct{}

func netplayConn(t *testing.T, nc net.Conn) net.Conn {
	reg := new(netplay.Registry)
	reg.MustAdd(1, empty{})
	c, err := netplay.NewConn(nc, reg, nil)
	require.NoError(t, err)
	return netplayPeer{c}
}

func (p netplayPeer) Read([]byte) (int, error) {
	_, err := p.ReadMessage(context.Background())
	return 0, err
}

func (p netplayPeer) Write(b []byte) (int, error) {
	return len(b), p.WriteMessage(context.Background(), &empty{})
}
