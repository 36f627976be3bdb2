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

// TestServerShutdown checks that what was accepted arrives, that handlers are
// waited for, and that what could not be handed over is named.
func TestServerShutdown(t *testing.T) {
	for _, reads := range []bool{true, false} {
		t.Run(fmt.Sprint(reads), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := &netplay.Server{Registry: newRegistry()}
				netplay.Handle(srv, func(c *netplay.Conn, m *empty) error {
					time.Sleep(time.Second) // in virtual time
					for i := range 3 {
						if err := c.WriteMessage(context.Background(), &chat{"s", fmt.Sprint(i)}); err != nil {
							t.Error(err)
						}
					}
					return nil
				})
				ln := newPipeListener()
				served := make(chan error, 1)
				go func() { served <- srv.Serve(ln) }()
				c := ln.join(t)
				require.NoError(t, c.WriteMessage(context.Background(), &empty{}))
				synctest.Wait()

				result := make(chan error)
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				go func() { result <- srv.Shutdown(ctx) }()
				require.ErrorIs(t, <-served, netplay.ErrServerClosed)
				if reads {
					for i := range 3 {
						require.Equal(t, &chat{"s", fmt.Sprint(i)}, read(t, c))
					}
					_, err := c.ReadMessage(context.Background())
					require.Equal(t, io.EOF, err)
					require.NoError(t, <-result)
				} else {
					// The first message, and not all of the second.
					_, err := io.ReadFull(c.NetConn(), make([]byte, 11+5))
					require.NoError(t, err)
					err = <-result
					var ue *netplay.UnsentError
					require.ErrorAs(t, err, &ue)
					require.Len(t, ue.Unsent, 1)
					require.Len(t, ue.Unsent[0].Frames, 2)
					codec, err := netplay.NewCodec(newRegistry(), nil)
					require.NoError(t, err)
					m, err := codec.Decode(ue.Unsent[0].Frames[1])
					require.NoError(t, err)
					require.Equal(t, &chat{"s", "2"}, m)
				}
				require.ErrorIs(t, srv.Serve(newPipeListener()), netplay.ErrServerClosed)
				require.NoError(t, srv.Shutdown(t.Context()))
				synctest.Wait()
			})
		})
	}
}

// TestServerShutdownStuckHandler checks that a handler which does not return
// does not hold Shutdown beyond its context.
func TestServerShutdownStuckHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := &netplay.Server{Registry: newRegistry()}
		stuck := make(chan struct{})
		netplay.Handle(srv, func(c *netplay.Conn, m *empty) error { <-stuck; return nil })
		ln := serve(t, srv)
		c := ln.join(t)
		require.NoError(t, c.WriteMessage(context.Background(), &empty{}))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		require.ErrorIs(t, srv.Shutdown(ctx), context.DeadlineExceeded)
		_, err := c.ReadMessage(context.Background())
		require.Equal(t, io.EOF, err)
		close(stuck)
	})
}

// A halfPipe is a net.Pipe of which one direction can be closed, as of TCP.
type halfPipe struct {
	net.Conn // for reading
	w        net.Conn
}

func newHalfPipe() (a, b *halfPipe) {
	x, y := net.Pipe()
	u, v := net.Pipe()
	return &halfPipe{x, u}, &halfPipe{v, y}
}

func (p *halfPipe) Write(b []byte) (int, error)        { return p.w.Write(b) }
func (p *halfPipe) SetWriteDeadline(t time.Time) error { return p.w.SetWriteDeadline(t) }
func (p *halfPipe) CloseWrite() error                  { return p.w.Close() }
func (p *halfPipe) Close() error                       { return errors.Join(p.Conn.Close(), p.w.Close()) }

// TestServerHalfClose checks that a client which has sent all it has to say
// still gets the answers, and that it is not waited for longer than for others.
func TestServerHalfClose(t *testing.T) {
	for _, reads := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			ended := make(chan error, 1)
			srv := &netplay.Server{
				Registry:     newRegistry(),
				WriteTimeout: 3 * time.Second,
				OnDisconnect: func(_ *netplay.Conn, err error) { ended <- err },
			}
			netplay.Handle(srv, func(c *netplay.Conn, m *chat) error { return c.WriteMessage(context.Background(), m) })
			ln := serve(t, srv)
			x, y := newHalfPipe()
			ln.conns <- x
			c := newConn(t, y, nil)
			require.NoError(t, c.WriteBatch(context.Background(), &chat{"a", "1"}, &chat{"a", "2"}, &chat{"a", "3"}))
			require.NoError(t, y.CloseWrite())
			synctest.Wait()
			start := time.Now()
			if !reads {
				require.ErrorIs(t, <-ended, netplay.ErrWriteTimeout)
				require.Equal(t, 3*time.Second, time.Since(start))
				return
			}
			for _, text := range []string{"1", "2", "3"} {
				require.Equal(t, &chat{"a", text}, read(t, c))
			}
			_, err := c.ReadMessage(context.Background())
			require.Equal(t, io.EOF, err)
			require.NoError(t, <-ended)
			require.Zero(t, time.Since(start))
		})
	}
}

// TestServerLingers checks that a client has a second to read its farewell, in
// which what it sends is swallowed, and not longer.
func TestServerLingers(t *testing.T) {
	for _, closes := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			ended := make(chan error, 1)
			srv := &netplay.Server{Registry: newRegistry(), OnDisconnect: func(_ *netplay.Conn, err error) { ended <- err }}
			netplay.Handle(srv, func(c *netplay.Conn, m *chat) error { return srv.Kick(c, m) })
			ln := serve(t, srv)
			x, y := newHalfPipe()
			ln.conns <- x
			c := newConn(t, y, nil)
			require.NoError(t, c.WriteMessage(context.Background(), &chat{"s", "bye"}))
			require.Equal(t, &chat{"s", "bye"}, read(t, c))
			start := time.Now()
			time.Sleep(600 * time.Millisecond)
			require.NoError(t, c.WriteMessage(context.Background(), &blob{make([]byte, 3000)}), "still taken")
			_, err := c.ReadMessage(context.Background())
			require.Equal(t, io.EOF, err)
			want := time.Second
			if closes {
				want = time.Since(start)
				c.Close()
			}
			require.ErrorIs(t, <-ended, netplay.ErrKicked)
			require.Equal(t, want, time.Since(start))
		})
	}
}

func TestServerShutdownDuringLogin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := make(chan error, 1)
		srv := &netplay.Server{
			Registry: newRegistry(),
			OnConnect: func(c *netplay.Conn) error {
				if err := c.WriteMessage(context.Background(), &chat{"s", "who are you?"}); err != nil {
					return err
				}
				_, err := c.ReadMessage(context.Background())
				return err
			},
			OnDisconnect: func(_ *netplay.Conn, err error) { ended <- err },
		}
		ln := serve(t, srv)
		c := ln.join(t)
		synctest.Wait()
		result := make(chan error)
		go func() { result <- srv.Shutdown(t.Context()) }()
		synctest.Wait()
		require.Equal(t, &chat{"s", "who are you?"}, read(t, c))
		require.NoError(t, <-result)
		require.ErrorIs(t, <-ended, netplay.ErrServerClosed)
	})
}

// A Listener that is nil is an error, and not a panic.
func TestServeNothing(t *testing.T) {
	srv := &netplay.Server{Registry: newRegistry()}
	require.ErrorAs(t, srv.Serve(nil), new(*netplay.ConfigError))
}
