package datagram

import (
	"errors"
	"io"
	"net"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"volley/internal/deadline"
)

// After each 16 passing errors in a row there is a pause, of 1 ms at first, twice as
// long each time, and of 100 ms at most. A packet begins anew; an error that is none
// of those ends the socket.
func TestBackoff(t *testing.T) {
	var b backoff
	for range 2 {
		for _, ms := range []int{1, 2, 4, 8, 16, 32, 64, 100, 100, 100} {
			for i := range 16 {
				pause, again := b.failed(syscall.ECONNREFUSED)
				require.True(t, again)
				if i < 15 {
					require.Zero(t, pause)
				} else {
					require.Equal(t, time.Duration(ms)*time.Millisecond, pause)
				}
			}
		}
		for _, err := range []error{net.ErrClosed, errBroken} {
			pause, again := b.failed(err)
			require.False(t, again)
			require.Zero(t, pause)
		}
		b.ok()
	}
	b.failures = 1 << 30 // for weeks
	pause, again := b.failed(syscall.ECONNREFUSED)
	require.True(t, again)
	require.Zero(t, pause)
}

// A pause ends at the deadline, also one that is set meanwhile.
func TestPauseUntil(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, test := range []struct{ pause, deadline, want time.Duration }{
			{0, 0, 0},
			{time.Second, 0, time.Second},
			{time.Second, 2 * time.Second, time.Second},
			{time.Second, time.Millisecond, time.Millisecond},
			{time.Second, -1, 0},
			{1, 0, 1},
		} {
			var d deadline.Deadline
			if test.deadline != 0 {
				d.Set(time.Now().Add(test.deadline))
			}
			begin := time.Now()
			pauseUntil(&d, test.pause)
			require.Equal(t, test.want, time.Since(begin), "%v", test)
		}
		var d deadline.Deadline
		begin := time.Now()
		time.AfterFunc(time.Millisecond, d.Expire)
		pauseUntil(&d, time.Second)
		require.Equal(t, time.Millisecond, time.Since(begin))
	})
}

// What a write meets after the peer's end is that of net.Pipe, and that of every
// connection, and nothing else.
func TestErrPeerClosed(t *testing.T) {
	require.ErrorIs(t, ErrPeerClosed, io.ErrClosedPipe)
	require.NotErrorIs(t, ErrPeerClosed, net.ErrClosed)
	require.False(t, errors.Is(ErrPeerClosed, io.EOF))
	require.EqualError(t, ErrPeerClosed, "closed by the peer")
}
