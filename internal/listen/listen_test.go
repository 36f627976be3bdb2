package listen

import (
	"context"
	"errors"
	"math"
	"net"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"volley/internal/datagram"
	"volley/internal/loopback"
	"volley/internal/registry"
	"volley/internal/socket"
	"volley/simnet"
)

// TestErrors: what a user sees is wrapped once, and matches what package net
// promises.
func TestErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := simnet.New(1)
		defer n.Close()
		l := listenToy(t, n, 1, 1)
		wrapped := func(err, want error, op string) {
			t.Helper()
			require.ErrorIs(t, err, want)
			oe, ok := err.(*net.OpError)
			require.True(t, ok, "%T", err)
			require.Equal(t, op, oe.Op)
			require.Equal(t, l.side.Addr(), oe.Addr)
			require.False(t, errors.As(oe.Err, &oe), "wrapped twice: %v", err)
		}
		l.side.SetDeadline(time.Now().Add(-time.Second))
		_, err := l.side.AcceptConn(context.Background())
		wrapped(err, os.ErrDeadlineExceeded, "accept")
		l.side.SetDeadline(time.Time{})
		send(t, n, 1, 0, "hello")
		_, err = l.side.AcceptConn(context.Background())
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		begin := time.Now()
		wrapped(l.side.Shutdown(ctx), context.DeadlineExceeded, "shutdown")
		require.Equal(t, time.Minute, time.Since(begin))
		require.NoError(t, l.side.Shutdown(ctx), "with nothing left, although its context is over")
		_, err = l.side.AcceptConn(context.Background())
		wrapped(err, net.ErrClosed, "accept")
		wrapped(l.side.SetDeadline(time.Time{}), net.ErrClosed, "set")
	})
}

// TestBroken: the end of one socket ends Accept, with the reason, and the
// connections of the other sockets can still be waited for.
func TestBroken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := simnet.New(1)
		defer n.Close()
		l := listenToy(t, n, 2, 9)
		send(t, n, 1, 0, "hello")
		a, err := l.side.AcceptConn(context.Background())
		require.NoError(t, err)
		send(t, n, 2, 1, "hello")
		b, err := l.side.AcceptConn(context.Background())
		require.NoError(t, err)
		send(t, n, 3, 1, "hello")
		synctest.Wait()
		close(l.socks[0].broken)
		send(t, n, 4, 0, "hello") // it finds out
		synctest.Wait()
		_, err = l.side.AcceptConn(context.Background())
		require.ErrorIs(t, err, errBroken)
		require.True(t, a.ended.Load())
		require.False(t, b.ended.Load())
		require.True(t, l.conns[peerAddr(3)].ended.Load(), "nobody has accepted it")
		require.Equal(t, 1, l.stopped)
		done := make(chan error, 1)
		go func() { done <- l.side.Shutdown(t.Context()) }()
		synctest.Wait()
		require.Empty(t, done)
		b.Close()
		require.NoError(t, <-done)
		require.EqualValues(t, 1, l.socks[0].closed.Load())
		require.EqualValues(t, 1, l.socks[1].closed.Load())
	})
}

// TestTake: what is taken out of the queue is the taker's, and lives on.
func TestTake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := simnet.New(1)
		defer n.Close()
		l := listenToy(t, n, 1, 1)
		send(t, n, 1, 0, "hello")
		synctest.Wait()
		require.True(t, l.side.Full())
		c := l.conns[peerAddr(1)]
		require.True(t, l.side.Take(c))
		require.False(t, l.side.Take(c))
		require.False(t, l.side.Full())
		require.NoError(t, l.side.Close())
		require.False(t, c.ended.Load())
		require.Equal(t, 1, l.side.Conns())
		var seen registry.Listener
		l.side.View(&seen)
		require.Equal(t, 1, seen.Conns)
		require.Equal(t, l.side.Addr(), seen.Addr)
		c.Close()
		require.NoError(t, l.side.Shutdown(t.Context()))
	})
}

// TestOpenFails: sockets that were bound before an error are closed again.
func TestOpenFails(t *testing.T) {
	no := errors.New("no")
	var bound int
	var address string
	_, err := Open(t.Context(), "udp", loopback.Addr(), Options{Sockets: 2, Control: func(_, a string, _ syscall.RawConn) error {
		if bound++; bound == 2 {
			address = a
			return no
		}
		return nil
	}})
	if errors.Is(err, errors.ErrUnsupported) {
		t.Skip(err)
	}
	require.ErrorIs(t, err, no)
	p, err := Open(t.Context(), "udp", address, Options{})
	require.NoError(t, err, "the first socket is still there")
	_, err = Open(t.Context(), "udp", address, Options{Sockets: 2})
	require.ErrorIs(t, err, syscall.EADDRINUSE)
	p.Close()
	p, err = Open(t.Context(), "udp", address, Options{Sockets: 2})
	require.NoError(t, err)
	require.Equal(t, address, p.Addr().String())
	p.Close()
	for network, ok := range map[string]bool{"udp": true, "udp4": true, "udp6": true, "": false, "tcp": false, "unixgram": false} {
		require.Equal(t, ok, CheckNetwork("dial", network) == nil, network)
	}
}

// TestEarly: what came before all sockets were bound is counted, and nobody's.
func TestEarly(t *testing.T) {
	var bound int
	p, err := Open(t.Context(), "udp", loopback.Addr(), Options{Sockets: 2, Control: func(_, a string, _ syscall.RawConn) error {
		if bound++; bound == 2 {
			c, err := net.Dial("udp", a)
			if err != nil {
				return err
			}
			defer c.Close()
			_, err = c.Write([]byte("early"))
			return err
		}
		return nil
	}})
	if errors.Is(err, errors.ErrUnsupported) {
		t.Skip(err)
	}
	require.NoError(t, err)
	var l Listener[*toy]
	l.Init(1, func(*toy) {}, (*toy).Close)
	l.Serve(p, datagram.MuxConfig{MaxDatagram: 1000}, Hooks{})
	require.EqualValues(t, 1, l.Stats()[0].Unknown)
	var seen registry.Listener
	l.View(&seen)
	require.EqualValues(t, 1, seen.Unknown)
	require.NotZero(t, seen.Known&registry.Socket)
	require.Equal(t, p.Addr(), seen.Addr)
	require.Zero(t, seen.Conns)
	require.NoError(t, l.Shutdown(t.Context()))
}

func TestBudget(t *testing.T) {
	var b Budget
	b.Init(Limit(int64(400), 9))
	require.True(t, b.Reserve(300, false))
	require.False(t, b.Reserve(1, false), "the last quarter is for those who are known")
	require.True(t, b.ReserveKnown(100))
	require.False(t, b.ReserveKnown(1))
	require.EqualValues(t, 400, b.Used())
	require.True(t, b.Reserve(0, false), "nothing is always granted")
	require.EqualValues(t, 2, b.Refused())
	require.True(t, b.Reserve(-150, false))
	require.True(t, b.Reserve(50, false))
	require.EqualValues(t, 300, b.Used())
	require.Equal(t, 9, Limit(0, 9))
	require.Equal(t, math.MaxInt, Limit(-1, 9))
}

// A lateSocket is one whose address becomes free some time after its Close.
type lateSocket struct {
	socket.Socket
	gone chan struct{}
}

func (s *lateSocket) Released() <-chan struct{} { return s.gone }

func (s *lateSocket) Features() socket.Features {
	f := s.Socket.Features()
	f.Release = s
	return f
}

// Shutdown waits for addresses to be free, and has no error if they are, although
// its context is over.
func TestShutdownReleases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := simnet.New(1)
		defer n.Close()
		pc, err := n.Listen(serverAddr(0).String())
		require.NoError(t, err)
		sock := &lateSocket{socket.NewPacket(pc), make(chan struct{})}
		var l Listener[*toy]
		l.Init(1, func(*toy) {}, (*toy).Close)
		l.Serve(&Port{socks: []socket.Socket{sock}}, datagram.MuxConfig{MaxDatagram: 1000}, Hooks{})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- l.Shutdown(t.Context()) }()
		synctest.Wait()
		require.Empty(t, done, "the address is not free")
		cancel()
		require.ErrorIs(t, l.Shutdown(ctx), context.Canceled)
		close(sock.gone)
		require.NoError(t, <-done)
		for range 100 {
			require.NoError(t, l.Shutdown(ctx))
		}
	})
}

// A Share that is more than equal does not get the last quarter, and is charged for nothing
// that it was refused.
func TestShare(t *testing.T) {
	var b Budget
	b.Init(400 << 10)
	conns := 4
	greedy, modest := NewShare(&b, func() int { return conns }), NewShare(&b, func() int { return conns })
	require.True(t, greedy.Reserve(300<<10))
	require.False(t, greedy.Reserve(1))
	require.True(t, modest.Reserve(25<<10))
	require.False(t, modest.Reserve(1))
	require.EqualValues(t, 325<<10, b.Used())
	require.True(t, modest.Reserve(-1))
	require.True(t, modest.Reserve(1))
	require.True(t, greedy.Reserve(-26<<10))
	require.True(t, greedy.Reserve(1<<10))
	require.False(t, greedy.Reserve(1))
	require.True(t, greedy.Reserve(-200<<10))
	require.True(t, modest.Reserve(100<<10), "while there is room nobody counts")
	require.True(t, modest.Reserve(-100<<10))
	require.True(t, modest.Reserve(-25<<10))
	require.True(t, greedy.Reserve(225<<10))
	conns = 1000
	require.True(t, modest.Reserve(leastShare))
	require.False(t, modest.Reserve(1))
	conns = 0
	require.True(t, modest.Reserve(1))
}
