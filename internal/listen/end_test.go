package listen

import (
	"context"
	"errors"
	"math"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"volley/internal/datagram"
	"volley/internal/socket"
	"volley/simnet"
)

// A sullenSocket is one whose Close fails.
type sullenSocket struct {
	socket.Socket
	err error
}

func (s *sullenSocket) Close() error {
	s.Socket.Close()
	return s.err
}

// serveSullen serves sockets whose Close fails with these errors.
func serveSullen(t *testing.T, n *simnet.Network, hooks Hooks, errs ...error) *Listener[*toy] {
	l := new(Listener[*toy])
	l.Init(1, func(*toy) {}, (*toy).Close)
	var port Port
	for i, err := range errs {
		pc, listenErr := n.Listen(serverAddr(i).String())
		require.NoError(t, listenErr)
		port.socks = append(port.socks, &sullenSocket{socket.NewPacket(pc), err})
	}
	l.Serve(&port, datagram.MuxConfig{MaxDatagram: 1000}, hooks)
	return l
}

// TestCloseFails: Close tells the first error of a socket, wrapped once, each time.
func TestCloseFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := simnet.New(1)
		defer n.Close()
		one, two := errors.New("one"), errors.New("two")
		for _, errs := range [][]error{{one}, {nil, one}, {one, two}, {one, nil}, {nil, one, two}} {
			l := serveSullen(t, n, Hooks{}, errs...)
			for range 2 {
				err := l.Close()
				var op *net.OpError
				require.ErrorAs(t, err, &op)
				require.Equal(t, "close", op.Op)
				require.Equal(t, "udp", op.Net)
				require.Equal(t, l.Addr(), op.Addr)
				require.Equal(t, one, op.Err)
			}
			require.ErrorIs(t, l.Shutdown(t.Context()), one)
		}
	})
}

// TestHooks: Stop and Over are told once each, Broken what broke, and nobody has to
// ask for any of it.
func TestHooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := simnet.New(1)
		defer n.Close()
		var log []string
		var cause error
		l := listenToy(t, n, 1, 1)
		l.side.hooks = Hooks{
			Stop:   func() { log = append(log, "stop") },
			Broken: func(err error) { cause = err; log = append(log, "broken") },
			Over:   func() { log = append(log, "over") },
		}
		send(t, n, 1, 0, "hello")
		c, err := l.side.AcceptConn(context.Background())
		require.NoError(t, err)
		synctest.Wait() // the socket's reader may not have done with what it let in
		require.NoError(t, l.side.Close())
		require.NoError(t, l.side.Close())
		require.Equal(t, []string{"stop"}, log)
		require.False(t, l.side.Over())
		c.Close()
		require.Equal(t, []string{"stop", "over"}, log)
		require.True(t, l.side.Over())
		// One that was dialed just as all was over.
		l.side.Add()
		require.Equal(t, 1, l.side.Conns())
		l.side.Gone(new(toy), false)
		require.Zero(t, l.side.Conns())
		require.Equal(t, []string{"stop", "over"}, log)

		log = nil
		l = listenToy(t, n, 1, 1)
		l.side.hooks = Hooks{
			Stop:   func() { log = append(log, "stop") },
			Broken: func(err error) { cause = err; log = append(log, "broken") },
			Over:   func() { log = append(log, "over") },
		}
		close(l.socks[0].broken)
		send(t, n, 1, 0, "hello") // it finds out
		synctest.Wait()
		require.Equal(t, []string{"broken", "stop", "over"}, log)
		require.Equal(t, errBroken, cause)

		quiet := serveSullen(t, n, Hooks{}, nil) // none of them is needed
		require.NoError(t, quiet.Close())
		require.True(t, quiet.Over())
	})
}

// TestShutdownEndsAll: when its context is over, Shutdown closes the connections of
// all sockets, 64 at a time, and returns when they have all been told.
func TestShutdownEndsAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := simnet.New(1)
		defer n.Close()
		const peers = 200
		l := listenToy(t, n, 2, peers)
		var inside, most, told atomic.Int32
		l.side.hooks.End = func(h datagram.Handler) {
			now := inside.Add(1)
			for old := most.Load(); now > old && !most.CompareAndSwap(old, now); old = most.Load() {
			}
			time.Sleep(time.Second)
			h.(*toy).Close()
			inside.Add(-1)
			told.Add(1)
		}
		for i := range peers {
			send(t, n, i, i%2, "hello")
			_, err := l.side.AcceptConn(context.Background())
			require.NoError(t, err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		begin := time.Now()
		require.ErrorIs(t, l.side.Shutdown(ctx), context.Canceled)
		require.EqualValues(t, peers, told.Load())
		require.EqualValues(t, 64, most.Load())
		require.Equal(t, 4*time.Second, time.Since(begin))
		require.True(t, l.side.Over())
	})
}

// TestShutdownInTime: a context that is over makes no error of a Shutdown that has
// nothing to wait for, and what Close has told stays the result.
func TestShutdownInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := simnet.New(1)
		defer n.Close()
		l := listenToy(t, n, 1, 1)
		send(t, n, 1, 0, "hello")
		c, err := l.side.AcceptConn(context.Background())
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		go func() {
			time.Sleep(time.Second)
			c.Close()
		}()
		begin := time.Now()
		require.NoError(t, l.side.Shutdown(ctx))
		require.Equal(t, time.Second, time.Since(begin))
	})
}

// TestGone: a connection that has ended leaves the queue, unless there is something
// to read.
func TestGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := simnet.New(1)
		defer n.Close()
		l := listenToy(t, n, 1, 1)
		for _, payload := range []string{"hello", "message"} {
			send(t, n, 1, 0, payload)
			synctest.Wait()
			require.True(t, l.side.Full())
			c := l.conns[peerAddr(1)]
			c.Close()
			require.False(t, l.side.Full())
			require.Equal(t, payload == "message", l.side.Take(c))
		}
		require.NoError(t, l.side.Shutdown(t.Context()))
	})
}

// TestStats: each socket has its own figures.
func TestStats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := simnet.New(1)
		defer n.Close()
		l := serveSullen(t, n, Hooks{}, nil, nil) // nobody is let in
		l.early = 10
		send(t, n, 1, 0, "x")
		send(t, n, 1, 1, "x")
		send(t, n, 1, 1, "x")
		synctest.Wait()
		all := l.Stats()
		require.Len(t, all, 2)
		require.EqualValues(t, 11, all[0].Unknown)
		require.EqualValues(t, 2, all[1].Unknown)
		require.NoError(t, l.Shutdown(t.Context()))
	})
}

// TestBudgetBounds: the quarter for those who are known is rounded down, and the limit
// itself may be used up.
func TestBudgetBounds(t *testing.T) {
	for limit, unknown := range map[int64]int{0: 0, 3: 3, 4: 3, 7: 6, 8: 6, 400: 300} {
		var b Budget
		b.Init(limit)
		require.Equal(t, limit, b.Limit())
		require.True(t, b.Reserve(unknown, false))
		require.False(t, b.Reserve(1, false))
		require.EqualValues(t, unknown, b.Used())
		require.Equal(t, int(limit) > unknown, b.Reserve(int(limit)-unknown, true) && int(limit) > unknown)
		require.False(t, b.Reserve(1, true))
		require.Equal(t, limit, b.Used())
		require.EqualValues(t, 2, b.Refused())
		require.True(t, b.Reserve(-int(limit), true))
		require.Zero(t, b.Used())
	}
	require.Equal(t, 1, Limit(1, 9))
	require.Equal(t, int64(9), Limit(int64(0), 9))
	require.Equal(t, int64(math.MaxInt), Limit(int64(-5), 9))
}

// TestShutdownReleasesAll: Shutdown waits for the last connection, and then for the
// addresses of all sockets, whatever the order in which they become free.
func TestShutdownReleasesAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := simnet.New(1)
		defer n.Close()
		var l Listener[*toy]
		l.Init(1, func(*toy) {}, (*toy).Close)
		var port Port
		var gone []chan struct{}
		for i := range 3 {
			pc, err := n.Listen(serverAddr(i).String())
			require.NoError(t, err)
			late := &lateSocket{socket.NewPacket(pc), nil}
			if i > 0 { // the first one is free at once
				late.gone = make(chan struct{})
				gone = append(gone, late.gone)
			}
			port.socks = append(port.socks, late)
		}
		l.Serve(&port, datagram.MuxConfig{MaxDatagram: 1000}, Hooks{})
		p, err := l.Muxes()[1].Dial(peerAddr(1))
		require.NoError(t, err)
		require.NoError(t, p.Attach(new(toy)))
		done := make(chan error, 1)
		go func() { done <- l.Shutdown(t.Context()) }()
		for _, step := range []func(){func() { p.Close() }, func() { close(gone[0]) }, func() { close(gone[1]) }} {
			synctest.Wait()
			require.Empty(t, done)
			step()
		}
		require.NoError(t, <-done)
	})
}
