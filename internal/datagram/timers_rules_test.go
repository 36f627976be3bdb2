package datagram

import (
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// Who polls looks at one number: the time of the earliest alarm, at least 1, and 0 if
// there is none. It is right after whatever has been done.
func TestTimersNext(t *testing.T) {
	withClockwork(t, func(t *testing.T, c *clockwork, in func(int) time.Time) {
		r := rand.New(rand.NewPCG(1, 2))
		var alarms []*alarm
		for range 40 {
			alarms = append(alarms, newAlarm(func(time.Time) time.Time { return time.Time{} }))
		}
		due := make(map[*alarm]time.Time)
		check := func() {
			t.Helper()
			want := int64(0)
			for _, at := range due {
				if n := max(int64(at.Sub(c.base)), 1); want == 0 || n < want {
					want = n
				}
			}
			require.Equal(t, want, c.next.Load())
			require.Len(t, c.heap, len(due))
			for i, e := range c.heap {
				require.EqualValues(t, i+1, e.a.index)
				require.Equal(t, e.a.at, e.at)
				require.True(t, i == 0 || c.heap[(i-1)/below].at <= e.at, "the heap is none")
			}
		}
		for range 3000 {
			a := alarms[r.IntN(len(alarms))]
			switch r.IntN(4) {
			case 0:
				c.cancel(a)
				delete(due, a)
			case 1:
				at := in(r.IntN(500) - 2)
				c.postpone(a, at)
				if old, there := due[a]; there && at.After(old) {
					due[a] = at
				}
			default:
				at := in(r.IntN(500) - 2) // some are late
				c.schedule(a, at)
				if old, there := due[a]; !there || at.Before(old) {
					due[a] = at
				}
			}
			if r.IntN(20) == 0 {
				time.Sleep(time.Duration(r.IntN(40)) * time.Millisecond)
				synctest.Wait()
			}
			c.timers.mu.Lock()
			now := time.Now()
			for a, at := range due {
				if a.index == 0 { // it has gone off
					require.False(t, at.After(now))
					delete(due, a)
				}
			}
			check()
			c.timers.mu.Unlock()
		}
		c.stop()
		require.Zero(t, c.next.Load())
		for _, a := range alarms {
			c.cancel(a) // does nothing
			c.schedule(a, in(1))
		}
		require.Zero(t, c.next.Load())
	})
}

// Alarms taken out from anywhere leave the others in order.
func TestAlarmHeap(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for n := range 40 {
		var h alarmHeap
		var want []time.Duration
		for range n {
			h.push(&alarm{at: time.Duration(r.IntN(20))})
		}
		for range n / 3 {
			i := r.IntN(len(h))
			a := h[i].a
			require.Same(t, a, h.remove(i))
			require.Zero(t, a.index)
		}
		for _, e := range h {
			want = append(want, e.at)
		}
		for i := range n / 4 { // some become earlier
			if len(h) > 0 {
				h[i%len(h)].a.at -= 5
				want = nil
				h.hasten(i % len(h))
			}
		}
		if want == nil {
			for _, e := range h {
				want = append(want, e.at)
			}
		}
		slices.Sort(want)
		var got []time.Duration
		for len(h) > 0 {
			for i, e := range h {
				require.EqualValues(t, i+1, e.a.index)
				require.Equal(t, e.a.at, e.at)
			}
			got = append(got, h.remove(0).at)
		}
		require.Equal(t, want, got)
	}
}

// With a lag of 5 ms: who polls has those go off that are due, to the nanosecond, and
// not those that look 200 ms late; the runtime timer comes 5 ms late for the others.
func TestTimersPollBounds(t *testing.T) {
	for _, test := range []struct {
		poll time.Duration // after the alarm was due
		want bool
	}{
		{-1, false}, {0, true}, {1, true}, {200*time.Millisecond - 1, true}, {200 * time.Millisecond, false},
	} {
		withClockwork(t, func(t *testing.T, c *clockwork, in func(int) time.Time) {
			c.lag = testLag
			at := in(10)
			went := make(chan time.Time, 10)
			c.schedule(newAlarm(func(now time.Time) time.Time { went <- now; return time.Time{} }), at)
			c.poll(at.Add(test.poll))
			require.Equal(t, test.want, len(went) == 1, "polled at %v", test.poll)
			if test.want {
				require.Equal(t, test.poll, (<-went).Sub(at), "the tick is told the time of the poll")
				require.Zero(t, c.next.Load())
				return
			}
			require.Equal(t, testLag, (<-went).Sub(at))
			require.Equal(t, at.Add(testLag), time.Now())
		})
	}
}

// An alarm that says itself when it goes off again does so after 100 µs at the earliest.
func TestTimersLeastTick(t *testing.T) {
	withClockwork(t, func(t *testing.T, c *clockwork, in func(int) time.Time) {
		var went []time.Duration
		wants := []time.Duration{-time.Second, 0, 99 * time.Microsecond, 100 * time.Microsecond, 101 * time.Microsecond}
		begin := in(10)
		c.schedule(newAlarm(func(now time.Time) time.Time {
			went = append(went, now.Sub(begin))
			if len(went) > len(wants) {
				return time.Time{}
			}
			return now.Add(wants[len(went)-1])
		}), begin)
		time.Sleep(time.Second)
		synctest.Wait()
		us := time.Microsecond
		require.Equal(t, []time.Duration{0, 100 * us, 200 * us, 300 * us, 400 * us, 501 * us}, went)
	})
}

// A firing that comes 200 ms late shows a standstill of the process, and nothing goes off
// for 200 ms more; a nanosecond less shows none. The one after it is believed.
func TestTimersStallBounds(t *testing.T) {
	for _, test := range []struct{ late, want time.Duration }{
		{0, 10 * time.Millisecond},
		{200*time.Millisecond - 1, 10 * time.Millisecond},
		{200 * time.Millisecond, 210 * time.Millisecond},
	} {
		withClockwork(t, func(t *testing.T, c *clockwork, in func(int) time.Time) {
			begin := time.Now()
			went := make(chan time.Duration, 10)
			c.schedule(newAlarm(func(time.Time) time.Time { went <- time.Since(begin); return time.Time{} }), in(10))
			c.timers.mu.Lock()
			c.armed -= test.late
			c.timers.mu.Unlock()
			require.Equal(t, test.want, <-went)
			c.schedule(newAlarm(func(time.Time) time.Time { went <- time.Since(begin); return time.Time{} }), in(10))
			require.Equal(t, test.want+10*time.Millisecond, <-went, "all is as before")
		})
	}
}

// While a tick runs nobody else has alarms go off, neither who polls nor the runtime
// timer; and what is asked for meanwhile is not forgotten.
func TestTimersOneAtATime(t *testing.T) {
	for _, polled := range []bool{true, false} {
		withClockwork(t, func(t *testing.T, c *clockwork, in func(int) time.Time) {
			c.lag = testLag
			inside, let := make(chan struct{}), make(chan struct{})
			c.schedule(newAlarm(func(time.Time) time.Time {
				inside <- struct{}{}
				<-let
				return time.Time{}
			}), in(10))
			c.schedule(c.alarm("a", nil), in(10))
			if polled {
				time.Sleep(10 * time.Millisecond)
				go c.poll(time.Now())
			}
			<-inside
			c.schedule(c.alarm("b", nil), in(0))
			c.poll(in(1))
			time.Sleep(50 * time.Millisecond)
			c.poll(time.Now())
			c.want(t)
			close(let)
			synctest.Wait()
			time.Sleep(testLag)
			if polled {
				c.want(t, "a60", "b60")
			} else {
				c.want(t, "a65", "b65")
			}
		})
	}
}

// Who polls puts the runtime timer off when it would fire within half the lag, until the
// next alarm is late by all of it; else that goes off with the firing.
func TestTimersPollPutsOff(t *testing.T) {
	for _, test := range []struct{ poll, armed, want time.Duration }{
		{12500 * time.Microsecond, 15 * time.Millisecond, 15 * time.Millisecond},
		{12500*time.Microsecond + 1, 19 * time.Millisecond, 19 * time.Millisecond},
		{14 * time.Millisecond, 15 * time.Millisecond, 14 * time.Millisecond}, // and nothing is left
	} {
		withClockwork(t, func(t *testing.T, c *clockwork, in func(int) time.Time) {
			c.lag = testLag
			begin := time.Now()
			went := make(chan time.Duration, 10)
			tick := func(time.Time) time.Time { went <- time.Since(begin); return time.Time{} }
			c.schedule(newAlarm(tick), in(10))
			c.schedule(newAlarm(tick), in(14))
			time.Sleep(test.poll)
			c.poll(time.Now())
			require.Equal(t, test.poll, <-went)
			c.timers.mu.Lock()
			require.Equal(t, test.armed, c.armed)
			c.timers.mu.Unlock()
			require.Equal(t, test.want, <-went)
		})
	}
}

// After a standstill one who reads may take another one's alarm back.
func TestTimersStallReadCancels(t *testing.T) {
	withClockwork(t, func(t *testing.T, c *clockwork, in func(int) time.Time) {
		second := c.alarm("second", nil)
		first := c.alarm("first", func(time.Time) time.Time { c.cancel(second); return time.Time{} })
		first.reads, second.reads = true, true
		c.schedule(first, in(9))
		c.schedule(second, in(9))
		c.schedule(c.alarm("other", nil), in(9))
		c.stall()
		time.Sleep(time.Second)
		c.want(t, "first9", "other209")
	})
}

// The heap holds on to nothing that was taken out.
func TestAlarmHeapForgets(t *testing.T) {
	var h alarmHeap
	for i := range 3 {
		h.push(&alarm{at: time.Duration(i)})
	}
	h.remove(2)
	h.remove(0)
	require.Equal(t, alarmHeap{{}, {}}, h[1:3])
}
