package netconn

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"volley/internal/datagram"
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

func (o *owner) Conn() datagram.Conn               { return o.dc }
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
	o.out.Init(o, false)
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
	p, err := o.ReadAppend([]byte("and "))
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
}

func TestOpError(t *testing.T) {
	here, there := addr("here"), addr("there")
	require.NoError(t, OpError("read", here, there, nil))
	require.Equal(t, io.EOF, OpError("read", here, there, io.EOF))
	err := OpError("read", here, there, net.ErrClosed)
	require.EqualError(t, err, "read test here->there: use of closed network connection")
	require.Same(t, err, OpError("write", here, there, err), "wrapped once")
}
