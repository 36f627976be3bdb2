package datagram

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

const testLag = 5 * time.Millisecond

// With a lag, alarms wait for who reads, and go off by themselves when nobody
// does for so long.
func TestTimersLag(t *testing.T) {
	withClockwork(t, func(t *testing.T, c *clockwork, in func(int) time.Time) {
		c.lag = testLag
		for _, ms := range []int{10, 12, 14, 20, 40} {
			c.schedule(c.alarm("a", nil), in(ms))
		}
		time.Sleep(9 * time.Millisecond)
		c.poll(time.Now())
		c.want(t)
		time.Sleep(4 * time.Millisecond)
		c.poll(time.Now())
		c.want(t, "a13", "a13")
		time.Sleep(time.Second)
		c.want(t, "a13", "a13", "a19", "a25", "a45")
	})
}

// Without one nobody is waited for, nor does who reads have to do with it.
func TestTimersNoLag(t *testing.T) {
	withClockwork(t, func(t *testing.T, c *clockwork, in func(int) time.Time) {
		c.schedule(c.alarm("a", nil), in(10))
		c.poll(in(11))
		c.want(t)
		time.Sleep(time.Second)
		c.want(t, "a10")
	})
}

// While who reads comes often enough, the runtime timer never fires.
func TestTimersPolledOnly(t *testing.T) {
	withClockwork(t, func(t *testing.T, c *clockwork, in func(int) time.Time) {
		c.lag = testLag
		var ticks atomic.Int32
		for range 10 {
			c.schedule(newAlarm(func(now time.Time) time.Time {
				ticks.Add(1)
				return now.Add(3 * time.Millisecond)
			}), in(1))
		}
		for range 1000 {
			time.Sleep(time.Millisecond)
			c.timers.mu.Lock()
			armed, now := c.armed, time.Since(c.base)
			c.timers.mu.Unlock()
			require.NotZero(t, armed, "it has fired")
			require.Greater(t, armed, now)
			c.poll(time.Now())
		}
		require.InDelta(t, 10*1000/3, ticks.Load(), 30)
		time.Sleep(time.Second)
		require.InDelta(t, 10*1000/3+10*1000/(3+5), ticks.Load(), 60, "without a reader each goes on, later by the lag")
	})
}

// Packets do not wait for more than 64 alarms.
func TestTimersPollMost(t *testing.T) {
	withClockwork(t, func(t *testing.T, c *clockwork, in func(int) time.Time) {
		c.lag = testLag
		var ticks atomic.Int32
		for range 100 {
			c.schedule(newAlarm(func(time.Time) time.Time { ticks.Add(1); return time.Time{} }), in(1))
		}
		time.Sleep(2 * time.Millisecond)
		c.poll(time.Now())
		require.EqualValues(t, 64, ticks.Load())
		time.Sleep(testLag)
		synctest.Wait()
		require.EqualValues(t, 100, ticks.Load())
	})
}

// What looks like a standstill of the process is left to the runtime timer, which
// gives the packets that have come meanwhile the time to be read.
func TestTimersPollAfterStall(t *testing.T) {
	withClockwork(t, func(t *testing.T, c *clockwork, in func(int) time.Time) {
		c.lag = testLag
		c.schedule(c.alarm("a", nil), in(10))
		c.poll(in(10 + 200)) // the first packet after it
		c.want(t)
		c.stall()
		time.Sleep(20 * time.Millisecond)
		c.poll(time.Now())
		c.want(t)
		time.Sleep(time.Second)
		c.want(t, "a215")
	})
}

// A callback of the application that panics in a tick, and is caught by the
// application, leaves the others their turn.
func TestTimersPollPanics(t *testing.T) {
	withClockwork(t, func(t *testing.T, c *clockwork, in func(int) time.Time) {
		c.lag = testLag
		c.schedule(newAlarm(func(time.Time) time.Time { panic("of the application") }), in(1))
		c.schedule(c.alarm("a", nil), in(2))
		time.Sleep(2 * time.Millisecond)
		require.Panics(t, func() { c.poll(time.Now()) })
		time.Sleep(time.Second)
		c.want(t, "a6") // with the firing that was for the first one
	})
}
