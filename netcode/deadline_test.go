package netcode

import (
	"context"
	"io"
	"net"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"volley/internal/datagram"
	"volley/internal/deadline"
	"volley/internal/wire"
	"volley/simnet"
)

// A fullConn is a transport whose send buffer has room for a few datagrams and
// then for none.
type fullConn struct {
	datagram.Conn
	mu   sync.Mutex
	room int
}

func (f *fullConn) Features() datagram.Features { return datagram.Features{} }

func (f *fullConn) WriteBatch(b *wire.Batch) error {
	_, err := f.WriteBatchBy(b, new(deadline.Deadline))
	return err
}

func (f *fullConn) WriteBatchBy(b *wire.Batch, d *deadline.Deadline) (int, error) {
	f.mu.Lock()
	n := min(f.room, b.Len())
	f.room -= n
	f.mu.Unlock()
	if n == b.Len() {
		return n, nil
	}
	passed := d.Arm()
	defer d.Disarm()
	<-passed
	return n, os.ErrDeadlineExceeded
}

func startFull(t *testing.T, room int) *Conn {
	t.Helper()
	x, y := datagram.NewPipe(pipeAddr("client"), pipeAddr("server"))
	up, down := GenerateKey(), GenerateKey()
	f := &fullConn{Conn: x, room: room}
	c := newPipeConn(f, &up, &down, y)
	other := newPipeConn(y, &down, &up, x)
	require.NoError(t, f.Attach((*handler)(c)))
	require.NoError(t, y.Attach((*handler)(other)))
	t.Cleanup(func() { other.Close() })
	return c
}

// A Write that finds the send buffer full returns at its deadline.
func TestWriteDeadlineOfFullSocket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startFull(t, 1)
		begin := time.Now()
		c.SetWriteDeadline(begin.Add(100 * time.Millisecond))
		_, err := c.Write([]byte("has room"))
		require.NoError(t, err)
		n, err := c.Write([]byte("has none"))
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
		require.Zero(t, n)
		require.Equal(t, 100*time.Millisecond, time.Since(begin))
		_, err = c.Write([]byte("is late"))
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
		c.Close()
	})
}

// WriteBatch tells how many payloads it is done with at its deadline.
func TestWriteBatchDeadlineOfFullSocket(t *testing.T) {
	for room, want := range []int{1, 3, 4, 5} {
		synctest.Test(t, func(t *testing.T) {
			c := startFull(t, room)
			c.SetWriteDeadline(time.Now().Add(time.Second))
			n, err := c.WriteBatch([][]byte{{}, {1}, {}, {2}, {3}})
			require.Equal(t, want, n, "room for %d", room)
			if room < 3 {
				require.ErrorIs(t, err, os.ErrDeadlineExceeded)
			} else {
				require.NoError(t, err)
			}
			c.Close()
		})
	}
}

// ReadMessage and AcceptConn end with their context.
func TestContexts(t *testing.T) {
	bubble(t, simnet.Link{}, func(t *testing.T, n *simnet.Network) {
		l := simListen(t, n, nil)
		client, server := simPair(t, n, l, 1)
		defer closeAll(client, server, l)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := server.ReadMessage(ctx, nil)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		_, err = l.AcceptConn(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		_, err = client.Write([]byte("x"))
		require.NoError(t, err)
		p, err := server.ReadMessage(t.Context(), []byte("a"))
		require.NoError(t, err)
		require.Equal(t, "ax", string(p))
	})
}

// Close waits for room a moment only, and ends a Write that does.
func TestCloseOfFullSocket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startFull(t, 0)
		result := make(chan error)
		go func() {
			_, err := c.Write([]byte("x"))
			result <- err
		}()
		synctest.Wait()
		begin := time.Now()
		require.NoError(t, c.Close())
		require.Equal(t, 100*time.Millisecond, time.Since(begin))
		require.ErrorIs(t, <-result, net.ErrClosed)
	})
}

// Close does not close the socket under an End that still tells the peer.
func TestCloseWaitsForEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startFull(t, 0)
		begin := time.Now()
		results, ended := make(chan error), make(chan time.Duration, 1)
		go func() {
			_, err := c.Write([]byte("x"))
			results <- err
		}()
		synctest.Wait()
		go func() {
			(*owned)(c).End(io.EOF, []byte("bye"))
			ended <- time.Since(begin)
		}()
		synctest.Wait()
		require.NoError(t, c.Close())
		require.Equal(t, linger, time.Since(begin))
		require.Error(t, <-results)
		require.Equal(t, linger, <-ended)
	})
}

// linger is how long the end of a session waits for room.
const linger = 100 * time.Millisecond

// pipeAddr is an address of no socket.
func pipeAddr(name string) net.Addr { return datagram.PipeAddr{Net: "netcode-pipe", Name: name} }
