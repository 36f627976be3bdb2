package outbox

import (
	"errors"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"volley/internal/wire"
)

// There is one token for all who wait, so whoever takes it and does not need it, or
// leaves room behind, passes it on.

// The end reaches everybody, those too who wait without a deadline, and the other
// side's writer among them.
func TestEndReachesAllWaiters(t *testing.T) {
	for _, cloggedFirst := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			c := newConn(false)
			c.Lock()
			c.busy = true // somebody transmits, and does not get on
			for range answerRoom + 1 {
				c.Frame(c.Now(), nil, c.Batch(c.Now()))
			}
			c.Answered()
			c.Unlock()
			var wg sync.WaitGroup
			defer wg.Wait() // in vain, if somebody is forgotten
			if cloggedFirst {
				wg.Go(func() {
					if err := c.WaitUnclogged(nil); err != net.ErrClosed {
						t.Errorf("WaitUnclogged: %v, want net.ErrClosed", err)
					}
				})
				synctest.Wait()
			}
			for range 3 {
				wg.Go(func() {
					c.Lock()
					defer c.Unlock()
					if err := c.AcquireUnlocking(c.Patience()); err != net.ErrClosed {
						t.Errorf("AcquireUnlocking: %v, want net.ErrClosed", err)
					}
				})
			}
			synctest.Wait()
			c.end(net.ErrClosed)
		})
	}
}

// Writes that wait for a full queue go on as soon as somebody has taken it to send
// it, all that find room, and not only when it has left.
func TestRoomWhileTransmitting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newConn(false)
		c.link.delay = func() time.Duration { return time.Second }
		var wg sync.WaitGroup
		start := time.Now()
		write := func(want time.Duration) {
			wg.Go(func() {
				_, err := c.write([]byte("x"))
				if took := time.Since(start); err != nil || took != want {
					t.Errorf("Write: %v after %v, want it after %v", err, took, want)
				}
			})
			synctest.Wait()
		}
		go c.write([]byte("x")) // in the socket for a second, and then with the queue again
		synctest.Wait()
		for range maxDatagrams {
			write(0)
		}
		c.Lock()
		full := c.Full()
		c.Unlock()
		require.True(t, full)
		for range 3 {
			write(time.Second)
		}
		wg.Wait()
		time.Sleep(3 * time.Second)
		c.wantInOrder(t, 1+maxDatagrams+3)
	})
}

// While the end drains, nobody else transmits beside it.
func TestDrainIsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newConn(false)
		c.link.delay = func() time.Duration { return linger / 2 }
		frame := func() { c.Frame(c.Now(), nil, c.Batch(c.Now())) }
		go func() {
			c.Lock()
			defer c.Unlock()
			c.End(net.ErrClosed)
			c.DrainUnlocking(frame)
		}()
		time.Sleep(linger / 4)
		c.Lock()
		frame() // what a timer has to say
		c.PumpUnlocking(nil)
		c.Unlock()
		time.Sleep(linger)
		c.wantInOrder(t, 2)
	})
}

// A Write after a pause leaves in the caller, though there was a flood before.
func TestWriteBehindFlood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newConn(false)
		for range 2 * floodMax {
			c.write([]byte("x"))
		}
		synctest.Wait()
		require.True(t, c.flood.There())
		require.Nil(t, c.pending)
		time.Sleep(time.Second)
		c.write([]byte("x"))
		require.Len(t, c.link.sent, 2*floodMax+1)
	})
}

// Who sends a batch of its own waits until what was pending has left, and also what
// others have added meanwhile: the order is that of framing.
func TestClearTakesLatecomers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newConn(false)
		c.link.delay = func() time.Duration { return time.Second }
		go func() {
			time.Sleep(time.Second / 2)
			c.answer()
		}()
		c.Lock()
		acquired := c.AcquireUnlocking(c.Patience())
		c.Frame(c.Now(), nil, c.Batch(c.Now()))
		cleared := c.ClearUnlocking(c.Patience())
		left := c.pending
		out := new(wire.Batch)
		c.Frame(c.Now(), nil, out)
		_, err := c.TransmitUnlocking(out, c.Patience())
		c.ReleaseUnlocking(c.Patience())
		c.Unlock()
		require.NoError(t, errors.Join(acquired, cleared, err))
		require.Nil(t, left)
		c.wantInOrder(t, 3)
	})
}

// Nothing is written to a connection that never has room again, or has ended while a
// Write waited for room: the Write learns why, and the next one has its turn.
func TestWaitForRoomFails(t *testing.T) {
	wedged := errors.New("wedged")
	for _, test := range []struct{ wedged, end, want error }{
		{wedged, nil, wedged}, {nil, net.ErrClosed, net.ErrClosed}, {wedged, net.ErrClosed, net.ErrClosed}, {nil, nil, nil},
	} {
		synctest.Test(t, func(t *testing.T) {
			c := newConn(true)
			c.link.room, c.link.wedged = make(chan struct{}), test.wedged
			wrote := make(chan error, 1)
			go func() {
				_, err := c.write([]byte("x"))
				wrote <- err
			}()
			synctest.Wait()
			if test.end != nil {
				c.end(test.end)
			}
			close(c.link.room)
			require.Equal(t, test.want, <-wrote)
			if test.want != nil {
				require.Empty(t, c.link.sent)
			}
			require.Len(t, c.extra.turn, 1)
		})
	}
}
