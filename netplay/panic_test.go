package netplay_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"runtime"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"volley/netplay"
)

// A function of the application that panics ends its connection; the panic is
// logged with its stack, and the server lives.
func TestServerPanics(t *testing.T) {
	errBoom := errors.New("boom")
	for name, test := range map[string]struct {
		arm     func(*netplay.Server, func())
		handler bool
	}{
		"handler": {func(s *netplay.Server, f func()) {
			netplay.Handle(s, func(*netplay.Conn, *chat) error { f(); return nil })
		}, true},
		"OnConnect":    {func(s *netplay.Server, f func()) { s.OnConnect = func(*netplay.Conn) error { f(); return nil } }, false},
		"OnError":      {func(s *netplay.Server, f func()) { s.OnError = func(*netplay.Conn, error) error { f(); return nil } }, false},
		"OnDisconnect": {func(s *netplay.Server, f func()) { s.OnDisconnect = func(*netplay.Conn, error) { f() } }, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log bytes.Buffer
				armed := true
				ended := make(chan error, 10)
				srv := &netplay.Server{Registry: newRegistry(), Logger: slog.New(slog.NewTextHandler(&log, nil))}
				netplay.Handle(srv, func(c *netplay.Conn, m *chat) error {
					if m.Text == "fail" {
						return errors.New("a handler's error")
					}
					return c.WriteMessage(context.Background(), m)
				})
				srv.OnDisconnect = func(_ *netplay.Conn, err error) { ended <- err }
				test.arm(srv, func() {
					if armed {
						armed = false
						panic(errBoom)
					}
				})
				ln := serve(t, srv)
				c := ln.join(t)
				c.WriteMessage(context.Background(), &chat{"a", "fail"})
				if name == "OnDisconnect" {
					c.Close()
				}
				_, err := c.ReadMessage(context.Background())
				require.Error(t, err)
				synctest.Wait()
				require.Contains(t, log.String(), "a function of the application panicked")
				require.Contains(t, log.String(), "panic=boom")
				require.Contains(t, log.String(), "panic_test.go", "the stack")
				if name != "OnDisconnect" {
					err := <-ended
					require.ErrorIs(t, err, errBoom)
					require.ErrorContains(t, err, "panic: boom")
					var he *netplay.HandlerError
					require.Equal(t, test.handler, errors.As(err, &he))
				}
				require.Zero(t, srv.Stats().Conns)

				other := ln.join(t)
				go other.WriteMessage(context.Background(), &chat{"b", "hi"})
				if name == "handler" {
					netplay.Handle(srv, func(c *netplay.Conn, m *chat) error { return c.WriteMessage(context.Background(), m) })
				}
				require.Equal(t, &chat{"b", "hi"}, read(t, other))
				other.Close()
			})
		})
	}
}

// It is the same with a client, which goes on with its next connection, and the panic
// is logged also where there is no Logger.
func TestClientPanics(t *testing.T) {
	for _, silent := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) { testClientPanics(t, silent) })
	}
}

func testClientPanics(t *testing.T, silent bool) {
	var log, standard bytes.Buffer
	defer slog.SetDefault(slog.Default())
	slog.SetDefault(slog.New(slog.NewTextHandler(&standard, nil)))
	ln := newPipeListener()
	defer ln.Close()
	var ends []error
	cl := &netplay.Client{Registry: newRegistry(), Dial: ln.dial, Reconnect: true}
	logged := &standard
	if !silent {
		cl.Logger, logged = slog.New(slog.NewTextHandler(&log, nil)), &log
	}
	cl.OnDisconnect = func(_ *netplay.Conn, err error) {
		ends = append(ends, err)
		panic("in OnDisconnect")
	}
	netplay.Handle(cl, func(c *netplay.Conn, m *chat) error {
		var none []int
		return errors.New(m.Text[none[0]:])
	})
	result := run(t.Context(), cl)
	first := newConn(t, accept(t, ln), nil)
	require.NoError(t, first.WriteMessage(context.Background(), &chat{"a", "b"}))
	_, err := first.ReadMessage(context.Background())
	require.ErrorIs(t, err, io.EOF)
	second := newConn(t, accept(t, ln), nil)
	defer second.Close()
	require.ErrorAs(t, ends[0], new(*netplay.HandlerError))
	require.ErrorAs(t, ends[0], new(runtime.Error))
	require.Contains(t, logged.String(), "panic=\"runtime error: index out of range")
	require.Contains(t, logged.String(), "panic=\"in OnDisconnect\"")
	require.NoError(t, cl.Close())
	require.ErrorIs(t, <-result, netplay.ErrClientClosed)
}
