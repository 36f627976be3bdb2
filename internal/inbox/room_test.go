package inbox

import (
	"io"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"volley/internal/deadline"
)

// OnRoom calls once, at once if there is room, and else as soon as a Read has
// made enough of it, or the inbox ends.
func TestOnRoom(t *testing.T) {
	q := newInbox(100)
	var d deadline.Deadline
	calls := 0
	call := func() { calls++ }
	read := func() {
		_, err := q.ReadAppend(nil, &d)
		require.NoError(t, err)
	}
	q.OnRoom(1000, call) // an empty inbox is as much room as there ever is
	require.Equal(t, 1, calls)
	push(q, "0123456789", string(make([]byte, 60)), "x")
	q.OnRoom(50, call)
	read()
	require.Equal(t, 1, calls, "10 bytes are not enough")
	read()
	require.Equal(t, 2, calls)
	read()
	require.Equal(t, 2, calls, "only once")

	push(q, string(make([]byte, 90)))
	q.OnRoom(50, func() { t.Error("replaced, and called all the same") })
	q.OnRoom(50, func() { t.Error("taken back, and called all the same") })
	q.OnRoom(0, nil)
	q.OnRoom(0, nil)
	var b [10]byte
	q.Read(b[:], &d)
	require.Zero(t, q.roomers.Load())

	push(q, string(make([]byte, 90)))
	q.OnRoom(50, call)
	q.End(io.EOF)
	require.Equal(t, 3, calls)
	q.OnRoom(50, call)
	require.Equal(t, 4, calls, "the inbox has ended")
	require.Zero(t, q.roomers.Load())
}

// A producer that goes on whenever there is room needs no goroutine to wait, and
// is never forgotten. What it calls may use the inbox.
func TestOnRoomConcurrent(t *testing.T) {
	const messages = 20_000
	q := newInbox(100)
	var busy atomic.Int32
	next := 0
	var produce func()
	produce = func() {
		if busy.Add(1) > 1 {
			t.Error("called twice at once")
		}
		full := false
		q.Lock()
		for next < messages && !full {
			if full = !q.Push([]byte(strconv.Itoa(next))); !full {
				next++
			}
		}
		q.Unlock()
		busy.Add(-1)
		if full {
			q.OnRoom(20, produce)
		} else {
			q.End(io.EOF)
		}
	}
	go produce()
	var d deadline.Deadline
	var b [20]byte
	for i := range messages {
		n, _, err := q.Read(b[:], &d)
		require.NoError(t, err)
		require.Equal(t, strconv.Itoa(i), string(b[:n]))
	}
	_, _, err := q.Read(b[:], &d)
	require.Equal(t, io.EOF, err)
}
