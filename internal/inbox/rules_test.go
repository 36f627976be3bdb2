package inbox

import (
	"errors"
	"io"
	"net"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/stretchr/testify/require"

	"volley/internal/deadline"
)

// What a message counts for, beside its bytes.
func TestOverhead(t *testing.T) {
	require.Equal(t, 4, MessageOverhead)
	require.Equal(t, 12, NumberedOverhead)
	q := newInbox(100)
	push(q, "", "abc")
	require.Equal(t, 4+4+3, q.Len())
}

// A message fits if it uses up what is left to the byte, also what has become free
// since it was counted last.
func TestExactRoom(t *testing.T) {
	var d deadline.Deadline
	q := newInbox(2 * (MessageOverhead + 10))
	require.Equal(t, 2, push(q, "0123456789", "0123456789"))
	require.Zero(t, push(q, ""))
	_, err := q.ReadAppend(nil, &d)
	require.NoError(t, err)
	require.Zero(t, push(q, "0123456789A"))
	require.Equal(t, 1, push(q, "0123456789"))
	require.Zero(t, push(q, ""))
	for range 2 {
		_, err = q.ReadAppend(nil, &d)
		require.NoError(t, err)
	}
	require.Equal(t, 1, push(q, string(make([]byte, 2*(MessageOverhead+10)-MessageOverhead))))

	o := &Origin{Limit: 2 * (MessageOverhead + 10)}
	q = newInbox(1000)
	q.Lock()
	require.True(t, q.PushFrom(make([]byte, 10), o))
	require.False(t, q.PushFrom(make([]byte, 11), o))
	require.True(t, q.PushFrom(make([]byte, 10), o))
	require.False(t, q.PushFrom(nil, o))
	q.Unlock()
}

// asking returns an Inbox and what it asks for, in bytes, and gives back.
func asking() (*Inbox, func() []int) {
	var asked []int
	q := new(Inbox)
	q.Init(1<<20, func(n int) bool { asked = append(asked, n); return true })
	return q, func() []int { defer func() { asked = nil }(); return asked }
}

// A message has a chunk of 1, 8 or 64 KiB, or one of its own. What fits into a chunk to
// the last byte goes there.
func TestChunkOfMessage(t *testing.T) {
	var d deadline.Deadline
	for _, test := range []struct {
		sizes []int
		want  []int
	}{
		{[]int{1<<10 - 4}, []int{1 << 10}},
		{[]int{508, 508}, []int{1 << 10}},
		{[]int{508, 509}, []int{1 << 10, 8 << 10}},
		{[]int{1<<10 - 3}, []int{8 << 10}},
		{[]int{2000}, []int{8 << 10}},
		{[]int{8<<10 - 4}, []int{8 << 10}},
		{[]int{8<<10 - 3}, []int{64 << 10}},
		{[]int{64<<10 - 4}, []int{64 << 10}},
		{[]int{64<<10 - 3}, []int{64<<10 + 1}},
		{[]int{100_000, 1}, []int{100_004, 8 << 10}},
	} {
		q, asked := asking()
		from, askedFrom := asking()
		o := &Origin{Limit: 1 << 20, Reserve: from.reserve}
		for _, n := range test.sizes {
			require.Equal(t, 1, push(q, string(make([]byte, n))))
			from.Lock()
			require.True(t, from.PushFrom(make([]byte, n), o))
			from.Unlock()
		}
		require.Equal(t, test.want, asked(), "messages of %v bytes", test.sizes)
		var withOrigins []int // a reference of 8 bytes for each 32, or for the only message
		for _, n := range test.want {
			if n > 64<<10 {
				withOrigins = append(withOrigins, n+8)
			} else {
				withOrigins = append(withOrigins, n+n/32*8)
			}
		}
		require.Equal(t, withOrigins, askedFrom(), "messages of %v bytes, with origins", test.sizes)
		for _, n := range test.sizes {
			p, err := q.ReadAppend(nil, &d)
			require.NoError(t, err)
			require.Len(t, p, n)
			_, size, who, err := from.ReadFrom(nil, &d)
			require.NoError(t, err)
			require.Equal(t, n, size)
			require.Same(t, o, who)
		}
		back := func(list []int) []int {
			back := slices.Clone(list)
			for i := range back {
				back[i] = -back[i]
			}
			return back
		}
		require.Equal(t, back(test.want), asked())
		require.Equal(t, back(withOrigins), askedFrom())
	}
}

// Memory that is used again counts for what it did before, however often.
func TestChunksOfOriginsAgain(t *testing.T) {
	var d deadline.Deadline
	q, asked := asking()
	a, b := &Origin{Limit: 1 << 20, Reserve: q.reserve}, &Origin{Limit: 1 << 20, Reserve: q.reserve}
	for range 100 {
		for _, o := range []*Origin{a, b, a} {
			q.Lock()
			require.True(t, q.PushFrom([]byte("x"), o))
			q.Unlock()
		}
		for _, want := range []*Origin{a, b, a} {
			_, _, who, err := q.ReadFrom(make([]byte, 1), &d)
			require.NoError(t, err)
			require.Same(t, want, who)
		}
		require.Equal(t, []int{1280, -1280}, asked())
	}
}

// An Inbox keeps no peer alive whose messages have been read, or dropped.
func TestOriginsAreForgotten(t *testing.T) {
	var d deadline.Deadline
	q := newInbox(1 << 20)
	push := func(o *Origin) weak.Pointer[Origin] {
		q.Lock()
		defer q.Unlock()
		require.True(t, q.PushFrom([]byte("x"), o))
		return weak.Make(o)
	}
	first := push(&Origin{Limit: 100})
	second := push(&Origin{Limit: 100})
	_, _, _, err := q.ReadFrom(make([]byte, 1), &d)
	require.NoError(t, err)
	runtime.GC()
	require.Nil(t, first.Value(), "its message has been read")
	require.NotNil(t, second.Value(), "its message has not")
	third := push(&Origin{Limit: 100})
	q.Fail(net.ErrClosed)
	runtime.GC()
	require.Nil(t, second.Value(), "its message has been dropped")
	require.Nil(t, third.Value(), "its message has been dropped")
	_, _, who, err := q.ReadFrom(nil, &d)
	require.Equal(t, net.ErrClosed, err)
	require.Nil(t, who)
}

// A message without a number has 0, also where others have some, and an end is told by
// every kind of Read.
func TestNumberless(t *testing.T) {
	var d deadline.Deadline
	q := newInbox(100)
	q.Numbered()
	push(q, "x")
	_, number, err := q.ReadNumbered(nil, &d)
	require.NoError(t, err)
	require.Zero(t, number)
	q.End(io.EOF)
	_, _, err = q.ReadNumbered(nil, &d)
	require.Equal(t, io.EOF, err)
	_, err = q.ReadAppend(nil, &d)
	require.Equal(t, io.EOF, err)
	_, _, err = q.Read(nil, &d)
	require.Equal(t, io.EOF, err)
	_, _, _, err = q.ReadFrom(nil, &d)
	require.Equal(t, io.EOF, err)
}

// Fail drops what no Read has come to, and what one has, once, and gives its memory
// back. Its error is told by every Read from then on, also to one that is too late.
func TestFailDropsAll(t *testing.T) {
	var d deadline.Deadline
	for read := range 3 {
		held := 0
		q := new(Inbox)
		q.Init(1<<20, func(n int) bool { held += n; return true })
		large := string(make([]byte, 100_000))
		push(q, "a", large, "b")
		for range read {
			_, _, err := q.Read(nil, &d)
			require.NoError(t, err)
		}
		push(q, "c", large)
		q.Fail(net.ErrClosed)
		for range 2 {
			require.Zero(t, q.Len())
			require.Zero(t, held)
			for range 2 {
				_, _, err := q.Read(nil, &d)
				require.Equal(t, net.ErrClosed, err)
				_, _, err = q.Read(nil, deadline.Passed())
				require.Equal(t, net.ErrClosed, err, "not that the deadline has passed")
			}
			require.Zero(t, push(q, "d"))
			q.Fail(net.ErrClosed)
		}
	}
}

// What has been taken over by a Read is not for one whose deadline has passed, and
// makes room like any other.
func TestReadOfTaken(t *testing.T) {
	var d deadline.Deadline
	var b [10]byte
	q := newInbox(100)
	push(q, "one", "two", "three")
	_, _, err := q.Read(b[:], &d)
	require.NoError(t, err)
	n, size, err := q.Read(b[:], deadline.Passed())
	require.Equal(t, os.ErrDeadlineExceeded, err)
	require.Zero(t, n+size)
	room := 100 - MessageOverhead - len("three") - MessageOverhead
	require.False(t, q.HasRoom(room))
	n, size, err = q.Read(b[:2], &d)
	require.NoError(t, err)
	require.Equal(t, []int{2, 3}, []int{n, size})
	require.Equal(t, "tw", string(b[:n]))
	require.True(t, q.HasRoom(room))
}

// A deadline that passes ends the Reads that wait for it, even if it is taken back at
// once.
func TestDeadlineTakenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newInbox(100)
		var d deadline.Deadline
		d.Set(time.Now().Add(time.Hour))
		got := make(chan error, 1)
		go func() {
			_, err := q.ReadAppend(nil, &d)
			got <- err
		}()
		synctest.Wait()
		d.Expire()
		d.Set(time.Time{})
		require.Equal(t, os.ErrDeadlineExceeded, <-got)
	})
}

// A Read that waits is woken when there is something for it, and never in vain: then it
// would read the socket once more.
func TestNoVainWakeUps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newInbox(1000)
		var p lookingPoller
		q.SetPoller(&p)
		var d deadline.Deadline
		got := make(chan error, 1)
		read := func() {
			go func() {
				_, err := q.ReadAppend(nil, &d)
				got <- err
			}()
			synctest.Wait()
		}
		looked := func(want int, when string) {
			t.Helper()
			synctest.Wait()
			require.Equal(t, want, p.calls, when)
			p.calls = 0
		}
		read()
		looked(1, "before it waits")
		func() { // a batch without messages
			q.Lock()
			defer q.Unlock()
		}()
		looked(0, "nothing was pushed")
		push(q, "x")
		require.NoError(t, <-got)
		looked(0, "there was a message")

		// Whatever happens while nobody waits is over when somebody does.
		push(q, "x")
		_, err := q.ReadAppend(nil, &d)
		require.NoError(t, err)
		q.Notice()
		_, err = q.ReadAppend(nil, &d)
		require.Equal(t, ErrNotice, err)
		q.Interrupt()
		looked(0, "nobody had to wait")
		read()
		looked(1, "before it waits")
		q.Interrupt()
		looked(1, "after an interruption")
		push(q, "x")
		require.NoError(t, <-got)
		looked(0, "there was a message")

		q.Kick()
		q.Kick()
		read()
		looked(2, "before it waits, and as it was kicked, once")
		q.End(io.EOF)
		require.Equal(t, io.EOF, <-got)
	})
}

// A countingPoller counts calls of several goroutines.
type countingPoller struct{ calls atomic.Int64 }

func (p *countingPoller) ReadInline(*deadline.Deadline, Readers) bool {
	p.calls.Add(1)
	return false
}

func (p *countingPoller) InterruptInline(Readers) {}

// A Read that passes a wake-up on to one that began without a deadline does not take
// it again itself until that one gets to run.
func TestPassingOnDoesNotSpin(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	synctest.Test(t, func(t *testing.T) {
		q := newInbox(1000)
		var p countingPoller
		q.SetPoller(&p)
		var d deadline.Deadline
		got := make(chan error, 1)
		go func() {
			_, err := q.ReadAppend(nil, &d)
			got <- err
		}()
		synctest.Wait()
		d.Set(time.Now().Add(time.Hour))
		q.Interrupt() // the Read that waits is woken, but has not run
		q.Kick()
		_, err := q.ReadAppend(nil, &d)
		require.Equal(t, os.ErrDeadlineExceeded, err)
		require.Equal(t, os.ErrDeadlineExceeded, <-got)
		require.Less(t, p.calls.Load(), int64(10))
	})
}

// An interruptedPoller counts interruptions.
type interruptedPoller struct {
	lookingPoller
	told int
}

func (p *interruptedPoller) InterruptInline(Readers) { p.told++ }

// Who reads the socket learns of the end, and of a new deadline.
func TestPollerIsInterrupted(t *testing.T) {
	q := newInbox(100)
	var p interruptedPoller
	q.SetPoller(&p)
	q.Interrupt()
	require.Equal(t, 1, p.told)
	q.End(io.EOF)
	require.Equal(t, 2, p.told)
	q.Fail(net.ErrClosed)
	require.Equal(t, 3, p.told)
}

// A readingPoller finds messages for some of its calls.
type readingPoller struct {
	lookingPoller
	q    *Inbox
	msgs []string // "": a call that finds nothing, and need not wait
}

func (p *readingPoller) ReadInline(d *deadline.Deadline, r Readers) bool {
	p.lookingPoller.ReadInline(d, r)
	if len(p.msgs) == 0 {
		return false
	}
	m := p.msgs[0]
	p.msgs = p.msgs[1:]
	if m != "" {
		push(p.q, m)
	}
	return true
}

// A Read asks its poller until there is a message, and waits only if it is told to.
func TestPoller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newInbox(100)
		p := &readingPoller{q: q, msgs: []string{"", "", "one", "two"}}
		q.SetPoller(p)
		var d deadline.Deadline
		for i, want := range []string{"one", "two"} {
			b, err := q.ReadAppend(nil, &d)
			require.NoError(t, err)
			require.Equal(t, want, string(b))
			require.Equal(t, 3+i, p.calls)
			require.Zero(t, q.Callers())
		}
		d.Set(time.Now().Add(time.Second))
		begin := time.Now()
		_, err := q.ReadAppend(nil, &d)
		require.Equal(t, os.ErrDeadlineExceeded, err)
		require.Equal(t, time.Second, time.Since(begin))
		require.Equal(t, 5, p.calls)
		require.Zero(t, q.Callers())
	})
}

// Who is about to wait for room learns of what came before it does. A waiter that is
// gone is not told of anything.
func TestWaitRoomAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newInbox(100)
		var d deadline.Deadline
		require.NoError(t, q.WaitRoom(96, nil))
		require.NoError(t, q.WaitRoom(1000, nil), "as much as there ever is")
		push(q, string(make([]byte, 40)))
		require.NoError(t, q.WaitRoom(52, nil))
		cancel := make(chan struct{})
		close(cancel)
		require.Equal(t, os.ErrDeadlineExceeded, q.WaitRoom(53, cancel))
		require.Zero(t, q.roomers.Load())
		q.Interrupt()

		q.roomers.Add(1) // as one who has looked, and does not wait yet
		_, err := q.ReadAppend(nil, &d)
		require.NoError(t, err)
		q.roomers.Add(-1)
		require.Len(t, q.roomWake, 1)
		require.NoError(t, q.WaitRoom(53, nil))

		q.End(errors.New("over"))
		require.Equal(t, net.ErrClosed, q.WaitRoom(0, nil))
		require.Zero(t, q.roomers.Load())
	})
}

// A tiringPoller counts how often somebody looks, and ends what would not end.
type tiringPoller struct {
	q     *Inbox
	looks atomic.Int32
}

func (p *tiringPoller) ReadInline(*deadline.Deadline, Readers) bool {
	if p.looks.Add(1) == 100 {
		p.q.End(errors.New("looked too often"))
	}
	return false
}

func (p *tiringPoller) InterruptInline(Readers) {}

// Of several Reads that wait one is woken, and wakes none where nothing has come. All
// of them learn of a deadline.
func TestWokenInVain(t *testing.T) {
	for _, wait := range []time.Duration{0, time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			q := newInbox(1000)
			p := &tiringPoller{q: q}
			q.SetPoller(p)
			var d deadline.Deadline
			if wait > 0 {
				d.Set(time.Now().Add(wait))
			}
			var wg sync.WaitGroup
			var ended [3]error
			for i := range ended {
				wg.Go(func() { _, ended[i] = q.ReadAppend(nil, &d) })
			}
			synctest.Wait()
			require.EqualValues(t, 3, p.looks.Swap(0), "before they wait")
			q.Kick()
			synctest.Wait()
			looks := p.looks.Swap(0)
			begin := time.Now()
			d.Set(begin.Add(time.Minute))
			q.Interrupt()
			wg.Wait()
			require.EqualValues(t, 1, looks, "one is woken")
			require.Equal(t, time.Minute, time.Since(begin))
			for _, err := range ended {
				require.Equal(t, os.ErrDeadlineExceeded, err)
			}
		})
	}
}
