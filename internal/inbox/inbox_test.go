package inbox

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"volley/internal/deadline"
	"volley/internal/testenv"
)

func newInbox(limit int) *Inbox {
	q := new(Inbox)
	q.Init(limit, nil)
	return q
}

func push(q *Inbox, msgs ...string) (taken int) {
	q.Lock()
	defer q.Unlock()
	for _, m := range msgs {
		if q.Push([]byte(m)) {
			taken++
		}
	}
	return taken
}

func TestOrderAndTruncation(t *testing.T) {
	q := newInbox(1 << 20)
	push(q, "one", "two", "three")
	var d deadline.Deadline
	b := make([]byte, 2)
	if n, size, err := q.Read(b, &d); n != 2 || size != 3 || err != nil || string(b) != "on" {
		t.Errorf("Read = %d, %d, %v (%q), want 2, 3, nil (on)", n, size, err, b)
	}
	p, err := q.ReadAppend([]byte("x"), &d)
	if string(p) != "xtwo" || err != nil {
		t.Errorf("ReadAppend = %q, %v, want xtwo", p, err)
	}
	p, _ = q.ReadAppend(nil, &d)
	if string(p) != "three" || q.Len() != 0 {
		t.Errorf("got %q with %d bytes left, want three and 0", p, q.Len())
	}
}

func TestLimit(t *testing.T) {
	q := newInbox(2 * (MessageOverhead + 10))
	if got := push(q, "0123456789", "0123456789", "x"); got != 2 {
		t.Errorf("%d messages taken, want 2", got)
	}
	var d deadline.Deadline
	q.ReadAppend(nil, &d)
	if got := push(q, "0123456789", "x"); got != 1 {
		t.Errorf("%d messages taken after one was read, want 1", got)
	}
}

// Who puts messages in may ask how much is queued, while a reader waits for the end
// of the batch.
func TestLenTakesNoLock(t *testing.T) {
	q := newInbox(100)
	push(q, "abc")
	q.Lock()
	q.readMu.Lock()
	require.Equal(t, MessageOverhead+3, q.Len())
	require.True(t, q.HasRoom(10))
	q.readMu.Unlock()
	q.Unlock()
}

func TestReserve(t *testing.T) {
	var held int
	q := new(Inbox)
	q.Init(1<<20, func(n int) bool {
		if n > 0 && held+n > 200<<10 {
			return false
		}
		held += n
		return true
	})
	var sent int
	for push(q, string(make([]byte, 10<<10))) == 1 {
		sent++
	}
	if sent < 10 || sent > 20 {
		t.Errorf("%d messages of 10 KiB in a budget of 200 KiB", sent)
	}
	var d deadline.Deadline
	for range sent {
		q.ReadAppend(nil, &d)
	}
	if push(q, "room again") != 1 {
		t.Error("no message taken after the queue was read")
	}
}

func TestReserveIsGivenBack(t *testing.T) {
	var held atomic.Int64
	q := new(Inbox)
	q.Init(1<<20, func(n int) bool { held.Add(int64(n)); return true })
	var d deadline.Deadline
	for range 100 {
		push(q, "a", "b", string(make([]byte, 100_000)))
		for range 3 {
			q.ReadAppend(nil, &d)
		}
	}
	if n := held.Load(); n != 0 {
		t.Errorf("%d bytes held by an empty inbox", n)
	}
	push(q, "a", "b", string(make([]byte, 100_000)))
	q.ReadAppend(nil, &d)
	q.Fail(net.ErrClosed)
	if n := held.Load(); n != 0 {
		t.Errorf("%d bytes held after Fail", n)
	}
	if n := q.Len(); n != 0 {
		t.Errorf("%d bytes queued after Fail", n)
	}
}

func TestEndDrainsFailDoesNot(t *testing.T) {
	var d deadline.Deadline
	q := newInbox(1 << 20)
	push(q, "a", "b")
	q.End(io.EOF)
	if push(q, "c") != 0 {
		t.Error("Push after End was taken")
	}
	for _, want := range []string{"a", "b"} {
		if p, err := q.ReadAppend(nil, &d); string(p) != want || err != nil {
			t.Errorf("ReadAppend = %q, %v, want %q", p, err, want)
		}
	}
	if _, err := q.ReadAppend(nil, &d); err != io.EOF {
		t.Errorf("Read after the end: %v, want EOF", err)
	}

	q = newInbox(1 << 20)
	push(q, "a", "b", "c")
	q.ReadAppend(nil, &d)
	q.Fail(net.ErrClosed)
	if _, err := q.ReadAppend(nil, &d); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Read after Fail: %v, want net.ErrClosed", err)
	}
	q.End(io.EOF)
	if _, err := q.ReadAppend(nil, &d); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Read after Fail and End: %v, want net.ErrClosed", err)
	}

	q = newInbox(1 << 20)
	q.End(io.EOF)
	q.End(net.ErrClosed)
	if _, err := q.ReadAppend(nil, &d); err != io.EOF {
		t.Errorf("Read after two ends: %v, want the first, EOF", err)
	}
}

func TestWakeUps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newInbox(1 << 20)
		var d deadline.Deadline
		var got atomic.Int32
		for range 5 {
			go func() {
				if _, err := q.ReadAppend(nil, &d); err == nil {
					got.Add(1)
				}
			}()
		}
		synctest.Wait()
		push(q, "1", "2", "3")
		synctest.Wait()
		if got.Load() != 3 {
			t.Errorf("%d of 5 readers got one of 3 messages, want 3", got.Load())
		}
		q.End(io.EOF)
		synctest.Wait() // the bubble ends only if both others return
	})
}

// Kick has one blocked reader ask the poller again, or the next one to block.
func TestKick(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newInbox(1 << 20)
		var p lookingPoller
		q.SetPoller(&p)
		var d deadline.Deadline
		check := func(want int) {
			t.Helper()
			synctest.Wait()
			if p.calls != want {
				t.Errorf("the poller was asked %d times, want %d", p.calls, want)
			}
		}
		go q.Read(nil, &d)
		check(1)
		q.Kick()
		check(2)
		push(q, "x")
		check(2)
		q.Kick() // nobody is there
		go q.Read(nil, &d)
		check(4)
		q.Fail(net.ErrClosed)
	})
}

// A notice is for one Read that finds no message, and for none after the end.
func TestNotice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newInbox(1 << 20)
		var d deadline.Deadline
		push(q, "a")
		q.Notice()
		if p, err := q.ReadAppend(nil, &d); string(p) != "a" || err != nil {
			t.Errorf("Read = %q, %v, want the message first", p, err)
		}
		if _, err := q.ReadAppend(nil, &d); err != ErrNotice {
			t.Errorf("Read: %v, want ErrNotice", err)
		}
		errs := make(chan error, 2)
		go func() {
			for range 2 {
				_, err := q.ReadAppend(nil, &d)
				errs <- err
			}
		}()
		synctest.Wait()
		if len(errs) > 0 {
			t.Errorf("Read without a notice: %v", <-errs)
		}
		q.Notice() // wakes who waits
		synctest.Wait()
		if len(errs) != 1 || <-errs != ErrNotice {
			t.Error("a blocked Read does not return ErrNotice, or two do")
		}
		q.End(io.EOF)
		q.Notice()
		if err := <-errs; err != io.EOF {
			t.Errorf("Read at the end: %v, want EOF", err)
		}
		if _, err := q.ReadAppend(nil, &d); err != io.EOF {
			t.Errorf("Read with a notice behind the end: %v, want EOF", err)
		}
	})
}

// The end is for all who wait, however many.
func TestEndWakesAll(t *testing.T) {
	for _, end := range []func(*Inbox, error){(*Inbox).End, (*Inbox).Fail} {
		synctest.Test(t, func(t *testing.T) {
			q := newInbox(1 << 20)
			var d deadline.Deadline
			d.Set(time.Now().Add(time.Hour))
			for i := range 6 { // some without a deadline
				go func() {
					mine := &d
					if i%2 == 0 {
						mine = new(deadline.Deadline)
					}
					if _, err := q.ReadAppend(nil, mine); err != io.EOF {
						t.Errorf("Read: %v, want EOF", err)
					}
				}()
			}
			synctest.Wait()
			end(q, io.EOF)
		})
	}
}

// lookingPoller counts the calls of ReadInline that see several callers of Read.
type lookingPoller struct{ calls, several int }

func (p *lookingPoller) ReadInline(_ *deadline.Deadline, r Readers) bool {
	p.calls++
	if r.Callers() > 1 {
		p.several++
	}
	return false
}

func (p *lookingPoller) InterruptInline(Readers) {}

// A caller of Read counts from before it asks the poller until it returns.
func TestCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newInbox(1 << 20)
		var p lookingPoller
		q.SetPoller(&p)
		var d deadline.Deadline
		for want := range 2 {
			go q.Read(nil, &d)
			synctest.Wait()
			if q.Callers() != want+1 || p.several != want || p.calls != want+1 {
				t.Errorf("with %d callers Callers = %d, and %d of %d saw others, want %d of %d",
					want+1, q.Callers(), p.several, p.calls, want, want+1)
			}
		}
		push(q, "x")
		synctest.Wait()
		if q.Callers() != 1 {
			t.Errorf("Callers = %d after one of two left", q.Callers())
		}
		q.Fail(net.ErrClosed)
	})
}

func TestDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newInbox(1 << 20)
		var d deadline.Deadline
		d.Set(time.Now().Add(time.Minute))
		q.Interrupt()
		start := time.Now()
		if _, err := q.ReadAppend(nil, &d); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("Read: %v, want deadline exceeded", err)
		}
		if got := time.Since(start); got != time.Minute {
			t.Errorf("Read waited %v, want 1m", got)
		}
		push(q, "a")
		if _, err := q.ReadAppend(nil, &d); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("Read past the deadline with a message there: %v", err)
		}
		d.Set(time.Time{})
		q.Interrupt()
		if p, err := q.ReadAppend(nil, &d); string(p) != "a" || err != nil {
			t.Errorf("Read = %q, %v", p, err)
		}
	})
}

// A deadline set while readers wait concerns all of them, those too that began
// when there was none.
func TestDeadlineOfBlocked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newInbox(1 << 20)
		var d deadline.Deadline
		set := func(in time.Duration) {
			at := time.Time{}
			if in > 0 {
				at = time.Now().Add(in)
			}
			d.Set(at)
			q.Interrupt()
			synctest.Wait()
		}
		var wg sync.WaitGroup
		start := time.Now()
		read := func() {
			wg.Go(func() {
				if _, err := q.ReadAppend(nil, &d); !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(start) != time.Minute {
					t.Errorf("Read: %v after %v, want deadline exceeded after 1m", err, time.Since(start))
				}
			})
			synctest.Wait()
		}
		read()
		read()
		set(time.Hour)
		read()
		set(0)
		read()
		set(time.Minute)
		wg.Wait()
	})
}

func TestWaitRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newInbox(100)
		push(q, string(make([]byte, 90)))
		done := make(chan error, 1)
		go func() { done <- q.WaitRoom(50, nil) }()
		synctest.Wait()
		select {
		case err := <-done:
			t.Fatalf("WaitRoom returned %v although there is no room", err)
		default:
		}
		var d deadline.Deadline
		q.ReadAppend(nil, &d)
		if err := <-done; err != nil {
			t.Errorf("WaitRoom: %v", err)
		}
		push(q, string(make([]byte, 90)))
		d.Set(time.Now().Add(time.Second))
		q.Interrupt()
		if err := q.WaitRoom(50, d.Arm()); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("WaitRoom: %v, want deadline exceeded", err)
		}
		d.Disarm()
		go func() { done <- q.WaitRoom(50, nil) }()
		synctest.Wait()
		q.End(io.EOF)
		if err := <-done; !errors.Is(err, net.ErrClosed) {
			t.Errorf("WaitRoom at the end: %v, want net.ErrClosed", err)
		}
	})
}

// Nothing is lost, doubled or reordered between one producer and several
// readers, and no reader sleeps beside a queued message.
func TestConcurrent(t *testing.T) {
	const total = 20000
	q := newInbox(1 << 12)
	var d deadline.Deadline
	var sum atomic.Int64
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			for {
				p, err := q.ReadAppend(nil, &d)
				if err != nil {
					return
				}
				sum.Add(int64(len(p)))
			}
		})
	}
	var want int64
	for i := range total {
		m := bytes.Repeat([]byte{byte(i)}, 1+i%100)
		if err := q.WaitRoom(len(m), nil); err != nil {
			t.Fatal(err)
		}
		q.Lock()
		if !q.Push(m) {
			t.Fatal("Push refused after WaitRoom")
		}
		q.Unlock()
		want += int64(len(m))
	}
	q.End(io.EOF)
	wg.Wait()
	if sum.Load() != want {
		t.Errorf("read %d bytes, want %d", sum.Load(), want)
	}
}

func TestNoAllocation(t *testing.T) {
	q := newInbox(1 << 20)
	var d deadline.Deadline
	m, b := make([]byte, 256), make([]byte, 1024)
	n := testing.AllocsPerRun(1000, func() {
		q.Lock()
		for range 64 {
			q.Push(m)
		}
		q.Unlock()
		for range 64 {
			q.Read(b, &d)
		}
	})
	if n > 0.5 && !testenv.Race {
		t.Errorf("%v allocations for 64 messages, want 0", n)
	}
}

func BenchmarkInbox(b *testing.B) {
	q := newInbox(1 << 20)
	var d deadline.Deadline
	m, buf := make([]byte, 256), make([]byte, 1024)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if i%64 == 0 {
			q.Lock()
			for range 64 {
				q.Push(m)
			}
			q.Unlock()
		}
		q.Read(buf, &d)
	}
}

// A noticer is a Poller that cannot read, and of which a notice comes just before
// its reader waits.
type noticer struct{ q *Inbox }

func (n noticer) ReadInline(*deadline.Deadline, Readers) bool {
	n.q.Notice()
	return false
}

func (noticer) InterruptInline(Readers) {}

// A notice that comes between a Read's look at the queue and its waiting is not
// slept through.
func TestNoticeBeforeWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newInbox(1 << 20)
		q.SetPoller(noticer{q})
		var d deadline.Deadline
		d.Set(time.Now().Add(time.Second))
		if _, err := q.ReadAppend(nil, &d); err != ErrNotice {
			t.Errorf("Read: %v, want ErrNotice", err)
		}
	})
}

// Where there is no memory for a chunk of the usual size, messages get small ones.
func TestSmallChunks(t *testing.T) {
	const limit = 12 << 10
	held := 0
	var q Inbox
	q.Init(1<<20, func(delta int) bool {
		if delta > 0 && held+delta > limit {
			return false
		}
		held += delta
		return true
	})
	for i := range 12 { // one, eight, and one each
		q.Lock()
		require.True(t, q.Push(bytes.Repeat([]byte{byte(i)}, 1000)), i)
		q.Unlock()
	}
	require.Equal(t, limit, held)
	q.Lock()
	require.False(t, q.Push(make([]byte, 1000)))
	q.Unlock()
	var d deadline.Deadline
	for i := range 12 {
		b, err := q.ReadAppend(nil, &d)
		require.NoError(t, err)
		require.Equal(t, bytes.Repeat([]byte{byte(i)}, 1000), b)
	}
}
