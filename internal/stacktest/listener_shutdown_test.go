package stacktest

import (
	"context"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"
	"volley"

	"github.com/stretchr/testify/require"
)

// shutdown calls Shutdown in the background.
func shutdown(ctx context.Context, l *volley.Listener) <-chan error {
	done := make(chan error, 1)
	go func() { done <- l.Shutdown(ctx) }()
	synctest.Wait()
	return done
}

// TestShutdownWaits: Shutdown refuses who is new, closes what nobody has
// accepted, and waits for the others, who can still speak.
func TestShutdownWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, l, dial := network(t, &volley.ListenConfig{})
		a := dial("10.0.0.2:1", nil)
		sa := accept(t, l)
		b := dial("10.0.0.2:2", nil)
		sb := accept(t, l)
		waiting := dial("10.0.0.2:3", nil)
		time.Sleep(time.Second)
		l.SetDeadline(time.Time{})

		first, second := shutdown(t.Context(), l), shutdown(t.Context(), l)
		_, err := l.Accept()
		require.ErrorIs(t, err, net.ErrClosed)
		require.Equal(t, 2, l.Stats().Conns, "with the one that nobody has accepted")
		stranger := dial("10.0.0.2:4", nil)
		a.Write([]byte("one last"))
		wantMessage(t, sa, "one last")
		sa.Write([]byte("answer"))
		wantMessage(t, a, "answer")
		time.Sleep(time.Second)
		require.Equal(t, 2, l.Stats().Conns)
		require.Empty(t, first)

		sa.Close()
		a.Close()
		time.Sleep(time.Second)
		require.Empty(t, first)
		b.Close() // and tells sb
		require.NoError(t, <-first)
		require.NoError(t, <-second)
		require.Zero(t, l.Stats().Conns)
		_, err = sb.Read(make([]byte, 9))
		require.Equal(t, io.EOF, err)
		require.NoError(t, l.Shutdown(t.Context()))
		require.NoError(t, l.Close())
		waiting.Close()
		stranger.Close()
		sb.Close()
	})
}

// TestShutdownCloses: when its context is over, Shutdown closes what is left.
func TestShutdownCloses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, l, dial := network(t, &volley.ListenConfig{})
		a := dial("10.0.0.2:1", nil)
		sa := accept(t, l)
		b := dial("10.0.0.2:2", nil)
		sb := accept(t, l)
		read := make(chan error, 1)
		go func() {
			_, err := sb.Read(make([]byte, 9))
			read <- err
		}()
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		begin := time.Now()
		patient, done := shutdown(t.Context(), l), shutdown(ctx, l)
		sa.Write([]byte("accepted by Write"))
		err := <-done
		require.Equal(t, 3*time.Second+20*time.Millisecond, time.Since(begin), "until the goodbyes are heard")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		var oe *net.OpError
		require.ErrorAs(t, err, &oe)
		require.Equal(t, "shutdown", oe.Op)
		require.NoError(t, <-patient, "nothing is left")
		require.ErrorIs(t, <-read, net.ErrClosed)
		_, err = sa.Write([]byte("x"))
		require.ErrorIs(t, err, net.ErrClosed)
		require.Zero(t, l.Stats().Conns)
		wantMessage(t, a, "accepted by Write")
		a.Close()
		b.Close()
	})
}

// TestShutdownAtOnce: a context that is over already is no reason to leave a
// connection, and none for an error without one.
func TestShutdownAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, l, dial := network(t, &volley.ListenConfig{})
		c := dial("10.0.0.2:1", nil)
		s := accept(t, l)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.NoError(t, l.Close())
		require.ErrorIs(t, l.Shutdown(ctx), context.Canceled)
		_, err := s.Write([]byte("x"))
		require.ErrorIs(t, err, net.ErrClosed)
		synctest.Wait() // the reader has left the socket, and so it is closed
		require.NoError(t, l.Shutdown(ctx))
		c.Close()
	})
}
