package deadline

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func passed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func TestZero(t *testing.T) {
	var d Deadline
	if d.Exceeded() {
		t.Error("zero Deadline is exceeded")
	}
	c := d.Arm()
	defer d.Disarm()
	if passed(c) {
		t.Error("zero Deadline has passed")
	}
}

func TestPassesWhileArmed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d Deadline
		d.Set(time.Now().Add(time.Second))
		c := d.Arm()
		time.Sleep(999 * time.Millisecond)
		if passed(c) || d.Exceeded() {
			t.Error("passed 1 ms early")
		}
		time.Sleep(time.Millisecond)
		synctest.Wait()
		if !passed(c) || !d.Exceeded() {
			t.Error("not passed in time")
		}
		d.Disarm()
	})
}

func TestPastDeadlinePassesAtOnce(t *testing.T) {
	var d Deadline
	c := d.Arm()
	d.Set(time.Now().Add(-time.Second))
	if !passed(c) || !d.Exceeded() {
		t.Error("past deadline has not passed")
	}
	d.Disarm()
}

func TestSetMovesAndRenews(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d Deadline
		d.Set(time.Now().Add(time.Second))
		c := d.Arm()
		d.Set(time.Now().Add(3 * time.Second))
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if passed(c) {
			t.Error("passed at the first time although it was moved")
		}
		d.Set(time.Time{})
		time.Sleep(time.Hour)
		synctest.Wait()
		if passed(c) || d.Exceeded() {
			t.Error("passed although it was taken away")
		}
		d.Set(time.Now())
		if !passed(c) {
			t.Error("blocked call does not see the new deadline")
		}
		d.Set(time.Now().Add(time.Second))
		c2 := d.Arm()
		if passed(c2) {
			t.Error("a new deadline has passed at once")
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if !passed(c2) {
			t.Error("a renewed deadline does not pass")
		}
		d.Disarm()
		d.Disarm()
	})
}

func TestNoTimerWithoutWaiter(t *testing.T) {
	var d Deadline
	d.Set(time.Now().Add(time.Hour))
	if d.state().timer != nil {
		t.Error("Set armed a timer although no call blocks")
	}
}

func TestSetDoesNotAllocate(t *testing.T) {
	var d Deadline
	d.Arm()
	d.Disarm()
	at := time.Now().Add(time.Hour)
	if n := testing.AllocsPerRun(100, func() { d.Set(at); d.Arm(); d.Disarm() }); n > 0.5 {
		t.Errorf("Set and Arm: %v allocations, want 0", n)
	}
}

func TestConcurrent(t *testing.T) {
	var d Deadline
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 1000 {
				d.Set(time.Now().Add(time.Microsecond))
				c := d.Arm()
				d.Exceeded()
				d.Set(time.Now())
				_ = c
				d.Disarm()
			}
		})
	}
	wg.Wait()
}
