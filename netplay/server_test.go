package netplay_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"volley/netplay"
)

// A pipeListener yields the ends of pipes, for virtual time.
type pipeListener struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newPipeListener() *pipeListener {
	return &pipeListener{conns: make(chan net.Conn), closed: make(chan struct{})}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error   { l.once.Do(func() { close(l.closed) }); return nil }
func (l *pipeListener) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "pipe"} }

// dial returns the other end of a connection of the listener.
func (l *pipeListener) dial(context.Context) (net.Conn, error) {
	x, y := net.Pipe()
	select {
	case l.conns <- x:
		return y, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// join returns a client's Conn.
func (l *pipeListener) join(t testing.TB) *netplay.Conn {
	t.Helper()
	nc, err := l.dial(t.Context())
	require.NoError(t, err)
	return newConn(t, nc, nil)
}

// serve has srv serve until the end of the test, and returns the listener.
func serve(t *testing.T, srv *netplay.Server) *pipeListener {
	ln := newPipeListener()
	served := make(chan error, 1)
	go func() { served <- srv.Serve(ln) }()
	t.Cleanup(func() {
		srv.Close()
		require.ErrorIs(t, <-served, netplay.ErrServerClosed)
	})
	return ln
}

func read(t testing.TB, c *netplay.Conn) any {
	t.Helper()
	m, err := c.ReadMessage(context.Background())
	require.NoError(t, err)
	return m
}

func TestServerBroadcast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := &netplay.Server{Registry: newRegistry()}
		netplay.Handle(srv, func(c *netplay.Conn, m *chat) error {
			if m.Text == "others" {
				return srv.Broadcast(m, c)
			}
			return srv.Broadcast(m)
		})
		ln := serve(t, srv)
		a, b := ln.join(t), ln.join(t)
		synctest.Wait()
		require.Len(t, srv.Conns(), 2)
		require.NoError(t, a.WriteMessage(context.Background(), &chat{"a", "all"}))
		require.Equal(t, &chat{"a", "all"}, read(t, a))
		require.Equal(t, &chat{"a", "all"}, read(t, b))
		require.NoError(t, a.WriteMessage(context.Background(), &chat{"a", "others"}))
		require.Equal(t, &chat{"a", "others"}, read(t, b))
		require.NoError(t, srv.Multicast(&chat{"s", "one"}, srv.Conns()[:1]...))
		require.NoError(t, srv.Broadcast(&chat{"s", "both"}))
		got := []any{read(t, a), read(t, b)}
		require.Contains(t, got, &chat{"s", "one"})
		require.Contains(t, got, &chat{"s", "both"}, "a did not get its own message")

		var te *netplay.ValueError
		require.ErrorAs(t, srv.Broadcast(&struct{}{}), &te)
	})
}

// TestServerProblems checks what becomes of messages that cannot be read, have
// no handler, or whose handler fails.
func TestServerProblems(t *testing.T) {
	for _, custom := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			ended := make(chan error, 1)
			srv := &netplay.Server{
				Registry:     newRegistry(),
				OnDisconnect: func(_ *netplay.Conn, err error) { ended <- err },
			}
			if custom {
				srv.OnError = func(_ *netplay.Conn, err error) error { // the other way round
					if me := (*netplay.MessageError)(nil); errors.As(err, &me) {
						return err
					}
					return nil
				}
			}
			failure := errors.New("failure")
			netplay.Handle(srv, func(c *netplay.Conn, m *chat) error { return failure })
			ln := serve(t, srv)
			c := ln.join(t)
			require.NoError(t, c.WriteMessage(context.Background(), &empty{})) // no handler
			if custom {
				require.NoError(t, c.WriteMessage(context.Background(), &chat{}))
				c.NetConn().Write([]byte("\x00\x04\x00\x75\x30!"))
				require.ErrorIs(t, <-ended, netplay.ErrUnknownType)
			} else {
				c.NetConn().Write([]byte("\x00\x04\x00\x75\x30!"))
				require.NoError(t, c.WriteMessage(context.Background(), &chat{}))
				err := <-ended
				require.ErrorIs(t, err, failure)
				var he *netplay.HandlerError
				require.ErrorAs(t, err, &he)
			}
			st := srv.Stats()
			require.Equal(t, uint64(1), st.Unhandled)
			require.Equal(t, uint64(1), st.Malformed)
			require.Equal(t, uint64(1), st.Accepted)
			require.Zero(t, st.Conns)
		})
	}
}

// TestServerHandlerFailsWithMessageError checks that an error of a handler ends
// the connection also if it comes from a message that the handler has read.
func TestServerHandlerFailsWithMessageError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := make(chan error, 1)
		srv := &netplay.Server{
			Registry:     newRegistry(),
			OnDisconnect: func(_ *netplay.Conn, err error) { ended <- err },
		}
		netplay.Handle(srv, func(c *netplay.Conn, _ *chat) error {
			_, err := c.ReadMessage(context.Background())
			return err
		})
		c := serve(t, srv).join(t)
		require.NoError(t, c.WriteMessage(context.Background(), &chat{}))
		c.NetConn().Write([]byte("\x00\x04\x00\x75\x30!"))
		synctest.Wait()
		select {
		case err := <-ended:
			require.ErrorIs(t, err, netplay.ErrUnknownType)
			require.ErrorAs(t, err, new(*netplay.HandlerError))
		default:
			t.Error("the connection goes on")
		}
		require.Zero(t, srv.Stats().Malformed)
	})
}

func TestServerProtocolErrorEndsOneConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := make(chan error, 2)
		srv := &netplay.Server{Registry: newRegistry(), OnDisconnect: func(_ *netplay.Conn, err error) { ended <- err }}
		netplay.Handle(srv, func(c *netplay.Conn, m *chat) error { return c.WriteMessage(context.Background(), m) })
		ln := serve(t, srv)
		bad, good := ln.join(t), ln.join(t)
		bad.NetConn().Write([]byte{0, 2})
		var pe *netplay.ProtocolError
		require.ErrorAs(t, <-ended, &pe)
		_, err := bad.ReadMessage(context.Background())
		require.Equal(t, io.EOF, err)
		require.NoError(t, good.WriteMessage(context.Background(), &chat{"g", "x"}))
		require.Equal(t, &chat{"g", "x"}, read(t, good))
		good.Close()
		require.NoError(t, <-ended, "in order")
	})
}

func TestServerMaxConns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := &netplay.Server{Registry: newRegistry(), MaxConns: 2}
		ln := serve(t, srv)
		a, _ := ln.join(t), ln.join(t)
		refused := ln.join(t)
		_, err := refused.ReadMessage(context.Background())
		require.Equal(t, io.EOF, err)
		a.Close()
		synctest.Wait()
		ln.join(t)
		synctest.Wait()
		require.Equal(t, netplay.ServerStats{Conns: 2, Accepted: 4, Refused: 1}, srv.Stats())
	})
}

func TestServerTimeouts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := make(chan error, 1)
		srv := &netplay.Server{
			Registry:     newRegistry(),
			IdleTimeout:  time.Minute,
			WriteTimeout: 5 * time.Second,
			OnDisconnect: func(_ *netplay.Conn, err error) { ended <- err },
		}
		netplay.Handle(srv, func(c *netplay.Conn, m *empty) error { return nil })
		ln := serve(t, srv)

		c := ln.join(t)
		time.Sleep(50 * time.Second)
		require.NoError(t, c.WriteMessage(context.Background(), &empty{}))
		start := time.Now()
		require.ErrorIs(t, <-ended, netplay.ErrIdleTimeout)
		require.Equal(t, time.Minute, time.Since(start))

		ln.join(t) // and reads nothing
		synctest.Wait()
		start = time.Now()
		require.NoError(t, srv.Broadcast(&empty{}))
		require.ErrorIs(t, <-ended, netplay.ErrWriteTimeout)
		require.Equal(t, 5*time.Second, time.Since(start))
		require.Equal(t, uint64(1), srv.Stats().Slow)
	})
}

// TestServerSlowReaders checks both policies: the queue never exceeds its
// bound, and who reads is not disturbed.
func TestServerSlowReaders(t *testing.T) {
	const limit, size = 100 << 10, 10 << 10
	for _, drop := range []bool{false, true} {
		t.Run(fmt.Sprint("drop ", drop), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ended := make(chan error, 2)
				srv := &netplay.Server{
					Registry:     newRegistry(),
					SendBuffer:   limit,
					DropSlow:     drop,
					WriteTimeout: time.Hour,
					OnDisconnect: func(_ *netplay.Conn, err error) { ended <- err },
				}
				ln := serve(t, srv)
				slow := ln.join(t)
				synctest.Wait()
				server := srv.Conns()[0]
				var reader sync.WaitGroup
				defer reader.Wait()
				fast := ln.join(t)
				count := 0
				reader.Go(func() {
					for {
						if _, err := fast.ReadMessage(context.Background()); err != nil {
							return
						}
						count++
					}
				})
				synctest.Wait()
				const messages = 40
				for range messages {
					require.NoError(t, srv.Broadcast(&blob{make([]byte, size)}))
					require.LessOrEqual(t, server.Stats().QueuedBytes, limit)
					synctest.Wait()
				}
				require.Equal(t, messages, count)
				if !drop {
					require.ErrorIs(t, <-ended, netplay.ErrSlowReader)
					require.Len(t, server.Unsent(), limit/(size+minWaiting))
					require.ErrorIs(t, server.WriteMessage(context.Background(), &empty{}), netplay.ErrSlowReader)
				} else {
					kept := limit / (size + minWaiting)
					require.Equal(t, uint64(messages-kept), server.Stats().Dropped)
					require.NoError(t, server.WriteMessage(context.Background(), &empty{}), "something small may still fit")
					require.ErrorIs(t, server.WriteMessage(context.Background(), &blob{make([]byte, size)}), netplay.ErrSlowReader)
					for range kept {
						require.IsType(t, &blob{}, read(t, slow))
					}
					require.Equal(t, &empty{}, read(t, slow))
				}
				fast.Close()
			})
		})
	}
}

// minWaiting is what a waiting blob counts beside its data.
const minWaiting = 7 + 64

func TestServerKick(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := make(chan error, 1)
		srv := &netplay.Server{Registry: newRegistry(), OnDisconnect: func(_ *netplay.Conn, err error) { ended <- err }}
		netplay.Handle(srv, func(c *netplay.Conn, m *chat) error {
			c.WriteMessage(context.Background(), &chat{"s", "first"})
			return srv.Kick(c, &chat{"s", "bye"})
		})
		netplay.Handle(srv, func(c *netplay.Conn, m *empty) error {
			t.Error("a message after Kick was handled")
			return nil
		})
		ln := serve(t, srv)
		c := ln.join(t)
		require.NoError(t, c.WriteMessage(context.Background(), &chat{}))
		synctest.Wait()
		require.Empty(t, srv.Conns())
		require.Equal(t, &chat{"s", "first"}, read(t, c))
		require.Equal(t, &chat{"s", "bye"}, read(t, c))
		_, err := c.ReadMessage(context.Background())
		require.Equal(t, io.EOF, err)
		require.ErrorIs(t, <-ended, netplay.ErrKicked)
		require.NoError(t, srv.Kick(c, nil), "not the server's any more")
	})
}

// TestServerKickSlow checks that who does not read is gone all the same.
func TestServerKickSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := make(chan error, 1)
		unsent := 0
		srv := &netplay.Server{Registry: newRegistry(), WriteTimeout: 3 * time.Second, OnDisconnect: func(c *netplay.Conn, err error) {
			unsent = len(c.Unsent())
			ended <- err
		}}
		ln := serve(t, srv)
		ln.join(t)
		synctest.Wait()
		start := time.Now()
		require.NoError(t, srv.Kick(srv.Conns()[0], &chat{"s", "bye"}))
		require.Error(t, <-ended)
		require.Equal(t, 1, unsent)
		require.Equal(t, 3*time.Second, time.Since(start))
	})
}

func TestServerContexts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type key struct{}
		srv := &netplay.Server{
			Registry:    newRegistry(),
			BaseContext: func(net.Listener) context.Context { return context.WithValue(t.Context(), key{}, "value") },
			OnConnect:   func(c *netplay.Conn) error { return c.WriteMessage(context.Background(), &chat{"s", "welcome"}) },
		}
		ln := serve(t, srv)
		c := ln.join(t)
		require.Equal(t, &chat{"s", "welcome"}, read(t, c))
		synctest.Wait()
		conn := srv.Conns()[0]
		require.Equal(t, "value", conn.Context().Value(key{}))
		c.Close()
		<-conn.Context().Done()
	})
}

func TestServerConfig(t *testing.T) {
	handled := &netplay.Server{Registry: newRegistry()}
	netplay.Handle(handled, func(*netplay.Conn, *struct{ X int32 }) error { return nil })
	for _, srv := range []*netplay.Server{
		{},
		{Registry: newRegistry(), Config: &netplay.Config{MaxDepth: -1}},
		{Registry: newRegistry(), SendBuffer: 1},
		{Registry: newRegistry(), BaseContext: func(net.Listener) context.Context { return nil }},
		handled,
	} {
		ln := newPipeListener()
		require.ErrorAs(t, srv.Serve(ln), new(*netplay.ConfigError))
		_, err := ln.Accept()
		require.ErrorIs(t, err, net.ErrClosed)
	}
}

// A failingListener fails to accept, first in a way that passes.
type failingListener struct {
	*pipeListener
	errs []error
}

func (l *failingListener) Accept() (net.Conn, error) {
	if len(l.errs) == 0 {
		return l.pipeListener.Accept()
	}
	err := l.errs[0]
	l.errs = l.errs[1:]
	return nil, err
}

type passingError struct{}

func (passingError) Error() string   { return "too many open files" }
func (passingError) Timeout() bool   { return false }
func (passingError) Temporary() bool { return true }

func TestServerAcceptErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		final := errors.New("broken")
		ln := &failingListener{newPipeListener(), []error{passingError{}, passingError{}, passingError{}, final}}
		srv := &netplay.Server{Registry: newRegistry()}
		start := time.Now()
		require.Equal(t, final, srv.Serve(ln))
		require.Equal(t, 35*time.Millisecond, time.Since(start))
	})
}
