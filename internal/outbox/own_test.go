package outbox

import (
	"errors"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"volley/internal/deadline"
	"volley/internal/wire"
)

// acquire is AcquireUnlocking with the lock held.
func (c *conn) acquire(d *deadline.Deadline) error {
	c.Lock()
	defer c.Unlock()
	return c.AcquireUnlocking(d)
}

func (c *conn) release(d *deadline.Deadline) {
	c.Lock()
	defer c.Unlock()
	c.ReleaseUnlocking(d)
}

// Who wants to send a batch of its own is told at once why it cannot, also when
// nobody is busy, and waits for who is no longer than until its deadline.
func TestAcquire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newConn(false)
		require.Equal(t, os.ErrDeadlineExceeded, c.acquire(deadline.Passed()))
		require.False(t, c.Busy())
		require.NoError(t, c.acquire(c.Patience()))
		require.True(t, c.Busy())
		var d deadline.Deadline
		d.Set(time.Now().Add(time.Second))
		begin := time.Now()
		require.Equal(t, os.ErrDeadlineExceeded, c.acquire(&d))
		require.Equal(t, time.Second, time.Since(begin))
		require.True(t, c.Busy(), "the first one still is")
		d.Set(time.Now().Add(time.Second))
		go func() {
			time.Sleep(time.Second / 2)
			c.release(c.Patience())
		}()
		require.NoError(t, c.acquire(&d))
		require.Equal(t, 1500*time.Millisecond, time.Since(begin))
		c.release(c.Patience())
		c.end(net.ErrClosed)
		require.Equal(t, net.ErrClosed, c.acquire(c.Patience()))
		require.False(t, c.Busy())
	})
}

// own does what a sender of its own batch does, and returns the errors of its steps.
func (c *conn) own(d *deadline.Deadline) (n int, cleared, sent error) {
	c.Lock()
	defer c.Unlock()
	if err := c.AcquireUnlocking(d); err != nil {
		return 0, err, nil
	}
	defer c.ReleaseUnlocking(d)
	if cleared = c.ClearUnlocking(d); cleared != nil {
		return 0, cleared, nil
	}
	out := new(wire.Batch)
	for range 2 {
		c.Frame(0, nil, out)
	}
	n, sent = c.TransmitUnlocking(out, d)
	return n, nil, sent
}

// Without room a sender of its own batch is told so at its deadline, and of the end if
// that comes first. What has left has left, though the end came meanwhile.
func TestOwnBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, pending := range []bool{true, false} {
			for _, ends := range []bool{false, true} {
				c := newConn(false)
				c.still()
				c.link.room = make(chan struct{})
				if pending {
					c.fill(1)
				}
				var d deadline.Deadline
				d.Set(time.Now().Add(time.Second))
				want := os.ErrDeadlineExceeded
				begin := time.Now()
				if ends {
					want = net.ErrClosed
					go func() {
						time.Sleep(time.Second / 2)
						c.end(net.ErrClosed)
						d.Expire() // as the deadline of Writes is
					}()
				}
				n, cleared, sent := c.own(&d)
				require.Zero(t, n)
				require.Equal(t, want, errors.Join(cleared, sent).(interface{ Unwrap() []error }).Unwrap()[0])
				require.Equal(t, pending, cleared != nil)
				require.Equal(t, map[bool]time.Duration{true: time.Second / 2, false: time.Second}[ends], time.Since(begin))
				require.Equal(t, pending, c.Pending())
				require.False(t, c.Busy())
			}
		}
		c := newConn(false)
		c.link.delay = func() time.Duration {
			c.end(net.ErrClosed)
			return 0
		}
		n, cleared, sent := c.own(c.Patience())
		require.NoError(t, errors.Join(cleared, sent))
		require.Equal(t, 2, n)

		c = newConn(false)
		c.fill(1)
		c.link.delay = func() time.Duration {
			c.end(net.ErrClosed)
			return 0
		}
		_, cleared, _ = c.own(c.Patience())
		require.Equal(t, net.ErrClosed, cleared, "the end came while what was pending left")
		c.wantInOrder(t, 1)

		c = newConn(false)
		broken := errors.New("broken")
		c.link.broken = broken
		n, cleared, sent = c.own(c.Patience())
		require.NoError(t, cleared)
		require.Equal(t, broken, sent)
		require.Equal(t, 2, n)
	})
}

// messages returns n messages of a byte.
func messages(n int) [][]byte {
	list := make([][]byte, n)
	for i := range list {
		list[i] = []byte("x")
	}
	return list
}

// WriteBatch sends portions of 128, rests behind each full one, and goes on with the
// time of then; it has left when it returns.
func TestWriteBatchPortions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newConn(false)
		f := &tracer{conn: c}
		c.link.delay = func() time.Duration { return time.Second }
		c.Lock()
		defer c.Unlock()
		n, err := c.WriteBatchUnlocking(f, c.born, nil, append(messages(300), nil, nil))
		require.NoError(t, err)
		require.Equal(t, 302, n)
		require.Equal(t, []int{128, 128, 44}, c.link.sizes)
		require.Equal(t, []time.Duration{0, time.Second}, f.rests)
		for i, now := range f.times {
			require.Equal(t, time.Duration(i/128)*time.Second, now, "message %d", i)
		}
		require.False(t, c.Busy() || c.Pending())

		n, err = c.WriteBatchUnlocking(f, c.born, nil, nil)
		require.NoError(t, err)
		require.Zero(t, n)
		n, err = c.WriteBatchUnlocking(f, c.born, nil, [][]byte{nil})
		require.NoError(t, err)
		require.Equal(t, 1, n, "an empty message counts")
		require.Len(t, c.link.sizes, 3)
	})
}

// A batch that cannot go on says how many messages it is done with, and these leave.
func TestWriteBatchStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, lossless := range []bool{false, true} {
			c := newConn(lossless)
			n, err := c.writeBatch([]byte("1"), nil, []byte("2"), make([]byte, 1201), []byte("3"))
			require.Equal(t, errLarge, err)
			require.Equal(t, 3, n)
			c.wantInOrder(t, 2)

			c.no = errors.New("no memory")
			n, err = c.writeBatch(nil, []byte("1"), []byte("2"))
			require.Equal(t, c.no, err)
			require.Equal(t, 1, n)
			c.wantInOrder(t, 2)
			require.False(t, c.Busy() || c.Pending())
			c.no = nil

			c.SetDeadline(time.Unix(1, 0))
			n, err = c.writeBatch([]byte("1"))
			require.Equal(t, os.ErrDeadlineExceeded, err)
			require.Zero(t, n)
			c.SetDeadline(time.Time{})
			n, err = c.writeBatch([]byte("1"))
			require.NoError(t, err)
			require.Equal(t, 1, n)
			c.wantInOrder(t, 3)
		}

		// Without room it gives up at the deadline; what it is done with leaves later.
		c := newConn(false)
		c.link.room = make(chan struct{})
		c.SetDeadline(time.Now().Add(time.Second))
		begin := time.Now()
		n, err := c.writeBatch(messages(300)...)
		require.Equal(t, os.ErrDeadlineExceeded, err)
		require.Equal(t, 128, n)
		require.Equal(t, time.Second, time.Since(begin))
		synctest.Wait()
		close(c.link.room)
		synctest.Wait()
		c.wantInOrder(t, 128)

		// What met an error that ends the connection counts from the portion on in
		// which it was.
		c = newConn(false)
		broken := errors.New("broken")
		calls := 0
		c.link.delay = func() time.Duration {
			if calls++; calls == 3 {
				c.link.broken = broken
			}
			return 0
		}
		n, err = c.writeBatch(messages(300)...)
		require.Equal(t, broken, err)
		require.Equal(t, 256, n)
		c.link.broken = nil
		n, err = c.writeBatch(messages(3)...)
		require.NoError(t, err)
		require.Equal(t, 3, n)
	})
}

// A Write that waits for room of a lossless link learns why it cannot be, rather than
// that its deadline has passed; whoever comes next finds the turn free.
func TestWaitForRoomEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newConn(true)
		c.link.room = make(chan struct{})
		results := make(chan error, 2)
		write := func() {
			go func() {
				_, err := c.write([]byte("x"))
				results <- err
			}()
			synctest.Wait()
		}
		c.SetDeadline(time.Now().Add(time.Second))
		write() // has the turn
		write() // waits for it
		begin := time.Now()
		require.Equal(t, os.ErrDeadlineExceeded, <-results)
		require.Equal(t, os.ErrDeadlineExceeded, <-results)
		require.Equal(t, time.Second, time.Since(begin))
		c.SetDeadline(time.Time{})
		write()
		require.Empty(t, results)
		close(c.link.room)
		require.NoError(t, <-results)
		c.wantInOrder(t, 1)

		c.link.room = make(chan struct{})
		write()
		write()
		c.end(net.ErrClosed)
		require.Equal(t, net.ErrClosed, <-results)
		require.Equal(t, net.ErrClosed, <-results)
		c.wantInOrder(t, 1)
	})
}

// With room, a Write to a lossless link still waits until nobody else is busy, and
// until what was pending has left, which is before it.
func TestWaitingWriteIsInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newConn(true)
		require.NoError(t, c.acquire(c.Patience()))
		result := make(chan error, 1)
		write := func() {
			go func() {
				_, err := c.write([]byte("x"))
				result <- err
			}()
			synctest.Wait()
		}
		write()
		require.Empty(t, result)
		c.fill(3)
		c.release(c.Patience())
		require.NoError(t, <-result)
		c.wantInOrder(t, 4)

		c.still()
		c.fill(2)
		write()
		require.NoError(t, <-result)
		c.wantInOrder(t, 7)

		// It meets the deadline, or the end, in these waits, too.
		require.NoError(t, c.acquire(c.Patience()))
		c.SetDeadline(time.Now().Add(time.Second))
		write()
		require.Equal(t, os.ErrDeadlineExceeded, <-result)
		require.True(t, c.Busy(), "who was is still")
		c.SetDeadline(time.Time{})
		c.release(c.Patience())
		c.no = errors.New("no memory")
		id, err := c.write([]byte("x"))
		require.Equal(t, c.no, err)
		require.Zero(t, id)
		require.False(t, c.Busy())
		c.no = nil
		id, err = c.write([]byte("x"))
		require.NoError(t, err)
		require.EqualValues(t, 7, id)
		c.wantInOrder(t, 8)

		// The end comes while what was pending leaves.
		c.fill(1)
		c.link.delay = func() time.Duration {
			c.end(net.ErrClosed)
			return 0
		}
		_, err = c.write([]byte("x"))
		require.Equal(t, net.ErrClosed, err)
		c.wantInOrder(t, 9)
		require.False(t, c.Busy())
	})
}
