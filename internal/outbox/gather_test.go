package outbox

import (
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"volley/internal/datagram"
	"volley/internal/deadline"
	"volley/internal/wire"
)

// gathers calls Gather with the lock held.
func (c *conn) gathers(msg string, out *wire.Batch) (uint64, Gathered, error) {
	c.Lock()
	defer c.Unlock()
	return c.Gather(c, c.Now(), []byte(msg), out)
}

func (c *conn) sent(unsent *wire.Batch, err error, d *deadline.Deadline) {
	c.Lock()
	defer c.Unlock()
	c.SentUnlocking(unsent, err, d)
}

// While a message of Gather is on its way, what else is framed waits behind it.
func TestGather(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newConn(false)
		out := new(wire.Batch)
		id, how, err := c.gathers("x", out)
		require.Equal(t, []any{uint64(0), Framed, error(nil)}, []any{id, how, err})
		require.Equal(t, 1, out.Len())

		_, err = c.write([]byte("y"))
		require.NoError(t, err)
		require.True(t, c.answer())
		id, how, err = c.gathers("z", out)
		require.Equal(t, []any{uint64(3), Queued, error(nil)}, []any{id, how, err})
		require.Equal(t, 1, out.Len())
		require.Empty(t, c.link.sent)
		c.sent(out, nil, c.Patience()) // there was no room
		c.wantInOrder(t, 4)
		require.False(t, c.busy || c.taken)

		// Gather waits for nothing.
		out.Reset()
		_, how, _ = c.gathers("x", out)
		require.Equal(t, Framed, how)
		for range maxDatagrams {
			_, how, _ = c.gathers("x", out)
			require.Equal(t, Queued, how)
		}
		n := c.next
		_, how, err = c.gathers("x", out)
		require.NoError(t, err)
		require.Equal(t, Blocked, how)
		require.Equal(t, n, c.next)
		c.sent(out, nil, c.Patience())
		c.wantInOrder(t, int(n))

		_, how, err = c.gathers("", out)
		require.NoError(t, err)
		require.Equal(t, Refused, how)
		require.False(t, c.busy)
	})
}

func TestGatherOverLosslessLink(t *testing.T) {
	c := newConn(true)
	_, how, err := c.gathers("x", new(wire.Batch))
	require.NoError(t, err)
	require.Equal(t, Blocked, how)
	require.Zero(t, c.next)
}

// What cannot be framed makes nobody busy.
func TestGatherErrors(t *testing.T) {
	c := newConn(false)
	out := new(wire.Batch)
	refused := func(want error, msg string) {
		t.Helper()
		_, how, err := c.gathers(msg, out)
		require.ErrorIs(t, err, want)
		require.Equal(t, Refused, how)
		require.Zero(t, out.Len())
		require.Nil(t, c.pending)
	}
	refused(errLarge, string(make([]byte, 1201)))
	c.no = errors.New("no memory")
	refused(c.no, "x")
	require.False(t, c.busy)
	c.busy = true
	refused(c.no, "x")
	c.busy, c.no = false, nil
	c.SetDeadline(time.Now().Add(-time.Second))
	refused(os.ErrDeadlineExceeded, "x")
	c.SetDeadline(time.Time{})

	broken := errors.New("broken")
	_, how, _ := c.gathers("x", out)
	require.Equal(t, Framed, how)
	c.sent(nil, broken, c.Patience())
	require.Equal(t, broken, c.TakeFailure())
	require.NoError(t, c.TakeFailure())
	out.Reset()
	_, how, _ = c.gathers("x", out)
	require.Equal(t, Framed, how)
	c.sent(nil, broken, c.Patience())
	_, err := c.write([]byte("x"))
	require.Equal(t, broken, err)

	out.Reset()
	c.end(io.EOF)
	refused(datagram.ErrPeerClosed, "x")
	c.end(net.ErrClosed)
	refused(net.ErrClosed, "x")
}

// What has found no room leaves when there is some, before what came later, on
// a goroutine if the caller does not wait that long; at the end it is given
// time.
func TestGatherWithoutRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newConn(false)
		c.link.room = make(chan struct{})
		out := new(wire.Batch)
		_, how, _ := c.gathers("x", out)
		require.Equal(t, Framed, how)
		require.True(t, c.answer())
		require.False(t, c.taken)
		c.sent(out, nil, deadline.Passed())
		synctest.Wait()
		require.Empty(t, c.link.sent)
		require.True(t, c.taken)
		go func() {
			time.Sleep(linger / 2)
			close(c.link.room)
		}()
		c.Lock()
		c.End(net.ErrClosed)
		require.True(t, c.DrainUnlocking(func() {}))
		c.Unlock()
		c.wantInOrder(t, 2)
	})
}

// Begin is Gather without the framing.
func TestBegin(t *testing.T) {
	c := newConn(false)
	require.Equal(t, Framed, c.Begin())
	require.True(t, c.busy)
	require.Equal(t, Queued, c.Begin())
	for range maxDatagrams {
		c.Frame(0, nil, c.Batch(0))
	}
	require.Equal(t, Blocked, c.Begin())
	c.sent(nil, nil, c.Patience())
	require.False(t, c.busy)
	require.Equal(t, maxDatagrams, len(c.link.sent))
}
