package netconn

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"volley/internal/datagram"
	"volley/internal/deadline"
	"volley/internal/inbox"
	"volley/internal/outbox"
	"volley/internal/wire"
)

// An owner is a connection over one end of a pipe.
type owner struct {
	sync.Mutex
	Side
	out outbox.Outbox
	dc  datagram.Conn
}

func (o *owner) Arrange(b *wire.Batch) *wire.Batch { return b }
func (o *owner) receive(msgs ...string) {
	o.In.Lock()
	defer o.In.Unlock()
	for _, m := range msgs {
		o.In.Push([]byte(m))
	}
}

type addr string

func (addr) Network() string  { return "test" }
func (a addr) String() string { return string(a) }

func newOwner() *owner {
	dc, _ := datagram.NewPipe(addr("here"), addr("there"))
	o := &owner{dc: dc}
	o.Init(dc, 1<<20, nil)
	o.out.Init(&o.Mutex, o.dc, o, false)
	return o
}

func TestRead(t *testing.T) {
	o := newOwner()
	o.receive("one", "two", "three")
	buf := make([]byte, 3)
	n, err := o.Read(nil)
	require.NoError(t, err)
	require.Zero(t, n, "an empty buffer reads nothing")
	n, err = o.Read(buf)
	require.NoError(t, err)
	require.Equal(t, "one", string(buf[:n]))
	p, _, err := o.ReadMessage(t.Context(), []byte("and "))
	require.NoError(t, err)
	require.Equal(t, "and two", string(p))
	n, err = o.Read(buf)
	require.Equal(t, io.ErrShortBuffer, err)
	require.Equal(t, "thr", string(buf[:n]))
	require.EqualValues(t, 1, o.Truncated())
	o.In.Notice()
	_, err = o.Read(buf)
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
}

// A message that fills the buffer is whole, and one in an Inbox with numbers comes
// with its own.
func TestReadExactAndNumbered(t *testing.T) {
	o := newOwner()
	o.receive("four")
	n, err := o.Read(make([]byte, 4))
	require.NoError(t, err)
	require.Equal(t, 4, n)
	require.Zero(t, o.Truncated())
	o.receive("a", "b")
	n, err = o.Read(make([]byte, 1)) // the smallest there is
	require.NoError(t, err)
	require.Equal(t, 1, n)
	p, _, err := o.ReadMessage(t.Context(), nil)
	require.NoError(t, err)
	require.Equal(t, "b", string(p))

	o = newOwner()
	o.In.Numbered()
	o.In.Lock()
	o.In.PushNumbered([]byte("msg"), 7)
	o.In.Unlock()
	p, number, err := o.ReadMessage(context.Background(), []byte("a "))
	require.NoError(t, err)
	require.Equal(t, "a msg", string(p))
	require.EqualValues(t, 7, number)
	o.In.Notice()
	_, _, err = o.ReadMessage(context.Background(), nil)
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
	o.In.Notice()
	_, _, err = o.ReadMessage(context.Background(), nil)
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
	o.In.End(io.EOF)
	_, err = o.Read(make([]byte, 1))
	require.Equal(t, io.EOF, err)
}

// An inlineConn is a connection below whose users read the socket, in which there
// is one message.
type inlineConn struct {
	datagram.Conn
	o           *owner
	reads, told int
}

func (c *inlineConn) Features() datagram.Features      { return datagram.Features{Inline: c} }
func (c *inlineConn) InterruptInline(datagram.Readers) { c.told++ }
func (c *inlineConn) ReadInline(*deadline.Deadline, datagram.Readers) bool {
	c.reads++
	c.o.receive("from the socket")
	return true
}

// Where the connection below has its users read, Read does so when nothing waits,
// and whoever reads learns of a new deadline. The limit and the memory asked for are
// those of Init.
func TestInit(t *testing.T) {
	o := new(owner)
	c := &inlineConn{o: o}
	asked := 0
	o.Init(c, 100, func(n int) bool { asked += n; return true })
	o.out.Init(&o.Mutex, o.dc, o, false)
	p, _, err := o.ReadMessage(t.Context(), nil)
	require.NoError(t, err)
	require.Equal(t, "from the socket", string(p))
	require.Equal(t, 1, c.reads)
	require.Zero(t, asked, "all is given back")
	require.NoError(t, o.SetDeadlineLocked(&o.out, time.Time{}, true, false))
	require.Equal(t, 1, c.told)
	require.NoError(t, o.SetDeadlineLocked(&o.out, time.Time{}, false, true))
	require.Equal(t, 1, c.told, "the deadline was that of Write")
	require.True(t, o.In.HasRoom(100-inbox.MessageOverhead))
	require.False(t, o.In.HasRoom(101-inbox.MessageOverhead))
	o.receive("x")
	require.NotZero(t, asked)
}

// A new deadline is for a Read, too, that waits already.
func TestDeadlineOfBlockedRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOwner()
		got := make(chan error, 1)
		go func() {
			_, err := o.Read(make([]byte, 1))
			got <- err
		}()
		synctest.Wait()
		require.NoError(t, o.SetDeadlineLocked(&o.out, time.Now().Add(time.Second), true, false))
		begin := time.Now()
		require.ErrorIs(t, <-got, os.ErrDeadlineExceeded)
		require.Equal(t, time.Second, time.Since(begin))
	})
}

func TestDeadline(t *testing.T) {
	o := newOwner()
	past := time.Unix(1, 0)
	require.NoError(t, o.SetDeadlineLocked(&o.out, past, true, false))
	_, err := o.Read(make([]byte, 1))
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	require.NoError(t, o.out.Check(), "the deadline was that of Read")
	require.NoError(t, o.SetDeadlineLocked(&o.out, past, false, true))
	require.ErrorIs(t, o.out.Check(), os.ErrDeadlineExceeded)
}

// Of an end and Close, the first says what later calls tell, but for io.EOF;
// deadlines may be set as long as there may be something to read.
func TestEnds(t *testing.T) {
	broken := errors.New("broken")
	set := func(o *owner) error { return o.SetDeadlineLocked(&o.out, time.Time{}, true, true) }

	o := newOwner()
	require.True(t, o.EndLocked(&o.out, broken))
	require.False(t, o.EndLocked(&o.out, io.EOF), "it has ended before")
	require.NoError(t, set(o), "messages may be left to read")
	require.False(t, o.CloseLocked(&o.out), "it has ended before")
	require.Equal(t, broken, set(o))
	require.Equal(t, broken, o.out.Check())

	o = newOwner()
	require.True(t, o.EndLocked(&o.out, io.EOF))
	require.ErrorIs(t, o.out.Check(), io.ErrClosedPipe, "closed by the peer")
	require.False(t, o.CloseLocked(&o.out))
	require.Equal(t, net.ErrClosed, set(o))

	o = newOwner()
	require.True(t, o.CloseLocked(&o.out))
	require.False(t, o.EndLocked(&o.out, broken))
	require.Equal(t, net.ErrClosed, set(o))
	require.Equal(t, net.ErrClosed, o.out.Check())

	o = newOwner()
	require.True(t, o.EndLocked(&o.out, broken))
	require.True(t, o.out.EndedBelow())
	o.CloseLocked(&o.out)
	require.False(t, o.out.EndedBelow(), "nothing is to be read after Close")
}

func TestOpError(t *testing.T) {
	here, there := addr("here"), addr("there")
	require.NoError(t, OpError("read", here, there, nil))
	require.Equal(t, io.EOF, OpError("read", here, there, io.EOF))
	err := OpError("read", here, there, net.ErrClosed)
	require.EqualError(t, err, "read test here->there: use of closed network connection")
	require.Same(t, err, OpError("write", here, there, err), "wrapped once")
}

// ReadMessage ends with its context or the connection's deadline, whichever comes
// first, and takes part in later changes of the deadline.
func TestReadMessageContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOwner()
		cause := errors.New("cause")
		ctx, cancel := context.WithCancelCause(t.Context())
		read := func(want error, during func()) {
			t.Helper()
			done := make(chan error)
			go func() {
				_, _, err := o.ReadMessage(ctx, nil)
				done <- err
			}()
			synctest.Wait()
			during()
			require.ErrorIs(t, <-done, want)
		}
		read(nil, func() { o.receive("late") })
		o.receive("there")
		read(nil, func() {})
		o.deadline.Set(time.Now().Add(time.Hour))
		read(os.ErrDeadlineExceeded, func() { o.deadline.Set(time.Now().Add(time.Second)) })
		o.deadline.Set(time.Time{})
		read(cause, func() { cancel(cause) })
		o.receive("kept")
		read(cause, func() {})
		p, _, err := o.ReadMessage(context.Background(), nil)
		require.NoError(t, err)
		require.Equal(t, "kept", string(p))
	})
}

// One reader's context does not end another reader's wait.
func TestReadMessageContexts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOwner()
		got := make(chan string)
		read := func(ctx context.Context) {
			p, _, err := o.ReadMessage(ctx, nil)
			if err != nil {
				p = []byte(err.Error())
			}
			got <- string(p)
		}
		ctx, cancel := context.WithCancel(t.Context())
		go read(context.Background())
		go read(ctx)
		go read(t.Context())
		synctest.Wait()
		cancel()
		require.Equal(t, context.Canceled.Error(), <-got)
		o.receive("a")
		require.Equal(t, "a", <-got)
		o.receive("b")
		require.Equal(t, "b", <-got)
	})
}
