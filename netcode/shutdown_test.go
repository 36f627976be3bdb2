package netcode

import (
	"context"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"volley/simnet"
)

// TestShutdownWaits: Shutdown lets nobody in, ends sessions that nobody has
// accepted, and waits for the others, which their clients may end.
func TestShutdownWaits(t *testing.T) {
	bubble(t, simnet.Link{}, func(t *testing.T, n *simnet.Network) {
		l := simListen(t, n, nil)
		a, sa := simPair(t, n, l, 1)
		b, sb := simPair(t, n, l, 2)
		waiting, err := simDial(t, n, simToken(t, 3))
		require.NoError(t, err)
		synctest.Wait()
		done := make(chan error, 1)
		go func() { done <- l.Shutdown(t.Context()) }()
		synctest.Wait()
		_, err = l.Accept()
		require.ErrorIs(t, err, net.ErrClosed)
		_, err = waiting.Read(make([]byte, 9))
		require.Equal(t, io.EOF, err)
		_, err = simDial(t, n, simToken(t, 4))
		require.Error(t, err, "a session while shutting down")
		a.Write([]byte("lives on"))
		wantRead(t, sa, "lives on")
		sa.Write([]byte("both ways"))
		wantRead(t, a, "both ways")
		sa.Close()
		synctest.Wait()
		require.Empty(t, done)
		require.Equal(t, 1, l.Stats().Conns)
		b.Close()
		require.NoError(t, <-done)
		require.Zero(t, l.Stats().Conns)
		closeAll(a, sb, waiting)
	})
}

// TestShutdownCloses: when its context is over, Shutdown ends what is left, and
// the clients are told.
func TestShutdownCloses(t *testing.T) {
	bubble(t, simnet.Link{}, func(t *testing.T, n *simnet.Network) {
		l := simListen(t, n, nil)
		a, sa := simPair(t, n, l, 1)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		begin := time.Now()
		err := l.Shutdown(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, time.Minute, time.Since(begin))
		require.Zero(t, l.Stats().Conns)
		_, err = a.Read(make([]byte, 9))
		require.Equal(t, io.EOF, err)
		_, err = sa.Read(make([]byte, 9))
		require.ErrorIs(t, err, net.ErrClosed)
		require.NoError(t, l.Shutdown(ctx))
		closeAll(a, sa)
	})
}
