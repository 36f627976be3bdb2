package inbox

import (
	"testing"

	"github.com/stretchr/testify/require"

	"volley/internal/deadline"
)

// A numbered Inbox keeps a number for each message, which counts against its
// limit; another one has none.
func TestNumbered(t *testing.T) {
	var d deadline.Deadline
	q := new(Inbox)
	q.Init(3*(NumberedOverhead+3), nil)
	q.Numbered()
	q.Lock()
	require.True(t, q.PushNumbered([]byte("one"), 1<<40))
	require.True(t, q.Push([]byte("two")))
	require.True(t, q.PushNumbered([]byte("big"), 1<<64-1))
	require.False(t, q.PushNumbered(nil, 1))
	q.Unlock()
	require.Equal(t, 3*(NumberedOverhead+3), q.Len())
	p, number, err := q.ReadNumbered([]byte("and "), &d)
	require.NoError(t, err)
	require.Equal(t, "and one", string(p))
	require.EqualValues(t, uint64(1<<40), number)
	b := make([]byte, 2)
	n, size, err := q.Read(b, &d)
	require.NoError(t, err)
	require.Equal(t, "tw 3", string(b[:n])+" "+string(rune('0'+size)))
	p, number, err = q.ReadNumbered(nil, &d)
	require.NoError(t, err)
	require.Equal(t, "big", string(p))
	require.EqualValues(t, uint64(1<<64-1), number)
	require.Zero(t, q.Len())

	q = new(Inbox)
	q.Init(100, nil)
	q.Lock()
	q.PushNumbered([]byte("x"), 7)
	q.Unlock()
	require.Equal(t, MessageOverhead+1, q.Len())
	_, number, err = q.ReadNumbered(nil, &d)
	require.NoError(t, err)
	require.Zero(t, number)
}

// The limit holds within a batch, too, and for messages with origins.
func TestLimitOfOrigins(t *testing.T) {
	const size = 10
	var q Inbox
	q.Init(2*(MessageOverhead+size), nil)
	origins := []*Origin{{Limit: 1000}, {Limit: 1000}}
	for range 3 {
		q.Lock()
		for i := range 4 {
			if got, want := q.PushFrom(make([]byte, size), origins[i%2]), i < 2; got != want {
				t.Errorf("PushFrom of message %d = %v, want %v", i, got, want)
			}
		}
		q.Unlock()
		for range 2 {
			if _, _, _, err := q.ReadFrom(make([]byte, size), new(deadline.Deadline)); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// There is room for a message if it would be taken, its number included: who has
// waited for room must not lose the message.
func TestNumberedRoom(t *testing.T) {
	const limit = 100
	for n := range limit {
		q := new(Inbox)
		q.Init(limit, nil)
		q.Numbered()
		q.Lock()
		require.True(t, q.Push([]byte("x")))
		q.Unlock()
		room := q.HasRoom(n)
		q.Lock()
		taken := q.Push(make([]byte, n))
		q.Unlock()
		require.Equal(t, taken, room, "%d bytes", n)
	}
}

// A message is read in pieces, which keep its number; what is left counts as a message
// of that length.
func TestReadPart(t *testing.T) {
	for _, numbered := range []bool{false, true} {
		var q Inbox
		var d deadline.Deadline
		q.Init(1<<20, nil)
		if numbered {
			q.Numbered()
		}
		q.Lock()
		for i, m := range []string{"abcdefghij", "", "k", "lm"} {
			require.True(t, q.PushNumbered([]byte(m), uint64(i+7)))
		}
		q.Unlock()
		var got []string
		for i := range 7 {
			used := q.Len()
			buf := make([]byte, []int{1, 4, 4, 4, 3, 3, 1}[i])
			n, err := q.ReadPart(buf, &d)
			require.NoError(t, err)
			got = append(got, string(buf[:n]))
			if i < 2 {
				require.Equal(t, used-n, q.Len())
			}
			if numbered && i == 1 {
				p, number, err := q.ReadNumbered(nil, &d)
				require.NoError(t, err)
				require.Equal(t, "fghij", string(p))
				require.EqualValues(t, 7, number)
				return
			}
		}
		require.Equal(t, []string{"a", "bcde", "fghi", "j", "", "k", "l"}, got)
		p, err := q.ReadAppend(nil, &d)
		require.NoError(t, err)
		require.Equal(t, "m", string(p))
		require.Zero(t, q.Len())
	}
}
