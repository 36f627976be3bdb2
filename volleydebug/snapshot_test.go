package volleydebug_test

import (
	"context"
	"io"
	"net"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"volley"
	"volley/internal/loopback"
	"volley/netcode"
	"volley/porous"
	"volley/riptide"
	"volley/simnet"
	"volley/volleydebug"
)

// find returns the connections of a state with a remote address.
func find(s volleydebug.State, remote net.Addr) (found []volleydebug.Conn) {
	for _, c := range s.Conns {
		if c.Remote != nil && c.Remote.String() == remote.String() {
			found = append(found, c)
		}
	}
	return found
}

// one returns the only connection with a remote address.
func one(t *testing.T, remote net.Addr) volleydebug.Conn {
	t.Helper()
	found := find(volleydebug.Snapshot(), remote)
	require.Len(t, found, 1)
	return found[0]
}

// listener returns the only listener at an address.
func listener(t *testing.T, addr net.Addr) volleydebug.Listener {
	t.Helper()
	var found []volleydebug.Listener
	for _, l := range volleydebug.Snapshot().Listeners {
		if l.Addr != nil && l.Addr.String() == addr.String() {
			found = append(found, l)
		}
	}
	require.Len(t, found, 1)
	return found[0]
}

// exchange sends a message each way, and waits for both.
func exchange(t *testing.T, a, b net.Conn) {
	t.Helper()
	buf := make([]byte, 100)
	for _, dir := range [][2]net.Conn{{a, b}, {b, a}} {
		_, err := dir[0].Write([]byte("hello"))
		require.NoError(t, err)
		require.NoError(t, dir[1].SetReadDeadline(time.Now().Add(30*time.Second)))
		n, err := dir[1].Read(buf)
		require.NoError(t, err)
		require.Equal(t, "hello", string(buf[:n]))
	}
}

// pair returns a dialed connection and the accepted one. The former has an address of
// its own: from the port of one that has been closed, the listener is deaf to a new
// one for a while.
func pair(t *testing.T, l *volley.Listener) (a, b *volley.Conn) {
	t.Helper()
	a, err := volley.DialUDP("udp4", &net.UDPAddr{IP: loopback.Host().AsSlice()}, l.Addr().(*net.UDPAddr))
	require.NoError(t, err)
	t.Cleanup(func() { a.Close() })
	require.NoError(t, l.SetDeadline(time.Now().Add(30*time.Second)))
	b, err = l.AcceptConn(context.Background())
	require.NoError(t, err)
	t.Cleanup(func() { b.Close() })
	return a, b
}

func listen(t *testing.T) *volley.Listener {
	t.Helper()
	l, err := volley.Listen("udp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	return l
}

func TestSnapshotVolley(t *testing.T) {
	l := listen(t)
	a, b := pair(t, l)
	exchange(t, a, b)
	lv := listener(t, l.Addr())
	require.Equal(t, [2]string{"volley", "listener"}, [2]string{lv.Protocol, lv.Kind})
	require.Equal(t, 1, lv.Conns)
	require.EqualValues(t, 1, lv.Accepted)
	require.EqualValues(t, 256<<20, lv.MaxMemory)
	require.True(t, lv.Knows("SocketDrops", "Memory"))
	require.NotZero(t, lv.ReadCalls)

	dialed, accepted := one(t, l.Addr()), one(t, a.LocalAddr())
	require.Equal(t, "dialed", dialed.Role)
	require.Zero(t, dialed.Listener)
	require.Equal(t, "accepted", accepted.Role)
	require.Equal(t, lv.ID, accepted.Listener)
	require.Equal(t, "udp", accepted.Network())
	require.Empty(t, accepted.Over)
	require.WithinDuration(t, time.Now(), accepted.Born, time.Minute)
	require.Empty(t, accepted.Explain, "not without being asked")
	sameAsStats(t, dialed, a.Stats())
	sameAsStats(t, accepted, b.Stats())

	e, ok := volleydebug.Explain(dialed.ID)
	require.True(t, ok)
	require.Equal(t, dialed.ID, e.ID)
	require.NotEmpty(t, e.Explain)

	// What has ended is not shown, whether somebody holds it or not.
	require.NoError(t, b.Close())
	require.Empty(t, find(volleydebug.Snapshot(), a.LocalAddr()))
	require.Zero(t, listener(t, l.Addr()).Conns)
	require.NoError(t, a.Close())
	require.Empty(t, find(volleydebug.Snapshot(), l.Addr()))
	_, ok = volleydebug.Explain(dialed.ID)
	require.False(t, ok)
	require.NoError(t, l.Shutdown(t.Context()))
	for _, lv := range volleydebug.Snapshot().Listeners {
		require.NotEqual(t, l.Addr().String(), lv.Addr.String())
	}
}

// sameAsStats compares the figures that do not change while nothing is sent.
func sameAsStats(t *testing.T, c volleydebug.Conn, s volley.Stats) {
	t.Helper()
	require.True(t, c.Knows("MessagesSent", "MessagesDelivered", "PacketsSent", "MissedNetwork", "MissedSocket", "MissedInbox", "Window"))
	require.False(t, c.Knows("BytesSent"), "which volley does not count")
	require.Equal(t, c.RTT > 0, c.Knows("RTT"))
	require.Equal(t, s.MessagesSent, c.MessagesSent)
	require.Equal(t, s.MessagesReceived, c.MessagesReceived)
	require.Equal(t, s.Missed, volley.MissedMessages{Network: c.MissedNetwork, Socket: c.MissedSocket, Inbox: c.MissedInbox})
	require.Equal(t, s.ReadQueue, c.ReadQueue)
}

// A connection that waits for Accept is one, too.
func TestSnapshotNotAccepted(t *testing.T) {
	l := listen(t)
	a, err := volley.Dial("udp", l.Addr().String())
	require.NoError(t, err)
	defer a.Close()
	require.NoError(t, l.SetDeadline(time.Now().Add(30*time.Second)))
	c, err := l.AcceptConn(context.Background())
	require.NoError(t, err)
	defer c.Close()
	b, err := volley.Dial("udp", l.Addr().String())
	require.NoError(t, err)
	defer b.Close()
	for end := time.Now().Add(30 * time.Second); len(find(volleydebug.Snapshot(), b.LocalAddr())) == 0; runtime.Gosched() {
		require.True(t, time.Now().Before(end))
	}
}

func TestSnapshotPacketConn(t *testing.T) {
	pc, err := volley.ListenPacket("udp", "127.0.0.1:0")
	require.NoError(t, err)
	defer pc.Close()
	a, err := volley.Dial("udp", pc.LocalAddr().String())
	require.NoError(t, err)
	defer a.Close()
	_, err = a.Write([]byte("to be read"))
	require.NoError(t, err)
	_, err = a.Write([]byte("to wait"))
	require.NoError(t, err)
	buf := make([]byte, 100)
	for range 2 {
		require.NoError(t, pc.SetReadDeadline(time.Now().Add(30*time.Second)))
		_, _, err := pc.ReadFrom(buf)
		require.NoError(t, err)
	}
	lv := listener(t, pc.LocalAddr())
	require.Equal(t, [2]string{"volley", "packet"}, [2]string{lv.Protocol, lv.Kind})
	require.Equal(t, 1, lv.Conns)
	c := one(t, a.LocalAddr())
	require.Equal(t, lv.ID, c.Listener)
	require.EqualValues(t, 2, c.MessagesReceived)
	require.False(t, c.Knows("MissedNetwork"))
	require.True(t, c.Knows("MissedInbox"))
	require.NoError(t, pc.Close())
	for _, l := range volleydebug.Snapshot().Listeners {
		require.NotEqual(t, lv.ID, l.ID)
	}
}

// A volley.Conn over a session of netcode is one connection, at both sides.
func TestSnapshotLayers(t *testing.T) {
	key := netcode.GenerateKey()
	l, err := netcode.Listen("udp", "127.0.0.1:0", key, 1)
	require.NoError(t, err)
	defer l.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	nc, err := new(netcode.Dialer).DialWithKey(ctx, l.Addr().String(), key, 1, 77)
	require.NoError(t, err)
	defer nc.Close()
	ns, err := l.AcceptConn(ctx)
	require.NoError(t, err)
	defer ns.Close()
	exchange(t, nc, ns)
	bare := one(t, nc.LocalAddr())
	require.Equal(t, [3]string{"netcode", "", "client 77"}, [3]string{bare.Protocol, bare.Over, bare.Label})
	require.True(t, bare.Knows("BytesSent", "MessagesSent"))
	require.False(t, bare.Knows("RTT"))
	require.EqualValues(t, 5, bare.BytesReceived)
	require.EqualValues(t, 1, bare.MessagesSent)

	a, b := newConn(nc, nil), newConn(ns, nil)
	defer a.Close()
	defer b.Close()
	exchange(t, a, b)
	lv := listener(t, l.Addr())
	require.Equal(t, "netcode", lv.Protocol)
	require.Equal(t, 1, lv.Conns)
	c := one(t, nc.LocalAddr())
	require.Equal(t, [3]string{"volley", "netcode", "client 77"}, [3]string{c.Protocol, c.Over, c.Label})
	require.Equal(t, lv.ID, c.Listener)
	require.EqualValues(t, 1, c.MessagesSent)
	require.Greater(t, c.BytesSent, uint64(10), "as the session counts them")
	require.True(t, c.Knows("BytesSent", "MissedNetwork"))
	d := one(t, l.Addr())
	require.Equal(t, [3]string{"volley", "netcode", "dialed"}, [3]string{d.Protocol, d.Over, d.Role})
	e, ok := volleydebug.Explain(d.ID)
	require.True(t, ok)
	require.NotEmpty(t, e.Explain)
	require.NoError(t, a.Close())
	require.Empty(t, find(volleydebug.Snapshot(), l.Addr()))
}

func TestSnapshotPorous(t *testing.T) {
	l, err := porous.Listen("udp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	a, err := new(porous.Dialer).Dial(ctx, "udp", l.Addr().String())
	require.NoError(t, err)
	defer a.Abort()
	b, err := l.AcceptConn(ctx)
	require.NoError(t, err)
	defer b.Abort()
	exchange(t, a, b)
	lv := listener(t, l.Addr())
	require.Equal(t, [2]string{"porous", "listener"}, [2]string{lv.Protocol, lv.Kind})
	require.EqualValues(t, 1, lv.Accepted)
	c, d := one(t, a.LocalAddr()), one(t, l.Addr())
	require.Equal(t, lv.ID, c.Listener)
	require.Equal(t, "dialed", d.Role)
	require.True(t, d.Knows("RTT", "Window", "SendQueue", "MessagesResent"))
	var s porous.Stats
	until(t, func() bool { // an acknowledgement may come just now
		s, d = a.Stats(), one(t, l.Addr())
		after := a.Stats()
		return s.RTT == after.RTT && s.Window == after.Window
	})
	require.Equal(t, s.RTT, d.RTT)
	require.Equal(t, s.Window, d.Window)
	require.Equal(t, "bytes", d.Unit)
	require.Equal(t, s.MessagesReceived, d.MessagesReceived)
	e, ok := volleydebug.Explain(d.ID)
	require.True(t, ok)
	require.NotEmpty(t, e.Explain)
	a.Abort()
	require.Empty(t, find(volleydebug.Snapshot(), l.Addr()))
}

func TestSnapshotRiptide(t *testing.T) {
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	require.NoError(t, err)
	got := make(chan struct{})
	srv := &riptide.Server{Unhandled: func(*riptide.Peer, *riptide.Message) error {
		close(got)
		return nil
	}}
	served := make(chan error)
	go func() { served <- srv.ServeOn(pc) }()
	defer func() {
		srv.Close()
		require.ErrorIs(t, <-served, net.ErrClosed)
	}()
	var cl riptide.Client
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	require.NoError(t, cl.Connect(ctx, "udp", pc.LocalAddr().String()))
	defer cl.Close()
	require.NoError(t, cl.Send(riptide.NewMessage(riptide.Reliable, 5)))
	select {
	case <-got:
	case <-ctx.Done():
		t.Fatal("the message does not arrive")
	}
	lv := listener(t, pc.LocalAddr())
	require.Equal(t, [2]string{"riptide", "server"}, [2]string{lv.Protocol, lv.Kind})
	require.Equal(t, 1, lv.Conns)
	c, d := one(t, cl.LocalAddr()), one(t, pc.LocalAddr())
	require.Equal(t, [3]string{"riptide", "accepted", "client 1"}, [3]string{c.Protocol, c.Role, c.Label})
	require.Equal(t, lv.ID, c.Listener)
	require.EqualValues(t, 1, c.MessagesReceived)
	require.Equal(t, "dialed", d.Role)
	require.EqualValues(t, 1, d.MessagesSent)
	require.True(t, d.Knows("BytesSent", "MessagesDelivered", "SendQueue"))
	require.False(t, d.Knows("MissedNetwork"))
}

// Clients of a riptide.Server over sessions of netcode belong to the Server, and
// come once.
func TestSnapshotRiptideOverNetcode(t *testing.T) {
	key := netcode.GenerateKey()
	l, err := netcode.Listen("udp", "127.0.0.1:0", key, 1)
	require.NoError(t, err)
	cfg := &riptide.Config{MaxPayload: 1000}
	srv := riptide.Server{Config: cfg}
	served := make(chan error)
	go func() { served <- srv.Serve(l) }()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	nc, err := new(netcode.Dialer).DialWithKey(ctx, l.Addr().String(), key, 1, 77)
	require.NoError(t, err)
	cl := riptide.Client{Config: cfg}
	require.NoError(t, cl.ConnectOn(ctx, nc))
	// The answer may be here before the server is done with putting its side on
	// top of the session; meanwhile that may not be shown, but never twice.
	var c volleydebug.Conn
	for end := time.Now().Add(30 * time.Second); c.Over == ""; {
		require.True(t, time.Now().Before(end))
		found := find(volleydebug.Snapshot(), nc.LocalAddr())
		require.LessOrEqual(t, len(found), 1)
		if len(found) == 1 {
			c = found[0]
		}
	}
	require.Equal(t, [3]string{"riptide", "netcode", "client 1"}, [3]string{c.Protocol, c.Over, c.Label})
	require.NotZero(t, c.Listener)
	kinds := map[string]uint64{}
	for _, lv := range volleydebug.Snapshot().Listeners {
		if lv.Addr != nil && lv.Addr.String() == l.Addr().String() {
			kinds[lv.Kind] = lv.ID
		}
	}
	require.Equal(t, kinds["server"], c.Listener)
	require.Equal(t, "dialed", one(t, l.Addr()).Role)
	cl.Close()
	srv.Close()
	<-served
	require.NoError(t, l.Shutdown(ctx))
}

func TestSnapshotPipes(t *testing.T) {
	count := func() (n int) {
		runtime.GC()
		runtime.GC()
		for _, c := range volleydebug.Snapshot().Conns {
			if c.Role == "pipe" && c.Protocol == "volley" {
				n++
			}
		}
		return n
	}
	before := count()
	a, b := volley.Pipe(nil)
	x, y := simnet.Pair(1, simnet.Link{}, simnet.Link{})
	c, d := newConn(x, nil), newConn(y, nil)
	defer c.Close()
	defer d.Close()
	require.Equal(t, before+2, count())
	require.Equal(t, "wrapped", one(t, c.RemoteAddr()).Role)
	e, f := porous.Pipe(nil)
	g, h := netcode.Pipe(1, nil)
	for _, end := range []net.Conn{e, f, g, h} {
		found := slices.DeleteFunc(find(volleydebug.Snapshot(), end.RemoteAddr()), func(c volleydebug.Conn) bool {
			return c.Network() != end.RemoteAddr().Network()
		})
		require.Len(t, found, 1)
		require.Equal(t, "pipe", found[0].Role)
	}
	for _, end := range []io.Closer{e, f, g, h, b} {
		end.Close()
	}
	require.LessOrEqual(t, count(), before+1)
	a.Close()
	require.Equal(t, before, count())
}

// Pipes that are forgotten without a Close can be collected, and are no longer
// shown.
func TestSnapshotForgets(t *testing.T) {
	pipes := func() (n int) {
		for _, c := range volleydebug.Snapshot().Conns {
			if strings.HasPrefix(c.Network(), "pipe") {
				n++
			}
		}
		return n
	}
	synctest.Test(t, func(t *testing.T) {
		for range 100 {
			volley.Pipe(nil)
		}
		time.Sleep(time.Minute) // until no timer holds them
		for i := 0; pipes() > 0; i++ {
			require.Less(t, i, 100, "forgotten pipes are held")
			runtime.GC()
		}
	})
}
