package stacktest

import (
	"context"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"volley"
	"volley/simnet"
)

// TestShutdownUnderMessages: Shutdown of a server of sessions waits for the
// connections on top of them, and when its context is over they end with the
// sessions: what was received can be read, and nobody waits for ever.
func TestShutdownUnderMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSessions(t, simnet.Link{Latency: 10 * time.Millisecond})
		defer s.net.Close()
		l := newListener(s.inner, nil)
		var near, far []*volley.Conn
		for range 3 {
			near = append(near, newConn(s.dial(t), nil))
			c, err := l.Accept()
			require.NoError(t, err)
			far = append(far, c.(*volley.Conn))
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		done, read := make(chan error, 1), make(chan error, 1)
		go func() { done <- s.inner.Shutdown(ctx) }()
		go func() {
			_, err := far[2].ReadMessage(context.Background(), nil)
			read <- err
		}()
		far[0].Close()
		near[1].Write([]byte("not read yet"))
		time.Sleep(9 * time.Second)
		require.Empty(t, done)
		require.ErrorIs(t, <-done, context.DeadlineExceeded)
		require.ErrorIs(t, <-read, net.ErrClosed)
		m, err := far[1].ReadMessage(context.Background(), nil)
		require.NoError(t, err)
		require.Equal(t, "not read yet", string(m))
		_, err = far[1].ReadMessage(context.Background(), nil)
		require.ErrorIs(t, err, net.ErrClosed)
		_, err = far[1].Write([]byte("x"))
		require.ErrorIs(t, err, net.ErrClosed)
		require.Zero(t, s.inner.Stats().Conns)
		for _, c := range near {
			_, err := c.ReadMessage(context.Background(), nil)
			require.Equal(t, io.EOF, err, "the client has been told")
			c.Close()
		}
		far[1].Close()
		far[2].Close()
	})
}
