package porous

import (
	"context"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"volley/porous/internal/core"
	"volley/simnet"
)

// shutdown calls Shutdown in the background.
func shutdown(ctx context.Context, l *Listener) <-chan error {
	done := make(chan error, 1)
	go func() { done <- l.Shutdown(ctx) }()
	synctest.Wait()
	return done
}

// simAccept dials from an address and accepts.
func simAccept(t *testing.T, n *simnet.Network, l *Listener, from string) (c, s *Conn) {
	t.Helper()
	c = simDial(t, n, from, "10.0.0.1:7", nil)
	s, err := l.AcceptConn(context.Background())
	require.NoError(t, err)
	require.NoError(t, c.Flush(t.Context()))
	return c, s
}

// proveAddress does the part of a handshake that makes a connection, and no more.
func proveAddress(t *testing.T, x net.Conn) {
	t.Helper()
	x.Write(core.AppendConnect(nil, core.Connect{Channels: 1, ID: 7}))
	buf := make([]byte, 100)
	n, err := x.Read(buf)
	require.NoError(t, err)
	request, ok := core.ParseConnect(buf[:n])
	require.True(t, ok)
	x.Write(core.AppendConnectAck(nil, request.ID))
}

// TestShutdownWaits: Shutdown refuses who is new, ends what nobody has accepted
// and what is about to connect, and waits for the others, who can still speak.
func TestShutdownWaits(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := simnet.New(1)
		defer n.Close()
		n.SetDefault(simnet.Link{Latency: 10 * time.Millisecond})
		l := simListener(t, n, "10.0.0.1:7", &ListenConfig{})
		other := simListener(t, n, "10.0.0.4:7", &ListenConfig{})
		defer other.Close()
		a, sa := simAccept(t, n, l, "10.0.0.2:1")
		b, sb := simAccept(t, n, l, "10.0.0.2:2")
		dialed, err := l.Dial(t.Context(), "10.0.0.4:7")
		require.NoError(t, err)
		far, err := other.AcceptConn(context.Background())
		require.NoError(t, err)
		waiting := simDial(t, n, "10.0.0.2:3", "10.0.0.1:7", nil)
		require.NoError(t, waiting.Flush(t.Context()))
		time.Sleep(time.Second)
		young, err := n.Dial("10.0.0.2:5", "10.0.0.1:7")
		require.NoError(t, err)
		proveAddress(t, young)
		time.Sleep(time.Second)
		require.Equal(t, 5, l.Stats().Conns)

		first, second := shutdown(t.Context(), l), shutdown(t.Context(), l)
		_, err = l.Accept()
		require.ErrorIs(t, err, net.ErrClosed)
		_, err = waiting.Read(make([]byte, 9))
		require.Equal(t, io.EOF, err)
		require.Equal(t, 3, l.Stats().Conns)
		stranger := simDial(t, n, "10.0.0.2:4", "10.0.0.1:7", nil)
		a.Write([]byte("one last"))
		require.Equal(t, "one last", readString(t, sa))
		sa.Write([]byte("answer"))
		require.Equal(t, "answer", readString(t, a))
		dialed.Write([]byte("from the port"))
		require.Equal(t, "from the port", readString(t, far))
		time.Sleep(30 * time.Second)
		require.ErrorIs(t, stranger.Flush(t.Context()), ErrHandshakeTimeout)
		require.Empty(t, first)

		require.NoError(t, sa.Close())
		require.NoError(t, b.Close()) // the end of sb
		require.NoError(t, dialed.Close())
		require.NoError(t, <-first)
		require.NoError(t, <-second)
		require.Zero(t, l.Stats().Conns)
		_, err = sb.Read(make([]byte, 9))
		require.Equal(t, io.EOF, err)
		require.NoError(t, l.Shutdown(t.Context()))
		require.NoError(t, l.Close())
		abort(a, b, sb, far, waiting, stranger)
		young.Close()
	})
}

// TestShutdownEnds: when its context is over, Shutdown ends what is left, and
// the peers are told.
func TestShutdownEnds(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := simnet.New(1)
		defer n.Close()
		n.SetDefault(simnet.Link{Latency: 10 * time.Millisecond})
		l := simListener(t, n, "10.0.0.1:7", &ListenConfig{})
		a, sa := simAccept(t, n, l, "10.0.0.2:1")
		b, sb := simAccept(t, n, l, "10.0.0.2:2")
		read := make(chan error, 1)
		go func() {
			_, err := sb.Read(make([]byte, 9))
			read <- err
		}()
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		begin := time.Now()
		patient, done := shutdown(t.Context(), l), shutdown(ctx, l)
		a.Write([]byte("not read"))
		err := <-done
		require.Equal(t, 3*time.Second, time.Since(begin))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		var oe *net.OpError
		require.ErrorAs(t, err, &oe)
		require.Equal(t, "shutdown", oe.Op)
		require.NoError(t, <-patient, "nothing is left")
		require.ErrorIs(t, <-read, net.ErrClosed)
		_, err = sa.Write([]byte("x"))
		require.ErrorIs(t, err, net.ErrClosed)
		require.Zero(t, l.Stats().Conns)
		for _, c := range []*Conn{a, b} {
			_, err = c.Read(make([]byte, 9))
			require.Equal(t, io.EOF, err)
		}
		require.NoError(t, l.Shutdown(ctx), "over, but there is nothing to wait for")
		abort(a, b)
	})
}

// TestShutdownAtOnce: a context that is over already is no reason to leave a
// connection, and none for an error without one.
func TestShutdownAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := simnet.New(1)
		defer n.Close()
		l := simListener(t, n, "10.0.0.1:7", &ListenConfig{})
		c, s := simAccept(t, n, l, "10.0.0.2:1")
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.NoError(t, l.Close())
		require.ErrorIs(t, l.Shutdown(ctx), context.Canceled)
		_, err := s.Write([]byte("x"))
		require.ErrorIs(t, err, net.ErrClosed)
		synctest.Wait() // the reader has left the socket, and so it is closed
		require.NoError(t, l.Shutdown(ctx))
		abort(c)
	})
}
