package listen

import (
	"context"
	"errors"
	"net"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"volley/internal/datagram"
)

// A line is a net.Listener that accepts what is sent to it.
type line struct {
	conns  chan net.Conn
	closed chan struct{}
}

func (l *line) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		if c == nil {
			return nil, errors.New("a passing one")
		}
		return c, nil
	case <-l.closed:
		return nil, errors.New("the line is closed")
	}
}

func (l *line) Close() error   { close(l.closed); return errors.New("closed badly") }
func (l *line) Addr() net.Addr { return &net.UDPAddr{Port: 7} }

// newOver returns an Over of the connections themselves.
func newOver(l net.Listener) *Over[net.Conn] {
	return NewOver(l, func(c net.Conn) (net.Conn, error) { return c, nil }, net.Conn.Close)
}

// What the other listener accepts when nobody waits any more is for the next call, and
// no goroutines gather.
func TestOverAccept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &line{make(chan net.Conn), make(chan struct{})}
		o := newOver(l)
		require.Equal(t, l.Addr(), o.Addr())
		for range 10 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			_, err := o.accept(ctx)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.ErrorAs(t, err, new(*net.OpError))
			cancel()
		}
		require.Equal(t, 1, o.running)
		x, y := net.Pipe()
		defer y.Close()
		l.conns <- x // nobody waits
		c, err := o.accept(t.Context())
		require.NoError(t, err)
		require.Same(t, x, c)
		require.Zero(t, o.running)

		got := make(chan net.Conn)
		for range 3 {
			go func() {
				c, _ := o.accept(t.Context())
				got <- c
			}()
		}
		synctest.Wait()
		require.Equal(t, 3, o.running)
		for range 2 {
			l.conns <- x
			require.Same(t, x, <-got)
		}
		for range 2 {
			require.EqualError(t, o.Close(), "closed badly")
		}
		require.Nil(t, <-got)
		_, err = o.accept(t.Context())
		require.ErrorIs(t, err, net.ErrClosed)
		require.False(t, o.Add(x))
	})
}

// What is accepted while the Over is closed is closed, too.
func TestOverCloseWithAResult(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &line{make(chan net.Conn), make(chan struct{})}
		o := newOver(l)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := o.accept(ctx)
		require.ErrorIs(t, err, context.Canceled)
		x, y := net.Pipe()
		l.conns <- x
		synctest.Wait()
		o.Close()
		_, err = y.Read(make([]byte, 1))
		require.Error(t, err)
	})
}

// Shutdown waits for the connections, and ends those that are left.
func TestOverShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &line{make(chan net.Conn), make(chan struct{})}
		o := newOver(l)
		a, b := net.Pipe()
		require.True(t, o.Add(a))
		require.True(t, o.Add(b))
		require.Equal(t, 2, o.Conns())
		require.ElementsMatch(t, []net.Conn{a, b}, slices.Collect(o.Each()))
		for range o.Each() {
			break
		}
		for c := range o.Each() { // the other one ends before its turn
			o.Gone(a)
			o.Gone(b)
			require.NoError(t, c.Close())
			o.Add(a)
		}
		require.Equal(t, 1, o.Conns())

		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		var ended []net.Conn
		o.end = func(c net.Conn) error { ended = append(ended, c); return nil }
		require.ErrorIs(t, o.Shutdown(ctx), context.DeadlineExceeded)
		require.Equal(t, []net.Conn{a}, ended)
		time.AfterFunc(time.Second, func() { o.Gone(a) })
		require.EqualError(t, o.Shutdown(t.Context()), "closed badly")
	})
}

// Divert takes what nobody has accepted, and goes on after errors until Close.
func TestOverDivert(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, idle := range []bool{false, true} {
			l := &line{make(chan net.Conn), make(chan struct{})}
			o := newOver(l)
			x, y := net.Pipe()
			defer y.Close()
			if !idle {
				ctx, cancel := context.WithCancel(t.Context())
				cancel()
				o.accept(ctx)
				l.conns <- x
				synctest.Wait()
			}
			why := errors.New("why")
			var got []net.Conn
			require.True(t, o.Divert(why, func(c net.Conn) { got = append(got, c) }))
			require.False(t, o.Divert(why, nil))
			if idle {
				l.conns <- x
			}
			l.conns <- x
			synctest.Wait()
			require.Equal(t, []net.Conn{x, x}, got)
			_, err := o.accept(t.Context())
			require.ErrorIs(t, err, why)
			require.False(t, o.Over())
			l.conns <- nil // an error
			time.Sleep(time.Minute)
			l.conns <- x
			synctest.Wait()
			require.Len(t, got, 3)
			select {
			case <-o.Done():
				t.Error("done")
			default:
			}
			o.Close()
			<-o.Done()
			require.True(t, o.Over())
			require.Nil(t, o.Muxes())
			require.False(t, o.Divert(why, nil))
			synctest.Wait()
		}
	})
}

// A listener of ours is asked, and no goroutine accepts.
func TestOverSource(t *testing.T) {
	RegisterSource(func(l *sourceLine) Source[*net.UnixConn] { return l })
	l := new(sourceLine)
	o := newOver(l)
	_, err := o.accept(t.Context())
	require.EqualError(t, err, "asked")
	require.Zero(t, o.running)
	var got net.Conn
	require.True(t, o.Divert(nil, func(c net.Conn) { got = c }))
	require.Equal(t, net.Conn(&l.conn), got)
	require.True(t, o.Over())
	require.Len(t, o.Muxes(), 1)
	require.Nil(t, o.Done())
	require.Nil(t, SourceOf(struct{ *sourceLine }{l}), "its changes would be passed over")
}

type sourceLine struct {
	line
	conn net.UnixConn
}

func (l *sourceLine) AcceptConn(context.Context) (*net.UnixConn, error) {
	return nil, errors.New("asked")
}
func (l *sourceLine) Divert(_ error, take func(*net.UnixConn)) bool { take(&l.conn); return true }
func (l *sourceLine) Done() <-chan struct{}                         { return nil }
func (l *sourceLine) Muxes() []*datagram.Mux                        { return []*datagram.Mux{nil} }
func (l *sourceLine) Over() bool                                    { return true }
