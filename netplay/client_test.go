package netplay_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"volley/netplay"
)

// run has a client run, and returns where its result comes.
func run(ctx context.Context, cl *netplay.Client) <-chan error {
	result := make(chan error, 1)
	go func() { result <- cl.Run(ctx) }()
	return result
}

func TestClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ln := newPipeListener()
		defer ln.Close()
		got := make(chan *chat)
		cl := &netplay.Client{
			Registry:  newRegistry(),
			Dial:      ln.dial,
			OnConnect: func(c *netplay.Conn) error { return c.WriteMessage(context.Background(), &chat{"login", ""}) },
		}
		netplay.Handle(cl, func(c *netplay.Conn, m *chat) error { got <- m; return c.WriteMessage(context.Background(), &empty{}) })
		require.NoError(t, cl.WriteMessage(context.Background(), &chat{"early", ""}))
		result := run(t.Context(), cl)
		server := newConn(t, accept(t, ln), nil)
		require.Equal(t, &chat{"login", ""}, read(t, server), "ahead of what waits")
		require.Equal(t, &chat{"early", ""}, read(t, server))
		require.NoError(t, server.WriteMessage(context.Background(), &chat{"s", "hi"}))
		require.Equal(t, &chat{"s", "hi"}, <-got)
		require.Equal(t, &empty{}, read(t, server))
		require.Same(t, cl.Conn().NetConn(), cl.Conn().NetConn())
		server.Close()
		require.NoError(t, <-result, "in order")
		require.Empty(t, cl.Unsent())
		require.ErrorIs(t, cl.WriteMessage(context.Background(), &empty{}), net.ErrClosed)
		require.Error(t, cl.Run(t.Context()), "runs once")
	})
}

func accept(t testing.TB, ln net.Listener) net.Conn {
	t.Helper()
	nc, err := ln.Accept()
	require.NoError(t, err)
	return nc
}

// TestClientReconnect checks that what was not handed over whole goes out on
// the next connection, once and in order.
func TestClientReconnect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ln := newPipeListener()
		defer ln.Close()
		failed := errors.New("no route")
		attempts := 0
		disconnects := 0
		cl := &netplay.Client{
			Registry: newRegistry(),
			Dial: func(ctx context.Context) (net.Conn, error) {
				if attempts++; attempts <= 3 {
					return nil, failed
				}
				return ln.dial(ctx)
			},
			Reconnect:    true,
			OnDisconnect: func(*netplay.Conn, error) { disconnects++ },
		}
		for i := range 5 {
			require.NoError(t, cl.WriteMessage(context.Background(), &chat{"c", fmt.Sprint(i)}))
		}
		start := time.Now()
		result := run(t.Context(), cl)
		nc := accept(t, ln)
		require.Less(t, time.Since(start), 700*time.Millisecond)
		require.GreaterOrEqual(t, time.Since(start), 350*time.Millisecond)
		first := newConn(t, nc, nil)
		synctest.Wait()
		buf := make([]byte, 15) // one frame of 11 bytes, and a part of the next
		_, err := io.ReadFull(nc, buf)
		require.NoError(t, err)
		dead := cl.Conn()
		first.Close()
		<-dead.Context().Done()
		require.Error(t, dead.WriteMessage(context.Background(), &chat{"c", "not for the next connection"}))

		second := newConn(t, accept(t, ln), nil)
		for i := 1; i < 5; i++ {
			require.Equal(t, &chat{"c", fmt.Sprint(i)}, read(t, second))
		}
		require.NoError(t, cl.WriteMessage(context.Background(), &chat{"c", "last"}))
		go func() {
			for {
				if _, err := second.ReadMessage(context.Background()); err != nil {
					second.Close()
					return
				}
			}
		}()
		require.NoError(t, cl.Shutdown(t.Context()))
		require.ErrorIs(t, <-result, netplay.ErrClientClosed)
		require.Equal(t, 2, disconnects)
		synctest.Wait()
		require.Equal(t, uint64(5), second.Stats().MessagesReceived)
	})
}

// TestClientUnsent checks what is said of messages that did not go out.
func TestClientUnsent(t *testing.T) {
	check := func(t *testing.T, frames []netplay.Frame, from, to int) {
		t.Helper()
		codec, err := netplay.NewCodec(newRegistry(), nil)
		require.NoError(t, err)
		require.Len(t, frames, to-from)
		for i, f := range frames {
			m, err := codec.Decode(f)
			require.NoError(t, err)
			require.Equal(t, &chat{"c", fmt.Sprint(from + i)}, m)
		}
	}
	fill := func(t *testing.T, cl *netplay.Client) {
		for i := range 5 {
			require.NoError(t, cl.WriteMessage(context.Background(), &chat{"c", fmt.Sprint(i)}))
		}
	}
	ending := func(f func(*testing.T, *netplay.Client, <-chan error) error) func(*testing.T) {
		return func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ln := newPipeListener()
				defer ln.Close()
				cl := &netplay.Client{Registry: newRegistry(), Dial: ln.dial, WriteTimeout: -1}
				fill(t, cl)
				result := run(t.Context(), cl)
				nc := accept(t, ln)
				defer nc.Close()
				// A frame of 11 bytes, then the batch of the others in part.
				_, err := io.ReadFull(nc, make([]byte, 11+11+9))
				require.NoError(t, err)
				synctest.Wait()
				require.Nil(t, cl.Unsent(), "not yet")
				f(t, cl, result)
				check(t, cl.Unsent(), 2, 5)
			})
		}
	}
	t.Run("Close", ending(func(t *testing.T, cl *netplay.Client, result <-chan error) error {
		require.NoError(t, cl.Close())
		require.ErrorIs(t, <-result, netplay.ErrClientClosed)
		return nil
	}))
	t.Run("Shutdown", ending(func(t *testing.T, cl *netplay.Client, result <-chan error) error {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		err := cl.Shutdown(ctx)
		var ue *netplay.UnsentError
		require.ErrorAs(t, err, &ue)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, "3 accepted messages")
		check(t, ue.Unsent[0].Frames, 2, 5)
		require.ErrorIs(t, <-result, netplay.ErrClientClosed)
		return nil
	}))
	t.Run("never ran", func(t *testing.T) {
		cl := &netplay.Client{Registry: newRegistry(), Address: "unused"}
		fill(t, cl)
		var ue *netplay.UnsentError
		require.ErrorAs(t, cl.Shutdown(t.Context()), &ue)
		check(t, ue.Unsent[0].Frames, 0, 5)
		require.ErrorIs(t, cl.Run(t.Context()), netplay.ErrClientClosed)
		require.ErrorAs(t, cl.Shutdown(t.Context()), &ue)
		require.NoError(t, cl.Close())
	})
}

// TestClientEnds checks how Run ends before there is a connection.
func TestClientEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failed := errors.New("no route")
		dial := func(context.Context) (net.Conn, error) { return nil, failed }
		require.ErrorIs(t, (&netplay.Client{Registry: newRegistry(), Dial: dial}).Run(t.Context()), failed)

		cause := errors.New("enough")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Hour, cause)
		defer cancel()
		cl := &netplay.Client{Registry: newRegistry(), Dial: dial, Reconnect: true}
		require.ErrorIs(t, cl.Run(ctx), cause)

		cl = &netplay.Client{Registry: newRegistry(), Dial: dial, Reconnect: true}
		result := run(t.Context(), cl)
		synctest.Wait()
		require.NoError(t, cl.Shutdown(t.Context()), "nothing is left to connect for")
		require.ErrorIs(t, <-result, netplay.ErrClientClosed)

		cl = &netplay.Client{Registry: newRegistry(), Dial: dial, Reconnect: true}
		require.NoError(t, cl.WriteMessage(context.Background(), &chat{}))
		result = run(t.Context(), cl)
		synctest.Wait()
		ctx, cancel = context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		require.ErrorAs(t, cl.Shutdown(ctx), new(*netplay.UnsentError))
		require.ErrorIs(t, <-result, netplay.ErrClientClosed)

		hang := func(ctx context.Context) (net.Conn, error) { <-ctx.Done(); return nil, ctx.Err() }
		cl = &netplay.Client{Registry: newRegistry(), Dial: hang, DialTimeout: time.Second}
		start := time.Now()
		require.ErrorIs(t, cl.Run(t.Context()), context.DeadlineExceeded)
		require.Equal(t, time.Second, time.Since(start))
	})
}

// TestClientWaitsForRoom checks the bound of the queue.
func TestClientWaitsForRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ln := newPipeListener()
		defer ln.Close()
		cl := &netplay.Client{Registry: newRegistry(), Dial: ln.dial, SendBuffer: 100 << 10}
		big := &blob{make([]byte, 60<<10)}
		require.NoError(t, cl.WriteMessage(context.Background(), big))
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		require.ErrorIs(t, cl.WriteMessage(ctx, big), context.DeadlineExceeded)
		written := make(chan error)
		go func() { written <- cl.WriteMessage(context.Background(), big) }()
		synctest.Wait()
		result := run(t.Context(), cl)
		server := newConn(t, accept(t, ln), nil)
		for range 2 {
			require.Equal(t, big, read(t, server))
		}
		require.NoError(t, <-written)
		server.Close()
		require.NoError(t, <-result)
	})
}

func TestClientConfig(t *testing.T) {
	for _, cl := range []*netplay.Client{
		{},
		{Registry: newRegistry()},
		{Registry: newRegistry(), Address: "x", SendBuffer: 1},
		{Registry: newRegistry(), Address: "x", Config: &netplay.Config{MaxFrame: 1}},
	} {
		require.ErrorAs(t, cl.Run(t.Context()), new(*netplay.ConfigError))
		require.ErrorAs(t, cl.WriteMessage(context.Background(), &empty{}), new(*netplay.ConfigError))
		require.NoError(t, cl.Close())
		require.NoError(t, cl.Shutdown(t.Context()))
	}
}
