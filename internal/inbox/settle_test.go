package inbox

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"volley/internal/deadline"
)

// A reader tells the producer's side of what it has read only now and then. Nobody
// may see a difference: each of these looks at a queue from which a few messages
// have just been read, far fewer than a reader tells of by itself.
func TestReadCountsAtOnce(t *testing.T) {
	const size, limit, read = 10 - MessageOverhead, 64 * 1000, 3
	setup := func(t *testing.T) *Inbox {
		q := new(Inbox)
		q.Init(limit, nil)
		q.Lock()
		for range limit / 10 {
			require.True(t, q.Push(make([]byte, size)))
		}
		require.False(t, q.Push(nil))
		q.Unlock()
		for range read {
			_, _, err := q.Read(make([]byte, size), new(deadline.Deadline))
			require.NoError(t, err)
		}
		require.Less(t, int64(limit-read*10), q.used.Load(), "nothing is left to tell")
		return q
	}
	room := read*10 - MessageOverhead

	t.Run("Len", func(t *testing.T) { require.Equal(t, limit-read*10, setup(t).Len()) })
	t.Run("HasRoom", func(t *testing.T) {
		require.True(t, setup(t).HasRoom(room))
		require.False(t, setup(t).HasRoom(room+1))
	})
	t.Run("Push", func(t *testing.T) {
		q := setup(t)
		q.Lock()
		require.False(t, q.Push(make([]byte, room+1)))
		require.True(t, q.Push(make([]byte, room)))
		require.False(t, q.Push(nil))
		q.Unlock()
		require.Equal(t, limit, q.Len())
	})
	t.Run("WaitRoom", func(t *testing.T) {
		cancel := make(chan struct{})
		close(cancel)
		require.NoError(t, setup(t).WaitRoom(room, cancel))
		require.Error(t, setup(t).WaitRoom(room+1, cancel))
	})
	t.Run("OnRoom", func(t *testing.T) {
		q, called := setup(t), 0
		q.OnRoom(room, func() { called++ })
		require.Equal(t, 1, called)
		q.OnRoom(room+1, func() { called++ })
		require.Equal(t, 1, called)
		_, _, err := q.Read(nil, new(deadline.Deadline))
		require.NoError(t, err)
		require.Equal(t, 2, called, "one more message was read")
	})
	t.Run("Fail", func(t *testing.T) {
		q := setup(t)
		q.Fail(errors.New("over"))
		require.Zero(t, q.used.Load())
	})
}

// What a reader has not told of is bounded, and nothing once it has read all.
func TestReadTells(t *testing.T) {
	for _, test := range []struct{ size, limit, bound int }{
		{10, freedShare * 1000, 1000},
		{1 << 10, 2 * freedShare * maxLump, maxLump},
	} {
		q := new(Inbox)
		q.Init(test.limit, nil)
		q.Lock()
		for range test.limit / test.size {
			require.True(t, q.Push(make([]byte, test.size-MessageOverhead)))
		}
		q.Unlock()
		for left := test.limit - test.size; left >= 0; left -= test.size {
			_, _, err := q.Read(nil, new(deadline.Deadline))
			require.NoError(t, err)
			require.LessOrEqual(t, q.used.Load(), int64(left+test.bound))
		}
		require.Zero(t, q.used.Load())
	}
}
