package volleydebug_test

import (
	"context"
	"io"
	"net"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"volley"
	"volley/netcode"
	"volley/porous"
	"volley/riptide"
	"volley/simnet"
	. "volley/volleydebug"
)

// group returns the totals of connections without a listener.
func group(protocol, role string) Totals {
	for _, g := range Snapshot().Ended {
		if g.Protocol == protocol && g.Role == role {
			return g.Totals
		}
	}
	return Totals{}
}

// until waits for something that another goroutine does.
func until(t *testing.T, done func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !done(); runtime.Gosched() {
		require.True(t, time.Now().Before(end), "it does not happen")
	}
}

// What the connections of a listener have counted is still known after their end,
// with what came last, and so for those that were dialed.
func TestEndedVolley(t *testing.T) {
	l := listen(t)
	dialed := group("volley", "dialed")
	for i := range 3 {
		a, b := pair(t, l)
		exchange(t, a, b)
		_, err := b.Write([]byte("last"))
		require.NoError(t, err)
		require.NoError(t, b.Close())
		require.NoError(t, a.Close())
		e := listener(t, l.Addr()).Ended
		require.EqualValues(t, i+1, e.Conns)
		require.EqualValues(t, 2*(i+1), e.MessagesSent)
		require.EqualValues(t, i+1, e.MessagesReceived)
		require.NotZero(t, e.PacketsReceived)
		g := group("volley", "dialed")
		require.EqualValues(t, i+1, g.Conns-dialed.Conns)
		require.EqualValues(t, i+1, g.MessagesSent-dialed.MessagesSent)
	}
}

func TestEndedPacketConn(t *testing.T) {
	lc := volley.ListenConfig{Config: &volley.Config{IdleTimeout: 50 * time.Millisecond}}
	pc, err := lc.ListenPacket(t.Context(), "udp", "127.0.0.1:0")
	require.NoError(t, err)
	defer pc.Close()
	a, err := volley.Dial("udp", pc.LocalAddr().String())
	require.NoError(t, err)
	defer a.Close()
	_, err = a.Write([]byte("hello"))
	require.NoError(t, err)
	require.NoError(t, pc.SetReadDeadline(time.Now().Add(30*time.Second)))
	_, _, err = pc.ReadFrom(make([]byte, 100))
	require.NoError(t, err)
	until(t, func() bool { return listener(t, pc.LocalAddr()).Ended.Conns > 0 })
	e := listener(t, pc.LocalAddr()).Ended
	require.EqualValues(t, 1, e.Conns)
	require.EqualValues(t, 1, e.MessagesReceived)
}

// A volley.Conn over a session counts once, with the bytes of the session, in the
// totals of the Listener, or of what was dialed.
func TestEndedLayers(t *testing.T) {
	key := netcode.GenerateKey()
	l, err := netcode.Listen("udp", "127.0.0.1:0", key, 1)
	require.NoError(t, err)
	defer l.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	dialed, wrapped := group("netcode", "dialed"), group("volley", "wrapped")
	nc, err := new(netcode.Dialer).DialWithKey(ctx, l.Addr().String(), key, 1, 77)
	require.NoError(t, err)
	ns, err := l.AcceptConn(ctx)
	require.NoError(t, err)
	a, b := newConn(nc, nil), newConn(ns, nil)
	exchange(t, a, b)
	require.NoError(t, a.Close())
	require.NoError(t, b.Close())
	e := listener(t, l.Addr()).Ended
	require.EqualValues(t, 1, e.Conns)
	require.EqualValues(t, 1, e.MessagesReceived)
	require.NotZero(t, e.BytesReceived, "which the session counts")
	g := group("netcode", "dialed")
	require.EqualValues(t, 1, g.Conns-dialed.Conns)
	require.EqualValues(t, 1, g.MessagesSent-dialed.MessagesSent)
	require.Equal(t, wrapped, group("volley", "wrapped"))
}

func TestEndedPorous(t *testing.T) {
	l, err := porous.Listen("udp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	dialed := group("porous", "dialed")
	a, err := new(porous.Dialer).Dial(ctx, "udp", l.Addr().String())
	require.NoError(t, err)
	b, err := l.AcceptConn(ctx)
	require.NoError(t, err)
	exchange(t, a, b)
	b.Abort()
	a.Abort()
	e := listener(t, l.Addr()).Ended
	require.EqualValues(t, 1, e.Conns)
	require.EqualValues(t, 1, e.MessagesReceived)
	require.NotZero(t, e.PacketsSent)
	require.EqualValues(t, 1, group("porous", "dialed").Conns-dialed.Conns)
}

// Clients of a riptide.Server count for it, over sessions of netcode, too, and not
// for the Listener below.
func TestEndedRiptide(t *testing.T) {
	key := netcode.GenerateKey()
	l, err := netcode.Listen("udp", "127.0.0.1:0", key, 1)
	require.NoError(t, err)
	got := make(chan struct{})
	cfg := &riptide.Config{MaxPayload: 1000}
	srv := riptide.Server{Config: cfg, Unhandled: func(*riptide.Peer, *riptide.Message) error {
		close(got)
		return nil
	}}
	served := make(chan error)
	go func() { served <- srv.Serve(l) }()
	defer func() {
		srv.Close()
		<-served
		l.Close()
	}()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	dialed, bare := group("netcode", "dialed"), group("riptide", "dialed")
	nc, err := new(netcode.Dialer).DialWithKey(ctx, l.Addr().String(), key, 1, 77)
	require.NoError(t, err)
	cl := riptide.Client{Config: cfg}
	require.NoError(t, cl.ConnectOn(ctx, nc))
	require.NoError(t, cl.Send(riptide.NewMessage(riptide.Reliable, 5)))
	select {
	case <-got:
	case <-ctx.Done():
		t.Fatal("the message does not arrive")
	}
	var lived Conn
	until(t, func() bool { // while it is being put on the session, it is shown by itself, or not
		found := find(Snapshot(), nc.LocalAddr())
		require.LessOrEqual(t, len(found), 1)
		if len(found) == 1 {
			lived = found[0]
		}
		return lived.Over == "netcode"
	})
	cl.Close()
	ended := func(kind string) (e Totals) {
		for _, lv := range Snapshot().Listeners {
			if lv.Addr != nil && lv.Addr.String() == l.Addr().String() && lv.Kind == kind {
				e = lv.Ended
			}
		}
		return e
	}
	until(t, func() bool { return ended("server").Conns == 1 })
	require.EqualValues(t, 1, ended("server").MessagesReceived)
	require.GreaterOrEqual(t, ended("server").BytesReceived, lived.BytesReceived, "which the session counts, too")
	require.GreaterOrEqual(t, ended("server").BytesSent, lived.BytesSent)
	until(t, func() bool { return group("netcode", "dialed").Conns == dialed.Conns+1 })
	require.EqualValues(t, 1, group("netcode", "dialed").MessagesSent-dialed.MessagesSent)
	require.Equal(t, bare, group("riptide", "dialed"))
	require.Zero(t, ended("listener"))
}

// Pipes and what is put on connections of the application's are counted, too.
func TestEndedOthers(t *testing.T) {
	type count struct{ protocol, role string }
	before := map[count]Totals{}
	all := []count{{"volley", "pipe"}, {"volley", "wrapped"}, {"porous", "pipe"}, {"porous", "wrapped"}, {"netcode", "pipe"}}
	for _, c := range all {
		before[c] = group(c.protocol, c.role)
	}
	a, b := volley.Pipe(nil)
	exchange(t, a, b)
	x, y := simnet.Pair(1, simnet.Link{}, simnet.Link{})
	z, w := simnet.Pair(1, simnet.Link{}, simnet.Link{})
	c, d := newConn(x, nil), newConn(y, nil)
	exchange(t, c, d)
	e, f := porous.Pipe(nil)
	g, err := porous.NewConn(z, nil)
	require.NoError(t, err)
	h, err := porous.NewConn(w, nil)
	require.NoError(t, err)
	i, j := netcode.Pipe(1, nil)
	for _, ends := range [][2]net.Conn{{e, f}, {g, h}, {i, j}} {
		exchange(t, ends[0], ends[1])
	}
	for _, end := range []io.Closer{a, b, c, d, i, j} {
		end.Close()
		end.Close()
	}
	for _, end := range []*porous.Conn{e, f, g, h} {
		end.Abort()
		end.Abort()
	}
	for _, c := range all {
		got := group(c.protocol, c.role)
		require.EqualValues(t, 2, got.Conns-before[c].Conns, c)
		require.EqualValues(t, 2, got.MessagesReceived-before[c].MessagesReceived, c)
	}
}

// newConn is volley.NewConn without an error.
func newConn(inner net.Conn, cfg *volley.Config) *volley.Conn {
	c, err := volley.NewConn(inner, cfg)
	if err != nil {
		panic(err)
	}
	return c
}

// endOf waits for the end of a connection to an address that began after a time, and returns
// what is told of it.
func endOf(t *testing.T, role string, remote net.Addr, after time.Time) (e End) {
	t.Helper()
	until(t, func() bool {
		for _, e = range Snapshot().Ends {
			if e.Role == role && e.Remote == remote.String() && !e.Born.Before(after) {
				return true
			}
		}
		return false
	})
	return e
}

// Both sides tell why a connection has ended, also of one that its own side has closed.
func TestEndReasons(t *testing.T) {
	l := listen(t)
	for _, test := range []struct {
		end            func(a, b *volley.Conn) // a was dialed
		dialed, served string
	}{
		{func(a, _ *volley.Conn) { a.Close() }, "closed", "closed by the peer"},
		{func(_, b *volley.Conn) { b.Close() }, "closed by the peer", "closed"},
		{func(_, b *volley.Conn) { b.CloseWithReason("kicked") }, "closed by the peer: kicked", "closed: kicked"},
		{func(a, _ *volley.Conn) { a.CloseWithReason("<b>\x1b[2J\u202e") }, "closed: <b>?[2J?", "closed by the peer: <b>\uFFFD[2J\uFFFD"},
	} {
		before := time.Now()
		a, b := pair(t, l)
		exchange(t, a, b)
		test.end(a, b)
		e := endOf(t, "dialed", b.LocalAddr(), before)
		require.Equal(t, End{ID: e.ID, Protocol: "volley", Role: "dialed", Remote: l.Addr().String(), Born: e.Born, Time: e.Time, Reason: test.dialed}, e)
		require.False(t, e.Time.Before(e.Born) || time.Now().Before(e.Time))
		e = endOf(t, "accepted", a.LocalAddr(), before)
		require.Equal(t, test.served, e.Reason)
		require.Equal(t, listener(t, l.Addr()).ID, e.Listener)
		b.Close()
		a.Close()
		ended := slices.DeleteFunc(Snapshot().Ends, func(e End) bool { return e.Remote != a.LocalAddr().String() || e.Born.Before(before) })
		require.Len(t, ended, 1, "it has ended once")
	}
}

// A connection that is refused tells the reason.
func TestEndRefused(t *testing.T) {
	start := time.Now()
	lc := volley.ListenConfig{MaxConns: 1}
	l, err := lc.Listen(t.Context(), "udp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	pair(t, l)
	c, err := volley.Dial("udp", l.Addr().String())
	require.NoError(t, err)
	defer c.Close()
	require.Equal(t, "refused: full", endOf(t, "dialed", l.Addr(), start).Reason)
}
