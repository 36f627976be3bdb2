package inbox

import (
	"math"
	"slices"
	"testing"

	"volley/internal/deadline"

	"github.com/stretchr/testify/require"
)

// One short message holds little memory, more of them more at a time, and what
// comes after a flood begins as a flood.
func TestChunksGrow(t *testing.T) {
	var asked []int
	q := new(Inbox)
	q.Init(1<<20, func(n int) bool {
		if n > 0 {
			asked = append(asked, n)
		}
		return true
	})
	var d deadline.Deadline
	flood := func(n int) {
		for range n {
			push(q, string(make([]byte, 1000)))
		}
		for range n {
			q.ReadAppend(nil, &d)
		}
	}
	check := func(when string, want ...int) {
		t.Helper()
		if !slices.Equal(asked, want) {
			t.Errorf("%s: chunks of %v bytes, want %v", when, asked, want)
		}
		asked = nil
	}
	flood(1)
	check("one message", 1<<10)
	flood(1)
	check("the next one", 1<<10)
	flood(80)
	check("a flood", 1<<10, 8<<10, 64<<10, 64<<10)
	flood(80)
	check("another one", 64<<10, 64<<10)
	flood(60)
	check("what fits one chunk", 64<<10)
	flood(1)
	check("after that", 1<<10)
}

// The budget that was set last is asked, and given back to.
func TestSetReserve(t *testing.T) {
	var first, second int
	q := new(Inbox)
	q.Init(1<<20, func(n int) bool { first += n; return true })
	q.SetReserve(func(n int) bool { second += n; return true })
	push(q, "x")
	if first != 0 || second == 0 {
		t.Errorf("%d bytes asked of the first, %d of the second function", first, second)
	}
	var d deadline.Deadline
	q.ReadAppend(nil, &d)
	if second != 0 {
		t.Errorf("%d bytes not given back", second)
	}
}

// An Inbox of many origins bounds what waits of each, and of all, and gives both
// free when it is read.
func TestOriginsAreBounded(t *testing.T) {
	const each = MessageOverhead + 10
	q := newInbox(5 * each)
	a, b := &Origin{Limit: 3 * each}, &Origin{Limit: 3 * each}
	pushFrom := func(o *Origin, n int) (taken int) {
		q.Lock()
		defer q.Unlock()
		for range n {
			if q.PushFrom(make([]byte, 10), o) {
				taken++
			}
		}
		return taken
	}
	if n := pushFrom(a, 5); n != 3 || a.Len() != 3*each {
		t.Errorf("%d of 5 taken of an origin, %d bytes, want 3, %d", n, a.Len(), 3*each)
	}
	if n := pushFrom(b, 5); n != 2 || q.Len() != 5*each {
		t.Errorf("%d of 5 taken of another one, %d bytes of both, want 2, %d", n, q.Len(), 5*each)
	}
	var d deadline.Deadline
	for i := range 5 {
		want := a
		if i >= 3 {
			want = b
		}
		if n, size, from, err := q.ReadFrom(make([]byte, 4), &d); n != 4 || size != 10 || from != want || err != nil {
			t.Errorf("ReadFrom = %d, %d, of the right origin: %v, %v", n, size, from == want, err)
		}
	}
	if a.Len() != 0 || b.Len() != 0 || q.Len() != 0 {
		t.Errorf("%d, %d and %d bytes of what was read", a.Len(), b.Len(), q.Len())
	}
	asked := 0
	b.Reserve = func(n int) bool { asked = n; return false }
	const small = 1024 + 1024/originEach*originSize // bytes, with the references to origins
	if n := pushFrom(b, 1); n != 0 || asked != small {
		t.Errorf("%d taken where the origin is refused memory, asked for %d, want 0 and %d", n, asked, small)
	}

	q = newInbox(1 << 20)
	many := &Origin{Limit: 1 << 20} // more small messages than a chunk has room for origins
	for range 100 {
		if q.Lock(); !q.PushFrom([]byte{1}, many) {
			t.Fatal("refused")
		}
		q.Unlock()
	}
	for range 100 {
		if _, _, from, err := q.ReadFrom(make([]byte, 4), &d); from != many || err != nil {
			t.Fatalf("ReadFrom: %v", err)
		}
	}
}

// A message that must not be refused is kept in memory of its own size if no piece
// of the usual size is granted, and that memory is told of when it is given back.
func TestPushKept(t *testing.T) {
	var q Inbox
	granted, given := true, 0
	q.Init(math.MaxInt, func(delta int) bool {
		if delta > 0 && !granted {
			return false
		}
		given += delta
		return true
	})
	q.Lock()
	kept, ok := q.PushKept(make([]byte, 100))
	require.True(t, ok)
	require.Zero(t, kept)
	require.Equal(t, 1<<10, given)
	granted = false
	kept, ok = q.PushKept(make([]byte, 2000))
	require.True(t, ok)
	require.Equal(t, lengthSize+2000+chunkHead, kept)
	require.Equal(t, 1<<10, given)
	q.Unlock()
	for _, want := range []int{100, 2000} {
		b, err := q.ReadAppend(nil, new(deadline.Deadline))
		require.NoError(t, err)
		require.Len(t, b, want)
	}
	require.Equal(t, -kept, given)
}
