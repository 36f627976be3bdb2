package datagram

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"weak"
)

// clockwork is timers, and a record of what went off when.
type clockwork struct {
	timers
	start time.Time
	mu    sync.Mutex
	log   []string
}

// A tickFunc is a ticker that is a function.
type tickFunc func(now time.Time) time.Time

func (f tickFunc) tick(now time.Time) time.Time { return f(now) }

func newAlarm(f tickFunc) *alarm { return &alarm{of: f} }

func (c *clockwork) alarm(name string, next func(now time.Time) time.Time) *alarm {
	return newAlarm(func(now time.Time) time.Time {
		c.mu.Lock()
		c.log = append(c.log, fmt.Sprint(name, time.Since(c.start).Milliseconds()))
		c.mu.Unlock()
		if next == nil {
			return time.Time{}
		}
		return next(now)
	})
}

func (c *clockwork) want(t *testing.T, want ...string) {
	t.Helper()
	synctest.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	if fmt.Sprint(c.log) != fmt.Sprint(want) {
		t.Errorf("alarms went off: %v, want %v", c.log, want)
	}
}

func withClockwork(t *testing.T, f func(t *testing.T, c *clockwork, in func(ms int) time.Time)) {
	synctest.Test(t, func(t *testing.T) {
		c := &clockwork{start: time.Now()}
		defer c.stop()
		f(t, c, func(ms int) time.Time { return time.Now().Add(time.Duration(ms) * time.Millisecond) })
	})
}

func TestTimersOrder(t *testing.T) {
	withClockwork(t, func(t *testing.T, c *clockwork, in func(int) time.Time) {
		for _, ms := range []int{50, 10, 40, 20, 30} {
			c.schedule(c.alarm("a", nil), in(ms))
		}
		time.Sleep(time.Second)
		c.want(t, "a10", "a20", "a30", "a40", "a50")
	})
}

// The earliest time asked for wins, and going off takes the alarm out.
func TestTimersEarliestWins(t *testing.T) {
	withClockwork(t, func(t *testing.T, c *clockwork, in func(int) time.Time) {
		a := c.alarm("a", nil)
		c.schedule(a, in(50))
		c.schedule(a, in(20))
		c.schedule(a, in(80))
		time.Sleep(100 * time.Millisecond)
		c.schedule(a, in(-5)) // the past is now
		time.Sleep(100 * time.Millisecond)
		c.want(t, "a20", "a100")
	})
}

func TestTimersCancelAndStop(t *testing.T) {
	withClockwork(t, func(t *testing.T, c *clockwork, in func(int) time.Time) {
		a, b := c.alarm("a", nil), c.alarm("b", nil)
		c.cancel(a)
		c.schedule(a, in(10))
		c.schedule(b, in(20))
		c.cancel(a)
		c.cancel(a)
		time.Sleep(15 * time.Millisecond)
		c.schedule(a, in(1)) // behind a runtime timer that went off for nothing
		time.Sleep(10 * time.Millisecond)
		c.want(t, "a16", "b20")
		c.schedule(a, in(10))
		c.stop()
		c.schedule(b, in(10))
		c.cancel(a)
		time.Sleep(time.Second)
		c.want(t, "a16", "b20")
	})
}

// The runtime holds a stopped timer until it would have fired, unless a quarter of all are
// stopped. It holds nothing else by that.
func TestTimersStopForgets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for range 20 {
			defer time.AfterFunc(time.Hour, func() {}).Stop()
		}
		p := func() weak.Pointer[timers] {
			c := new(timers)
			c.schedule(newAlarm(nil), time.Now().Add(time.Minute))
			c.stop()
			return weak.Make(c)
		}()
		runtime.GC()
		if p.Value() != nil {
			t.Error("they are still there")
		}
	})
}

// While alarms go off, others are set, taken back and set again.
func TestTimersFromTick(t *testing.T) {
	withClockwork(t, func(t *testing.T, c *clockwork, in func(int) time.Time) {
		b, gone := c.alarm("b", nil), c.alarm("gone", nil)
		var a *alarm
		rounds := 0
		a = c.alarm("a", func(now time.Time) time.Time {
			if rounds++; rounds == 3 {
				return time.Time{}
			}
			c.cancel(gone)
			c.schedule(b, now.Add(5*time.Millisecond))
			c.schedule(a, now.Add(10*time.Millisecond)) // earlier than what it returns
			return now.Add(20 * time.Millisecond)
		})
		c.schedule(a, in(10))
		c.schedule(gone, in(10))
		time.Sleep(time.Second)
		c.want(t, "a10", "b15", "a20", "b25", "a30")
	})
}

// An alarm that is asked for while its tick runs goes off, although the tick
// then says it needs nothing.
func TestTimersScheduleDuringTick(t *testing.T) {
	withClockwork(t, func(t *testing.T, c *clockwork, in func(int) time.Time) {
		inside, goOn := make(chan bool), make(chan bool)
		a := c.alarm("a", func(now time.Time) time.Time {
			if len(c.log) == 1 {
				inside <- true
				<-goOn
			}
			return time.Time{}
		})
		c.schedule(a, in(10))
		<-inside
		c.schedule(a, in(5))
		goOn <- true
		time.Sleep(time.Second)
		c.want(t, "a10", "a15")
	})
}

func TestTimersStopDuringTick(t *testing.T) {
	withClockwork(t, func(t *testing.T, c *clockwork, in func(int) time.Time) {
		a := c.alarm("a", func(now time.Time) time.Time { c.stop(); return now.Add(1) })
		c.schedule(a, in(10))
		c.schedule(c.alarm("b", nil), in(10))
		time.Sleep(time.Second)
		c.want(t, "a10")
	})
}

// A handler that always wants to be called at once is called often, but others
// get their turn.
func TestTimersImpatientTick(t *testing.T) {
	withClockwork(t, func(t *testing.T, c *clockwork, in func(int) time.Time) {
		ticks := 0
		a := newAlarm(func(now time.Time) time.Time {
			if ticks++; ticks > 100_000 {
				t.Error("a tick that returns now is called again for ever")
				return time.Time{}
			}
			return now
		})
		c.schedule(a, in(0))
		c.schedule(c.alarm("b", nil), in(10))
		time.Sleep(20 * time.Millisecond)
		c.cancel(a)
		c.want(t, "b10")
		c.stop()
	})
}

// Against a list of the times at which each alarm must go off.
func TestTimersModel(t *testing.T) {
	withClockwork(t, func(t *testing.T, c *clockwork, in func(int) time.Time) {
		rng, chance := rand.New(rand.NewPCG(1, 2)), rand.New(rand.NewPCG(3, 4))
		const n = 50
		var alarms [n]*alarm
		var mu sync.Mutex
		var due [n]time.Time // zero: not scheduled
		for i := range alarms {
			alarms[i] = newAlarm(func(now time.Time) time.Time {
				mu.Lock()
				defer mu.Unlock()
				if !due[i].Equal(time.Now()) {
					t.Errorf("alarm %d at %v, want %v", i, time.Since(c.start), due[i].Sub(c.start))
				}
				due[i] = time.Time{}
				if chance.IntN(3) == 0 {
					due[i] = now.Add(time.Duration(1+chance.IntN(100)) * time.Millisecond)
				}
				return due[i]
			})
		}
		for range 5000 {
			if rng.IntN(5) == 0 {
				time.Sleep(time.Duration(rng.IntN(20)) * time.Millisecond)
				synctest.Wait()
			}
			mu.Lock()
			i := rng.IntN(n)
			if at := in(1 + rng.IntN(200)); rng.IntN(4) == 0 {
				c.cancel(alarms[i])
				due[i] = time.Time{}
			} else {
				c.schedule(alarms[i], at)
				if due[i].IsZero() || at.Before(due[i]) {
					due[i] = at
				}
			}
			mu.Unlock()
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		for i, at := range due {
			if !at.IsZero() {
				t.Errorf("alarm %d never went off", i)
			}
		}
	})
}

// In real time, for the race detector: every schedule is followed by a tick.
func TestTimersConcurrent(t *testing.T) {
	var c timers
	defer c.stop()
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			var asked, seen atomic.Int64
			rung := make(chan struct{}, 1)
			a := newAlarm(func(time.Time) time.Time {
				seen.Store(asked.Load())
				select {
				case rung <- struct{}{}:
				default:
				}
				return time.Time{}
			})
			for i := range int64(200) {
				asked.Store(i + 1)
				c.schedule(a, time.Now().Add(time.Duration(i%3)*50*time.Microsecond))
				for seen.Load() != i+1 {
					<-rung
				}
				c.schedule(a, time.Now().Add(time.Hour))
				c.cancel(a)
			}
		})
	}
	wg.Wait()
}

// stall makes the runtime timer look as late as after a standstill.
func (c *clockwork) stall() {
	c.timers.mu.Lock()
	defer c.timers.mu.Unlock()
	c.armed -= time.Second
}

// After a standstill of the whole process what has arrived is read first.
func TestTimersStall(t *testing.T) {
	withClockwork(t, func(t *testing.T, c *clockwork, in func(int) time.Time) {
		c.schedule(c.alarm("a", nil), in(10))
		c.stall()
		time.Sleep(50 * time.Millisecond)
		c.schedule(c.alarm("b", nil), in(20)) // no reason to hurry
		c.schedule(c.alarm("c", nil), in(500))
		time.Sleep(time.Second)
		c.want(t, "a210", "b210", "c550")

		c.schedule(c.alarm("d", nil), in(-1000)) // asked for too late, that is all
		time.Sleep(time.Millisecond)
		c.want(t, "a210", "b210", "c550", "d1050")
	})
}

// What has a socket read does not wait.
func TestTimersStallRead(t *testing.T) {
	withClockwork(t, func(t *testing.T, c *clockwork, in func(int) time.Time) {
		again := true
		reader := c.alarm("r", func(now time.Time) time.Time {
			if again {
				again = false
				return now.Add(time.Millisecond)
			}
			return time.Time{}
		})
		reader.reads = true
		c.schedule(c.alarm("a", nil), in(12))
		c.schedule(reader, in(9))
		c.stall()
		time.Sleep(time.Second)
		c.want(t, "r9", "r209", "a209")
	})
}

// All that have one read, and no others.
func TestTimersStallReadAll(t *testing.T) {
	withClockwork(t, func(t *testing.T, c *clockwork, in func(int) time.Time) {
		c.schedule(c.alarm("a", nil), in(9))
		for _, name := range []string{"q", "r", "s"} {
			reader := c.alarm(name, nil)
			reader.reads = true
			c.schedule(reader, in(9))
		}
		c.stall()
		time.Sleep(time.Second)
		c.want(t, "q9", "r9", "s9", "a209")
	})
}

// However slow the machine, alarms go off.
func TestTimersStallTwice(t *testing.T) {
	withClockwork(t, func(t *testing.T, c *clockwork, in func(int) time.Time) {
		c.schedule(c.alarm("a", nil), in(10))
		c.stall()
		time.Sleep(50 * time.Millisecond)
		c.stall()
		time.Sleep(time.Second)
		c.want(t, "a210")
	})
}
