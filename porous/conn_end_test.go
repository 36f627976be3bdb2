package porous

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"volley/simnet"
)

func TestCloseDelivers(t *testing.T) {
	bubbles(t, func(t *testing.T, pair pairing) {
		link := simnet.Link{Latency: 20 * time.Millisecond, Loss: 0.2}
		a, b, _ := pair(t, link, &Config{Channels: 2, CloseTimeout: time.Minute})
		defer abort(b)
		for i := range 500 {
			_, err := a.Channel(i % 2).Write(fmt.Appendf(nil, "%d", i))
			require.NoError(t, err)
		}
		require.NoError(t, a.Close())
		require.NoError(t, a.Close())
		for i := range 500 {
			require.Equal(t, fmt.Sprint(i), readString(t, b.Channel(i%2)))
		}
		for n := range 2 {
			_, err := b.Channel(n).Read(make([]byte, 1))
			require.Equal(t, io.EOF, err, "the end is every channel's")
			_, err = b.Channel(n).Write([]byte("x"))
			require.ErrorIs(t, err, io.ErrClosedPipe)
			require.NotErrorIs(t, err, net.ErrClosed)
		}
		_, err := a.Read(make([]byte, 1))
		require.ErrorIs(t, err, net.ErrClosed)
		_, err = a.Write([]byte("x"))
		require.ErrorIs(t, err, net.ErrClosed)
		require.ErrorIs(t, a.SetDeadline(time.Time{}), net.ErrClosed)
		require.NoError(t, b.Close())
	})
}

// Who has delivered everything learns that, also if the other side closes as soon
// as it has it, and acknowledgements are lost or overtaken by the end. Only if all
// are lost, however often the end was told, it does not: once in ten thousand times.
func TestCloseKnowsWhatArrived(t *testing.T) {
	bubbles(t, func(t *testing.T, pair pairing) {
		link := simnet.Link{Latency: 10 * time.Millisecond, Loss: 0.1, Duplicate: 0.1, Reorder: 0.1, ReorderBy: 5 * time.Millisecond}
		unknowing := 0
		for range 300 {
			a, b, _ := pair(t, link, nil)
			a.Write([]byte("the last word"))
			require.Equal(t, "the last word", readString(t, b))
			require.NoError(t, b.Close())
			if _, err := a.Read(make([]byte, 1)); err != io.EOF {
				require.ErrorIs(t, err, ErrIdleTimeout)
				unknowing++
			} else if a.Close() != nil {
				unknowing++
			}
			abort(a, b)
		}
		require.LessOrEqual(t, unknowing, 3)
	})
}

func TestCloseSaysWhatItDidNotDeliver(t *testing.T) {
	bubbles(t, func(t *testing.T, pair pairing) {
		a, b, change := pair(t, simnet.Link{}, nil)
		defer abort(b)
		require.NoError(t, a.Flush(t.Context()))
		change(simnet.Link{Blackout: true})
		a.Write([]byte("three"))
		a.Write([]byte("reliable"))
		a.Write([]byte("ones"))
		a.WriteMessage(t.Context(), []byte("not counted"), Unreliable)
		start := time.Now()
		err := a.Close()
		require.Equal(t, 5*time.Second, time.Since(start).Round(time.Second))
		var lost *UndeliveredError
		require.ErrorAs(t, err, &lost)
		require.Equal(t, 3, lost.Messages)
		require.Equal(t, 17, lost.Bytes)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		receipts := a.AppendReceipts(nil)
		require.Len(t, receipts, 4)
		for _, r := range receipts {
			require.Equal(t, Lost, r.Fate)
		}
	})
}

func TestShutdownAndAbort(t *testing.T) {
	bubbles(t, func(t *testing.T, pair pairing) {
		a, b, _ := pair(t, simnet.Link{Latency: 100 * time.Millisecond}, nil)
		require.NoError(t, a.Flush(t.Context()))
		a.Write([]byte("x"))
		a.WriteMessage(t.Context(), []byte("not counted"), Unreliable)
		a.WriteMessage(t.Context(), []byte("not counted"), Passive)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		err := a.Shutdown(ctx)
		var lost *UndeliveredError
		require.ErrorAs(t, err, &lost)
		require.Equal(t, UndeliveredError{1, 1, context.Canceled}, *lost)
		require.Equal(t, err, a.Close(), "the first result")

		b.Write([]byte("x"))
		start := time.Now()
		require.NoError(t, b.Abort())
		require.Zero(t, time.Since(start))
		_, err = b.Read(make([]byte, 1))
		require.ErrorIs(t, err, net.ErrClosed)
		require.NoError(t, b.Close())
	})
}

// Once everything is acknowledged, Close does not wait for long for a peer that
// is gone.
func TestCloseOfAPeerThatIsGone(t *testing.T) {
	bubbles(t, func(t *testing.T, pair pairing) {
		a, b, change := pair(t, simnet.Link{Latency: 10 * time.Millisecond}, nil)
		defer abort(b)
		a.Write([]byte("x"))
		require.NoError(t, a.Flush(t.Context()))
		change(simnet.Link{Blackout: true})
		start := time.Now()
		require.NoError(t, a.Close())
		require.Equal(t, 1100*time.Millisecond, time.Since(start))
	})
}

// Abort ends a Close that waits.
func TestAbortEndsClose(t *testing.T) {
	bubbles(t, func(t *testing.T, pair pairing) {
		cfg := &Config{CloseTimeout: time.Hour, HandshakeTimeout: time.Hour}
		a, b, _ := pair(t, simnet.Link{Blackout: true}, cfg)
		defer abort(b)
		a.Write([]byte("nobody is there"))
		time.AfterFunc(time.Second, func() { a.Abort() })
		start := time.Now()
		require.ErrorAs(t, a.Close(), new(*UndeliveredError))
		require.Equal(t, time.Second, time.Since(start))
	})
}

// A peer that aborts is an end in order, as far as the protocol knows; what it
// has not acknowledged is named.
func TestPeerAborts(t *testing.T) {
	bubbles(t, func(t *testing.T, pair pairing) {
		a, b, _ := pair(t, simnet.Link{Latency: 10 * time.Millisecond}, &Config{Channels: 4})
		require.NoError(t, a.Flush(t.Context()))
		for n := range 2 {
			b.Channel(n).Write([]byte("read me"))
			b.Channel(n).Write([]byte("not read"))
		}
		time.Sleep(time.Second)
		b.Abort()
		time.Sleep(time.Second)
		buf := make([]byte, 10)
		for n := range 2 {
			require.Equal(t, "read me", readString(t, a.Channel(n)))
		}
		_, err := a.Channel(2).Read(buf)
		require.Equal(t, io.EOF, err, "of a channel first used after the end")
		require.NoError(t, a.Close())
		for n := range 4 {
			_, err := a.Channel(n).Read(buf)
			require.ErrorIs(t, err, net.ErrClosed, "channel %d: what nobody has read is dropped", n)
		}
	})
}

func TestIdleTimeout(t *testing.T) {
	bubbles(t, func(t *testing.T, pair pairing) {
		a, b, change := pair(t, simnet.Link{Latency: 10 * time.Millisecond}, nil)
		b.Write([]byte("read me first"))
		require.NoError(t, a.Flush(t.Context()))
		time.Sleep(time.Minute)
		require.Equal(t, "read me first", readString(t, a), "pings keep it alive")
		b.Write([]byte("and me"))
		time.Sleep(time.Second)
		a.Write([]byte("lost"))
		change(simnet.Link{Blackout: true})
		start := time.Now()
		time.Sleep(25 * time.Second)
		_, err := a.Write([]byte("x"))
		require.ErrorIs(t, err, ErrIdleTimeout)
		require.NotErrorIs(t, err, net.ErrClosed)
		require.False(t, err.(net.Error).Timeout())
		require.Equal(t, "and me", readString(t, a))
		_, err = a.Read(make([]byte, 1))
		require.ErrorIs(t, err, ErrIdleTimeout)
		require.LessOrEqual(t, time.Since(start), 25*time.Second)
		var lost *UndeliveredError
		require.ErrorAs(t, a.Close(), &lost)
		require.Equal(t, UndeliveredError{1, 4, ErrIdleTimeout}, *lost)
		abort(a, b)
	})
}

// However short IdleTimeout is, and however long KeepAlive, an idle connection
// lives as long as its peer answers.
func TestIdleTimeoutAndKeepAlive(t *testing.T) {
	for _, cfg := range []Config{
		{IdleTimeout: 3 * time.Second},
		{IdleTimeout: 200 * time.Millisecond},
		{IdleTimeout: 3 * time.Second, KeepAlive: time.Hour},
		{KeepAlive: time.Hour},
	} {
		bubbles(t, func(t *testing.T, pair pairing) {
			a, b, change := pair(t, simnet.Link{Latency: 10 * time.Millisecond}, &cfg, &Config{KeepAlive: 10 * time.Second})
			defer abort(a, b)
			require.NoError(t, a.Flush(t.Context()))
			time.Sleep(5 * time.Minute)
			require.NoError(t, a.Flush(t.Context()), "%+v", cfg)
			change(simnet.Link{Blackout: true})
			start := time.Now()
			_, err := a.Read(make([]byte, 1))
			require.ErrorIs(t, err, ErrIdleTimeout)
			idle := cmp.Or(cfg.IdleTimeout, 20*time.Second)
			require.Greater(t, time.Since(start), idle/3)
			require.LessOrEqual(t, time.Since(start), idle)
		})
	}
}

func TestChannelClose(t *testing.T) {
	bubbles(t, func(t *testing.T, pair pairing) {
		a, b, _ := pair(t, simnet.Link{Latency: 10 * time.Millisecond}, &Config{Channels: 2})
		defer abort(a, b)
		ch := b.Channel(1)
		done := make(chan error)
		go func() {
			_, err := ch.Read(make([]byte, 1))
			done <- err
		}()
		synctest.Wait()
		require.NoError(t, ch.Close())
		require.NoError(t, ch.Close())
		require.ErrorIs(t, <-done, net.ErrClosed)
		_, err := ch.Write([]byte("x"))
		require.ErrorIs(t, err, net.ErrClosed)
		require.ErrorIs(t, ch.SetDeadline(time.Time{}), net.ErrClosed)
		for range 100 {
			a.Channel(1).Write(make([]byte, 60_000)) // dropped there
		}
		a.Write([]byte("the others live on"))
		require.Equal(t, "the others live on", readString(t, b))
		require.NoError(t, a.Flush(t.Context()))
		require.EqualValues(t, 100, b.Stats().MessagesDropped)
	})
}
