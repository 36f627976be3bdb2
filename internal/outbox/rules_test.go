package outbox

import (
	"io"
	"net"
	"os"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"volley/internal/datagram"
	"volley/internal/deadline"
	"volley/internal/wire"
)

// A tracer is a Framer that notes the time it is told, and does something when it
// rests.
type tracer struct {
	*conn
	times []time.Duration // of Frame
	rest  func()          // may be nil
	rests []time.Duration // of RestUnlocking
}

func (f *tracer) Frame(now time.Duration, b []byte, out *wire.Batch) (uint64, error) {
	f.times = append(f.times, now)
	return f.conn.Frame(now, b, out)
}

func (f *tracer) RestUnlocking(now time.Duration) {
	f.rests = append(f.rests, now)
	if f.rest != nil {
		f.rest()
	}
}

// write is conn.write by this Framer.
func (f *tracer) write(b []byte) (uint64, error) {
	f.Lock()
	defer f.Unlock()
	return f.WriteUnlocking(f, f.born, b)
}

// locked calls f with the lock held.
func (c *conn) locked(f func()) {
	c.Lock()
	defer c.Unlock()
	f()
}

// fill frames n datagrams into what is pending.
func (c *conn) fill(n int) {
	c.locked(func() {
		for range n {
			c.Frame(0, nil, c.Batch(c.Now()))
		}
	})
}

// still makes the goroutine of the Outbox one that never gets to run, and returns how
// often it has been started.
func (c *conn) still() *atomic.Int32 {
	started := new(atomic.Int32)
	c.run = func() { started.Add(1) }
	return started
}

// flooded writes until there is a flood, all of which has left.
func (c *conn) flooded(t *testing.T) {
	t.Helper()
	for range floodMax {
		_, err := c.write([]byte("x"))
		require.NoError(t, err)
	}
	synctest.Wait()
	require.True(t, c.flood.There())
	require.False(t, c.Pending())
}

// What may be pending: 128 datagrams or 58 KiB of messages, 2176 datagrams of
// answers, and 64 of them until the other side of a lossless link waits.
func TestBounds(t *testing.T) {
	c := newConn(false)
	require.False(t, c.Full() || c.Crowded() || c.Pending() || c.Clogged())
	for n := 1; n <= 2177; n++ {
		c.Frame(0, nil, c.Batch(0))
		c.Answered()
		require.True(t, c.Pending())
		require.Equal(t, n >= 128, c.Full(), "%d datagrams", n)
		require.Equal(t, n >= 2176, c.Crowded(), "%d datagrams", n)
		require.Equal(t, n > 64, c.Clogged(), "%d datagrams", n)
	}
	c = newConn(false)
	c.Batch(0).Extend(58<<10 - 1)
	require.False(t, c.Full())
	c.Batch(0).Extend(1)
	require.True(t, c.Full())
	require.Equal(t, 2, c.Batch(0).Len())
}

// What an Outbox tells: who transmits, what waits and for how long, and why nothing
// can be written any more.
func TestTells(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		waiting := func(c *conn, want time.Duration, wantBusy bool) {
			t.Helper()
			c.locked(func() {
				pending, busy := c.Waiting(c.Now())
				require.Equal(t, want, pending)
				require.Equal(t, wantBusy, busy)
				require.Equal(t, want > 0, c.Pending())
			})
		}
		c := newConn(false)
		time.Sleep(time.Second)
		waiting(c, 0, false)
		c.fill(1)
		time.Sleep(time.Millisecond)
		c.fill(1) // the age is that of the first
		time.Sleep(time.Millisecond)
		waiting(c, 2*time.Millisecond, false)
		pending, _ := c.Waiting(0)
		require.Zero(t, pending, "before it came")
		require.Equal(t, Queued, c.Begin())
		require.False(t, c.Busy())
		c.locked(func() { c.PumpUnlocking(nil) })
		require.Equal(t, Framed, c.Begin())
		require.True(t, c.Busy())
		waiting(c, 0, true)
		c.sent(nil, nil, c.Patience())
		require.False(t, c.Busy())

		lossless := newConn(true)
		waiting(lossless, 0, false)
		lossless.link.room = make(chan struct{})
		go lossless.write([]byte("x"))
		synctest.Wait()
		waiting(lossless, 0, true)
		require.False(t, lossless.Busy(), "it waits, and transmits nothing")
		close(lossless.link.room)
		synctest.Wait()
		waiting(lossless, 0, false)

		require.NoError(t, c.Err())
		require.False(t, c.EndedBelow())
		c.EndBelow(io.EOF)
		require.Equal(t, io.EOF, c.Err())
		require.Equal(t, datagram.ErrPeerClosed, c.Outbox.Check())
		require.True(t, c.EndedBelow())
		c.Closed()
		require.False(t, c.EndedBelow())
		require.Equal(t, io.EOF, c.Err())
		c.SetDeadline(time.Time{})
		require.True(t, c.Deadline().Exceeded(), "a deadline that is set after the end counts for nothing")
	})
}

// A wake-up that comes when somebody is about to wait, and does not yet, is not lost.
func TestWakeUpBeforeWaiting(t *testing.T) {
	for _, waits := range []bool{false, true} {
		c := newConn(waits)
		c.Lock()
		require.NoError(t, c.AcquireUnlocking(c.Patience()))
		free := c.addWaiter()
		c.ReleaseUnlocking(c.Patience())
		require.Len(t, free, 1)
		c.waiters--
		require.NoError(t, c.AcquireUnlocking(c.Patience()))
		require.True(t, c.Busy())
		c.Unlock()
	}
}

// What comes while a pass over many connections sends leaves on a goroutine, and so
// does what found no room; where nothing is left, there is none.
func TestSentGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newConn(false)
		started := c.still()
		begin := func() { require.Equal(t, Framed, c.Begin()) }
		begin()
		c.sent(nil, nil, c.Patience())
		begin()
		c.fill(1)
		c.sent(nil, nil, c.Patience())
		synctest.Wait()
		require.Zero(t, started.Load(), "nothing is left")
		require.Len(t, c.link.sent, 1)

		begin()
		c.fill(1)
		c.link.delay = func() time.Duration {
			c.link.delay = nil
			c.fill(1)
			return 0
		}
		c.sent(nil, nil, c.Patience())
		synctest.Wait()
		require.EqualValues(t, 1, started.Load())
		require.Len(t, c.link.sent, 2)
		require.True(t, c.Pending())
		c.flush() // that goroutine
		require.Len(t, c.link.sent, 3)

		begin()
		c.fill(1)
		c.link.room = make(chan struct{})
		c.sent(nil, nil, deadline.Passed())
		synctest.Wait()
		require.EqualValues(t, 2, started.Load())
		require.True(t, c.Pending())
		close(c.link.room)
		c.flush()
		c.wantInOrder(t, 4)
	})
}

// Of several errors the first is told, and where there was none, none.
func TestFirstFailure(t *testing.T) {
	c := newConn(false)
	require.Equal(t, Framed, c.Begin())
	c.sent(nil, nil, c.Patience())
	c.SetDeadline(time.Unix(1, 0))
	require.Equal(t, os.ErrDeadlineExceeded, c.Outbox.Check(), "all has left")
	c.SetDeadline(time.Time{})
	for _, err := range []error{io.ErrUnexpectedEOF, io.ErrNoProgress} {
		require.Equal(t, Framed, c.Begin())
		c.sent(nil, err, c.Patience())
	}
	require.Equal(t, io.ErrUnexpectedEOF, c.TakeFailure())
	require.NoError(t, c.TakeFailure())

	for _, err := range []error{io.ErrUnexpectedEOF, io.ErrNoProgress} {
		c.link.broken = err
		require.True(t, c.answer())
	}
	require.Equal(t, io.ErrUnexpectedEOF, c.Outbox.Check())
	require.NoError(t, c.Outbox.Check())
}

// An error that concerns one datagram is nobody's.
func TestPassingErrors(t *testing.T) {
	c := newConn(false)
	c.link.broken = syscall.EMSGSIZE
	id, err := c.write([]byte("x"))
	require.NoError(t, err)
	require.Zero(t, id)
	require.True(t, c.answer())
	require.NoError(t, c.Outbox.Check())
	n, err := c.writeBatch([]byte("x"), []byte("y"))
	require.NoError(t, err)
	require.Equal(t, 2, n)
	require.NoError(t, c.TakeFailure())
	c.wantInOrder(t, 4)
}

// A Write that fails has no number, whatever the numbers of others are.
func TestNoNumberOfErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newConn(false)
		time.Sleep(time.Second)
		c.flooded(t)
		write := func(want error, msg []byte) {
			t.Helper()
			id, err := c.write(msg)
			require.Equal(t, want, err)
			require.Zero(t, id)
			id, how, err := c.gathers(string(msg), new(wire.Batch))
			require.Equal(t, want, err)
			require.Zero(t, id)
			require.Equal(t, Refused, how)
		}
		write(nil, nil)
		write(errLarge, make([]byte, 1201))
		c.no = errLarge
		write(c.no, []byte("x"))
		c.fill(1) // not the first of the queue
		write(c.no, []byte("x"))
		c.no = nil
		c.still()
		c.fill(maxDatagrams)
		c.link.room = make(chan struct{})
		c.SetDeadline(time.Now().Add(time.Second))
		id, err := c.write([]byte("x")) // empties the queue first, without success
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
		require.Zero(t, id)
		c.end(net.ErrClosed)
		write(net.ErrClosed, []byte("x"))
		c.locked(func() { require.False(t, c.Busy()) })
	})
}

// Writes less than 10 µs apart are a flood from the 17th on, whenever they come.
func TestFloodBegins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newConn(false)
		started := c.still()
		for round := range 3 {
			time.Sleep(time.Second)
			sent := len(c.link.sent)
			for i := range 40 {
				_, err := c.write([]byte("x"))
				require.NoError(t, err)
				require.Equal(t, min(i+1, 16), len(c.link.sent)-sent)
			}
			synctest.Wait()
			require.EqualValues(t, round+1, started.Load(), "one goroutine for what is queued")
			c.flush()
			c.wantInOrder(t, (round+1)*40)
		}
	})
	var f Flood
	f.Note(0)
	f.Note(time.Second)
	for range 15 {
		f.Note(0)
	}
	require.False(t, f.There(), "one close Write is forgotten by one at a distance")
}

// A Write of a flood that finds the queue older than 50 µs sends it itself, and
// nobody beside it.
func TestOldQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newConn(false)
		time.Sleep(time.Second)
		c.still()
		for range 40 {
			c.write([]byte("x"))
		}
		require.Len(t, c.link.sent, 16)
		four := func() { // of which one looks at the clock
			for range 4 {
				_, err := c.write([]byte("x"))
				require.NoError(t, err)
			}
		}
		time.Sleep(50 * time.Microsecond)
		four()
		require.Len(t, c.link.sent, 16)
		time.Sleep(time.Nanosecond)
		c.link.delay = func() time.Duration { return time.Second }
		go four()
		synctest.Wait()
		c.locked(func() { require.True(t, c.Busy()) })
		go c.write([]byte("x")) // joins what is pending
		time.Sleep(10 * time.Second)
		synctest.Wait()
		c.wantInOrder(t, 40+4+4+1)
	})
}

// A full queue is sent by the Write that finds it so, and nobody beside it. After a
// rest that Write goes on with the time of then, or not at all if the connection has
// ended.
func TestFullQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newConn(false)
		f := &tracer{conn: c}
		time.Sleep(time.Second)
		started := c.still()
		full := func() {
			c.fill(maxDatagrams)
			require.True(t, c.Full())
		}
		full()
		c.link.delay = func() time.Duration { return time.Second }
		f.rest = func() {
			require.False(t, c.Busy())
			c.Unlock()
			time.Sleep(time.Millisecond)
			c.Lock()
		}
		begin := c.Now()
		go func() {
			time.Sleep(time.Second / 2)
			c.write([]byte("joins")) // somebody transmits
		}()
		id, err := f.write([]byte("x"))
		require.NoError(t, err)
		require.EqualValues(t, maxDatagrams+1, id)
		require.Equal(t, []time.Duration{begin}, f.rests)
		require.Equal(t, 1, len(f.times))
		require.Equal(t, begin+2*time.Second+time.Millisecond, f.times[0], "the queue, then what has joined, and a rest")
		c.link.delay = nil
		synctest.Wait()
		require.EqualValues(t, 1, started.Load())
		c.flush()
		c.wantInOrder(t, maxDatagrams+2)

		time.Sleep(time.Second)
		full()
		next := c.next
		f.rest = func() { c.End(net.ErrClosed) }
		_, err = f.write([]byte("x"))
		require.Equal(t, net.ErrClosed, err)
		require.Equal(t, next, c.next, "nothing was framed")
	})
}

// What Writes are done with, behind answers too, is given 100 ms at the end; answers
// alone are given none.
func TestTaken(t *testing.T) {
	for name, test := range map[string]struct {
		frame func(t *testing.T, c *conn)
		want  time.Duration
	}{
		"answers": {func(_ *testing.T, c *conn) { c.fill(1) }, 0},
		"answers, and a Write that could not be framed": {func(t *testing.T, c *conn) {
			c.fill(1)
			c.no = errLarge
			_, err := c.write([]byte("x"))
			require.Equal(t, errLarge, err)
			c.no = nil
		}, 0},
		"a Write behind answers": {func(t *testing.T, c *conn) {
			c.fill(1)
			_, err := c.write([]byte("x"))
			require.NoError(t, err)
		}, 100 * time.Millisecond},
		"framed by the caller": {func(_ *testing.T, c *conn) {
			c.fill(1)
			c.locked(c.Take)
		}, 100 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newConn(false)
				time.Sleep(time.Second)
				c.still()
				c.link.room = make(chan struct{})
				c.SetDeadline(time.Now().Add(time.Millisecond))
				test.frame(t, c)
				c.link.delay = func() time.Duration { // while the end sends, more answers come than a link may have
					c.link.delay = nil
					c.fill(65)
					c.locked(c.Answered)
					return 0
				}
				c.Lock()
				defer c.Unlock()
				c.End(net.ErrClosed)
				begin := time.Now()
				require.True(t, c.DrainUnlocking(func() {}))
				require.Equal(t, test.want, time.Since(begin))
				require.False(t, c.Pending() || c.Clogged() || c.Busy())
			})
		})
	}
}

// The end waits 100 ms for who transmits, and not longer, however often that one
// goes on; then it says so, and frames nothing.
func TestDrainWaits(t *testing.T) {
	for _, test := range []struct {
		each    time.Duration // of two transmissions
		drained bool
		want    time.Duration
	}{
		{49 * time.Millisecond, true, 3 * 49 * time.Millisecond},
		{60 * time.Millisecond, false, 100 * time.Millisecond},
		{time.Second, false, 100 * time.Millisecond},
	} {
		synctest.Test(t, func(t *testing.T) {
			c := newConn(false)
			c.link.delay = func() time.Duration { return test.each }
			go c.write([]byte("x"))
			synctest.Wait()
			c.write([]byte("behind it"))
			c.Lock()
			begin := time.Now()
			c.End(net.ErrClosed)
			last := false
			require.Equal(t, test.drained, c.DrainUnlocking(func() {
				last = true
				require.True(t, c.Busy())
				c.Frame(0, nil, c.Batch(0))
			}))
			require.Equal(t, test.drained, last)
			require.Equal(t, test.want, time.Since(begin))
			require.Zero(t, c.waiters)
			c.Unlock()
			time.Sleep(10 * time.Second)
			n := 2
			if test.drained {
				n = 3
			}
			c.wantInOrder(t, n)
		})
	}
}

// Whoever gives up at the end drops what is pending, and does not ask a Refiller for
// more.
func TestGiveUpRefills(t *testing.T) {
	c := newRefilling()
	c.link.room = make(chan struct{})
	c.kept = 25
	c.Lock()
	defer c.Unlock()
	c.End(net.ErrClosed)
	require.True(t, c.DrainUnlocking(func() {}))
	require.Equal(t, 15, c.kept)
	require.False(t, c.Pending() || c.Busy())
	require.Empty(t, c.link.sent)
}

// PumpSoon sends on a goroutine, unless somebody is busy, who will.
func TestPumpSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newRefilling()
		c.kept = 1
		c.locked(func() {
			c.PumpSoon()
			require.False(t, c.Busy())
		})
		synctest.Wait()
		c.wantInOrder(t, 1)
		started := c.still()
		require.Equal(t, Framed, c.Begin())
		c.locked(c.PumpSoon)
		synctest.Wait()
		require.Zero(t, started.Load())
	})
}

// An arranging conn has the last datagram go first.
type arranging struct{ conn }

func (c *arranging) Arrange(b *wire.Batch) *wire.Batch {
	out := new(wire.Batch)
	for i := range b.Len() {
		out.Append(b.At(b.Len() - 1 - i))
	}
	return out
}

// What leaves is what the Owner has made of it, also what finds no room at first.
func TestArrange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &arranging{conn{link: &link{room: make(chan struct{})}}}
		c.Init(&c.Mutex, c.link, c, false)
		c.fill(3)
		c.locked(func() { c.SendFreshUnlocking(true) })
		require.True(t, c.Pending(), "somebody else is about to send that")
		c.locked(func() { c.SendFreshUnlocking(false) })
		synctest.Wait()
		close(c.link.room)
		synctest.Wait()
		require.Equal(t, []uint64{0, 1, 2}, c.link.sent, "arranged twice: once when there was no room, once when it left")
		c.fill(3)
		c.locked(func() { c.SendFreshUnlocking(false) })
		require.Equal(t, []uint64{5, 4, 3}, c.link.sent[3:])
	})
}
