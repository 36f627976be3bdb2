package datagram

import (
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"volley/internal/testenv"
	"volley/internal/wire"
)

type testAddr string

func (testAddr) Network() string  { return "test" }
func (a testAddr) String() string { return string(a) }

func write(c Conn, ds ...string) error {
	var b wire.Batch
	for _, d := range ds {
		b.Append([]byte(d))
	}
	return c.WriteBatch(&b)
}

// A datagram has been handled, and answered, when WriteBatch returns.
func TestPipeIsDirect(t *testing.T) {
	a, b := NewPipe(testAddr("a"), testAddr("b"))
	ha := new(fakeHandler)
	hb := &fakeHandler{batch: func(bufs [][]byte, out *wire.Batch) { out.Append(append([]byte("re:"), bufs[0]...)) }}
	a.Attach(ha)
	b.Attach(hb)
	if a.Attach(ha) == nil {
		t.Error("Attach twice: no error")
	}
	write(a, "one", "two")
	wantStrings(t, "b", hb.received(), "one", "two")
	wantStrings(t, "a", ha.received(), "re:one")
	if a.LocalAddr() != testAddr("a") || a.RemoteAddr() != testAddr("b") {
		t.Errorf("addresses %v, %v, want a, b", a.LocalAddr(), a.RemoteAddr())
	}
}

// What comes before Attach is kept, up to a limit, and comes first.
func TestPipeEarly(t *testing.T) {
	a, b := NewPipe(testAddr("a"), testAddr("b"))
	a.Attach(new(fakeHandler))
	write(a, "one", "two")
	write(a, "three")
	big := string(make([]byte, 1000))
	for range 1000 {
		write(a, big)
	}
	h := new(fakeHandler)
	b.Attach(h)
	write(a, "four")
	got := h.received()
	if n := len(got); n > 4+maxEarly/1000+1 {
		t.Errorf("%d datagrams, want at most %d", n, 4+maxEarly/1000+1)
	}
	wantStrings(t, "first", got[:3], "one", "two", "three")
	wantStrings(t, "last", got[len(got)-1:], "four")
}

// Who attaches after the other side's Close learns of it.
func TestPipeAttachAfterClose(t *testing.T) {
	a, b := NewPipe(testAddr("a"), testAddr("b"))
	a.Attach(new(fakeHandler))
	write(a, "last words")
	a.Close()
	h := new(fakeHandler)
	b.Attach(h)
	wantStrings(t, "received", h.received(), "last words")
	if len(h.ended()) != 1 || h.ended()[0] != io.EOF {
		t.Errorf("HandleClose got %v, want io.EOF", h.ended())
	}
	b.Close()
	if b.Attach(h) == nil {
		t.Error("Attach after Close: no error")
	}
}

func TestPipeClose(t *testing.T) {
	a, b := NewPipe(testAddr("a"), testAddr("b"))
	ha := new(fakeHandler)
	hb := &fakeHandler{close: func(error) { b.Close() }}
	a.Attach(ha)
	b.Attach(hb)
	a.Close()
	a.Close()
	if len(hb.ended()) != 1 || hb.ended()[0] != io.EOF {
		t.Errorf("the other side heard %v, want one io.EOF", hb.ended())
	}
	if len(ha.ended()) != 0 {
		t.Errorf("this side heard %v, want nothing", ha.ended())
	}
	if err := write(a, "x"); err != net.ErrClosed {
		t.Errorf("WriteBatch after Close: %v, want net.ErrClosed", err)
	}
	if err := a.WaitWritable(1, nil); err != net.ErrClosed {
		t.Errorf("WaitWritable after Close: %v, want net.ErrClosed", err)
	}
	wantStrings(t, "received after Close", ha.received())
}

// Both ends are closed at once, also from within.
func TestPipeCloseBoth(t *testing.T) {
	for range 200 {
		a, b := NewPipe(testAddr("a"), testAddr("b"))
		ha := &fakeHandler{close: func(error) { a.Close() }, batch: func([][]byte, *wire.Batch) { a.Close() }}
		hb := &fakeHandler{close: func(error) { b.Close() }, batch: func([][]byte, *wire.Batch) { b.Close() }}
		a.Attach(ha)
		b.Attach(hb)
		var wg sync.WaitGroup
		for _, c := range []*PipeConn{a, b} {
			wg.Go(func() { write(c, "x") })
			wg.Go(func() { c.Close() })
			wg.Go(func() { c.Schedule(time.Now()) })
		}
		wg.Wait()
		if len(ha.ended()) > 1 || len(hb.ended()) > 1 {
			t.Fatalf("HandleClose was called %d, %d times, want at most once", len(ha.ended()), len(hb.ended()))
		}
	}
}

// A roomyHandler has room when the test says so.
type roomyHandler struct {
	fakeHandler
	wait func(n int, cancel <-chan struct{}) error
}

func (h *roomyHandler) WaitRoom(n int, cancel <-chan struct{}) error { return h.wait(n, cancel) }

func TestPipeWaitWritable(t *testing.T) {
	for _, test := range []struct {
		says, want error
	}{
		{nil, nil},
		{os.ErrDeadlineExceeded, os.ErrDeadlineExceeded},
		{net.ErrClosed, ErrPeerClosed},
	} {
		a, b := NewPipe(testAddr("a"), testAddr("b"))
		a.Attach(new(fakeHandler))
		if err := a.WaitWritable(7, nil); err != nil {
			t.Errorf("WaitWritable before Attach: %v", err)
		}
		b.Attach(&roomyHandler{wait: func(n int, _ <-chan struct{}) error {
			if n != 7 {
				t.Errorf("WaitRoom(%d), want 7", n)
			}
			return test.says
		}})
		if err := a.WaitWritable(7, nil); err != test.want {
			t.Errorf("WaitWritable = %v, want %v", err, test.want)
		}
		if err := b.WaitWritable(7, nil); err != nil {
			t.Errorf("WaitWritable towards a Handler without limit: %v", err)
		}
		b.Close()
		if err := a.WaitWritable(7, nil); err != ErrPeerClosed {
			t.Errorf("WaitWritable after the other side's Close: %v", err)
		}
	}
}

func TestPipeTicks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := NewPipe(testAddr("a"), testAddr("b"))
		n := 0
		ha := &fakeHandler{tick: func(now time.Time, out *wire.Batch) time.Time {
			n++
			out.Append(fmt.Append(nil, n))
			return now.Add(time.Second)
		}}
		hb := new(fakeHandler)
		a.Schedule(time.Now()) // before there is anybody to call
		time.Sleep(time.Second)
		a.Attach(ha)
		b.Attach(hb)
		a.Schedule(time.Now().Add(time.Second))
		time.Sleep(3500 * time.Millisecond)
		wantStrings(t, "received", hb.received(), "1", "2", "3")
		a.Close()
		time.Sleep(time.Minute)
		if n != 3 {
			t.Errorf("%d ticks, want 3", n)
		}
		b.Close()
	})
}

// Handlers that answer each other's answers need no more stack for many of them
// than for a few, whether they answer by the batch or by a call of their own.
func TestPipeAnswersAnswers(t *testing.T) {
	const answers = 100_000
	for _, direct := range []bool{false, true} {
		a, b := NewPipe(testAddr("a"), testAddr("b"))
		count, deepest := 0, 0
		var calls [1000]uintptr
		answer := func(c Conn) Handler {
			return &fakeHandler{batch: func(_ [][]byte, out *wire.Batch) {
				deepest = max(deepest, runtime.Callers(0, calls[:]))
				if count++; count >= answers {
					return
				}
				if direct {
					write(c, "x")
				} else {
					out.Append([]byte("x"))
				}
			}}
		}
		require.NoError(t, a.Attach(answer(a)))
		require.NoError(t, b.Attach(answer(b)))
		require.NoError(t, write(a, "x"))
		require.Equal(t, answers, count)
		require.Less(t, deepest, 50, "calls within each other, answering directly: %v", direct)
	}
}

// What is written while the Handler is busy with something else comes next, in
// order; who waits for room waits until it has been dealt with; and the end
// comes behind it.
func TestPipeBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := NewPipe(testAddr("a"), testAddr("b"))
		busy := make(chan struct{})
		h := &fakeHandler{batch: func([][]byte, *wire.Batch) { <-busy }}
		require.NoError(t, b.Attach(h))
		go write(a, "1")
		synctest.Wait()
		require.NoError(t, write(a, "2", "3"))
		require.Equal(t, []string{"1"}, h.received())
		cancel := make(chan struct{})
		close(cancel)
		require.ErrorIs(t, a.WaitWritable(1, cancel), os.ErrDeadlineExceeded)
		room := make(chan error, 1)
		go func() { room <- a.WaitWritable(1, nil) }()
		synctest.Wait()
		require.Empty(t, room)
		busy <- struct{}{}
		busy <- struct{}{}
		require.NoError(t, <-room)
		go write(a, "4")
		synctest.Wait()
		require.NoError(t, write(a, "5"))
		require.NoError(t, a.Close())
		require.Empty(t, h.ended())
		busy <- struct{}{}
		busy <- struct{}{}
		synctest.Wait()
		require.Equal(t, []string{"1", "2", "3", "4", "5"}, h.received())
		require.Equal(t, []error{io.EOF}, h.ended())
		require.NoError(t, b.Close())
	})
}

// A Handler that panics is called for what comes next all the same.
func TestPipePanic(t *testing.T) {
	a, b := NewPipe(testAddr("a"), testAddr("b"))
	h := &fakeHandler{batch: func(bufs [][]byte, _ *wire.Batch) {
		if string(bufs[0]) == "panic" {
			panic("on purpose")
		}
	}}
	require.NoError(t, b.Attach(h))
	require.Panics(t, func() { write(a, "panic") })
	require.NoError(t, write(a, "next"))
	require.Equal(t, []string{"panic", "next"}, h.received())
}

func TestPipeNoAllocation(t *testing.T) {
	if testenv.Race {
		t.Skip("the race detector changes what is allocated")
	}
	a, b := NewPipe(testAddr("a"), testAddr("b"))
	a.Attach(silentHandler{})
	b.Attach(echoHandler{})
	var out wire.Batch
	out.Append([]byte("hello"))
	if n := testing.AllocsPerRun(1000, func() { a.WriteBatch(&out) }); n >= 1 {
		t.Errorf("%v allocations to write and be answered, want 0", n)
	}
}

type silentHandler struct{ echoHandler }

func (silentHandler) HandleBatch(time.Time, [][]byte, *wire.Batch) {}
