package netplay_test

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"volley/netplay"
)

type chat struct {
	From string `netplay:"0"`
	Text string `netplay:"1"`
}

type blob struct {
	Data []byte `netplay:"0"`
}

type empty struct{}

const (
	typeChat  = 2
	typeBlob  = 130
	typeEmpty = 123
)

func newRegistry(opts ...netplay.TypeOption) *netplay.Registry {
	reg := new(netplay.Registry)
	reg.MustAdd(typeChat, chat{}, opts...)
	reg.MustAdd(typeBlob, blob{}, opts...)
	reg.MustAdd(typeEmpty, empty{}, opts...)
	return reg
}

func newConn(t testing.TB, nc net.Conn, cfg *netplay.Config) *netplay.Conn {
	t.Helper()
	c, err := netplay.NewConn(nc, newRegistry(), cfg)
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	return c
}

// newPipe returns two connected Conns.
func newPipe(t testing.TB) (a, b *netplay.Conn) {
	x, y := net.Pipe()
	return newConn(t, x, nil), newConn(t, y, nil)
}

func TestConnDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, y := net.Pipe()
		c, peer := newConn(t, x, nil), newConn(t, y, nil)
		start := time.Now()
		c.SetReadDeadline(start.Add(time.Minute))
		_, err := c.ReadMessage(context.Background())
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
		var op *net.OpError
		require.ErrorAs(t, err, &op)
		require.NotErrorAs(t, op.Err, &op, "wrapped once")
		require.Equal(t, time.Minute, time.Since(start))

		// Nobody reads: the write fails before its first byte is taken, and the
		// connection goes on.
		c.SetWriteDeadline(time.Now().Add(time.Second))
		require.ErrorIs(t, c.WriteMessage(context.Background(), &chat{"a", "lost"}), os.ErrDeadlineExceeded)
		require.NoError(t, c.SetDeadline(time.Time{}))
		go c.WriteMessage(context.Background(), &chat{"a", "kept"})
		m, err := peer.ReadMessage(context.Background())
		require.NoError(t, err)
		require.Equal(t, &chat{"a", "kept"}, m)
	})
}

// TestConnReadDeadlineWithinFrame checks that a timeout takes nothing.
func TestConnReadDeadlineWithinFrame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, y := net.Pipe()
		c := newConn(t, x, nil)
		frame := []byte("\x00\x08\x00\x00\x02\x00\x01a\x00\x00")
		go y.Write(frame[:7])
		c.SetReadDeadline(time.Now().Add(time.Second))
		_, err := c.ReadMessage(context.Background())
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
		require.NotErrorIs(t, err, netplay.ErrFrameTimeout)
		c.SetReadDeadline(time.Time{})
		go y.Write(frame[7:])
		m, err := c.ReadMessage(context.Background())
		require.NoError(t, err)
		require.Equal(t, &chat{"a", ""}, m)
		y.Close()
	})
}

func TestConnFrameTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, y := net.Pipe()
		c := newConn(t, x, &netplay.Config{FrameTimeout: 3 * time.Second})
		var wg sync.WaitGroup
		defer wg.Wait()
		wg.Go(func() {
			time.Sleep(time.Hour) // silence between frames is no fault
			for _, b := range []byte("\x00\x08\x00\x00\x02\x00") {
				y.Write([]byte{b})
				time.Sleep(time.Second)
			}
		})
		start := time.Now()
		_, err := c.ReadMessage(context.Background())
		require.ErrorIs(t, err, netplay.ErrFrameTimeout)
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
		require.Equal(t, time.Hour+3*time.Second, time.Since(start))
		_, err = c.ReadMessage(context.Background())
		require.ErrorIs(t, err, netplay.ErrFrameTimeout, "it is final")
		y.Close()
	})
}

// The frame timeout is that of each frame, also where a stream never pauses
// between two frames, and where a handler takes its time.
func TestConnFrameTimeoutOfEachFrame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, y := net.Pipe()
		c := newConn(t, x, &netplay.Config{FrameTimeout: 3 * time.Second})
		frame := "\x00\x03\x00\x00\x7b"
		var wg sync.WaitGroup
		defer wg.Wait()
		defer y.Close()
		wg.Go(func() {
			y.Write([]byte(frame[:2]))
			for range 10 {
				time.Sleep(2 * time.Second)
				y.Write([]byte(frame[2:] + frame[:2]))
			}
		})
		for i := range 10 {
			if i == 5 {
				time.Sleep(10 * time.Second)
			}
			_, err := c.ReadMessage(context.Background())
			require.NoError(t, err, "frame %d", i)
		}
		start := time.Now()
		_, err := c.ReadMessage(context.Background())
		require.ErrorIs(t, err, netplay.ErrFrameTimeout, "half a frame, and no more")
		require.Equal(t, 3*time.Second, time.Since(start))
	})
}

func TestConnContexts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, peer := newPipe(t)
		cause := errors.New("no time")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, cause)
		defer cancel()
		_, err := c.ReadMessage(ctx)
		require.ErrorIs(t, err, cause)
		require.ErrorIs(t, c.WriteMessage(ctx, &chat{}), cause)
		_, err = c.ReadFrame(ctx)
		require.ErrorIs(t, err, cause)

		// A context that has ended leaves no trace, nor in a deadline.
		c.SetReadDeadline(time.Now().Add(time.Hour))
		go peer.WriteMessage(context.Background(), &chat{"b", "hi"})
		m, err := c.ReadMessage(t.Context())
		require.NoError(t, err)
		require.Equal(t, &chat{"b", "hi"}, m)
		start := time.Now()
		_, err = c.ReadMessage(context.Background())
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
		require.Equal(t, time.Hour, time.Since(start))

		// Those who wait for their turn give up, too.
		c.SetReadDeadline(time.Time{})
		var wg sync.WaitGroup
		for range 3 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			wg.Go(func() {
				defer cancel()
				_, err := c.ReadMessage(ctx)
				if !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("ReadMessageContext: %v", err)
				}
			})
		}
		wg.Wait()
	})
}

// TestConnTornWrite checks that nothing follows half a frame.
func TestConnTornWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, y := net.Pipe()
		c := newConn(t, x, nil)
		go io.ReadFull(y, make([]byte, 4))
		c.SetWriteDeadline(time.Now().Add(time.Second))
		require.ErrorIs(t, c.WriteMessage(context.Background(), &chat{"a", "b"}), os.ErrDeadlineExceeded)
		c.SetWriteDeadline(time.Time{})
		go io.Copy(io.Discard, y)
		require.ErrorContains(t, c.WriteMessage(context.Background(), &chat{"a", "b"}), "within a frame")
		y.Close()
	})
}

func TestConnClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, peer := newPipe(t)
		errs := make(chan error)
		go func() { _, err := c.ReadMessage(context.Background()); errs <- err }()
		go func() { _, err := c.ReadFrame(context.Background()); errs <- err }()
		go func() { errs <- c.WriteMessage(context.Background(), &chat{}) }()
		go func() { errs <- c.WriteMessage(context.Background(), &chat{}) }()
		synctest.Wait()
		require.NoError(t, c.Close())
		for range 4 {
			require.ErrorIs(t, <-errs, net.ErrClosed)
		}
		require.NoError(t, c.Close())
		require.ErrorIs(t, c.WriteMessage(context.Background(), &chat{}), net.ErrClosed)
		require.ErrorIs(t, context.Cause(c.Context()), net.ErrClosed)
		_, err := peer.ReadMessage(context.Background())
		require.Equal(t, io.EOF, err, "between frames")
	})
}

func TestConnEndWithinFrame(t *testing.T) {
	x, y := net.Pipe()
	c := newConn(t, x, nil)
	go func() {
		y.Write([]byte("\x00\x08\x00\x00\x02\x00\x01"))
		y.Close()
	}()
	_, err := c.ReadMessage(context.Background())
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
}

// TestConnStaysInStep checks that a message which cannot be read does not take
// others along, and that what is no frame ends the connection.
func TestConnStaysInStep(t *testing.T) {
	x, y := net.Pipe()
	c := newConn(t, x, nil)
	go func() {
		for _, frame := range []string{
			"\x00\x04\x00\x75\x30!",                // unknown type
			"\x00\x05\x00\x00\x02\x00\x09",         // body too short
			"\x00\x07\x01\x00\x02\x00\x00\x00\x00", // not compressed
			"\x00\x07\x02\x00\x02\x00\x00\x00\x00", // encrypted
			"\x00\x09\xfc\x00\x02\x00\x01a\x00\x00!",
			"\x00\x02",
			"\x00\x03\x00\x00\x7b",
		} {
			y.Write([]byte(frame))
		}
	}()
	for _, want := range []any{netplay.ErrUnknownType, netplay.ErrShortBody, new(*netplay.CompressionError), netplay.ErrEncrypted} {
		_, err := c.ReadMessage(context.Background())
		require.ErrorAs(t, err, new(*netplay.MessageError))
		if target, ok := want.(error); ok {
			require.ErrorIs(t, err, target)
		} else {
			require.ErrorAs(t, err, want)
		}
	}
	f, err := c.ReadFrame(context.Background())
	require.NoError(t, err)
	require.Equal(t, netplay.Reserved, f.Options)
	for range 2 {
		_, err = c.ReadMessage(context.Background())
		require.ErrorAs(t, err, new(*netplay.ProtocolError))
		require.ErrorAs(t, err, new(*net.OpError))
	}
	require.Equal(t, uint64(4), c.Stats().Malformed)
	require.Equal(t, uint64(5), c.Stats().MessagesReceived)
	y.Close()
}

// TestConnConcurrent has many write and read at once.
func TestConnConcurrent(t *testing.T) {
	a, b := newPipe(t)
	const writers, each = 8, 50
	var wg sync.WaitGroup
	for i := range writers {
		wg.Go(func() {
			for j := range each {
				if err := a.WriteBatch(context.Background(), &chat{string(rune('a' + i)), strings.Repeat("x", j)}, &empty{}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	var mu sync.Mutex
	last := make(map[string]int)
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			for {
				m, err := b.ReadMessage(context.Background())
				if err != nil {
					return
				}
				if m, ok := m.(*chat); ok {
					mu.Lock()
					last[m.From]++
					mu.Unlock()
				}
			}
		})
	}
	wg.Wait()
	a.Close()
	readers.Wait()
	require.Len(t, last, writers)
	for from, n := range last {
		require.Equal(t, each, n, from)
	}
	require.Equal(t, uint64(2*writers*each), a.Stats().MessagesSent)
	require.Equal(t, uint64(2*writers*each), b.Stats().MessagesReceived)
	require.Equal(t, a.Stats().BytesSent, b.Stats().BytesReceived)
}

func TestConnRefusals(t *testing.T) {
	a, _ := newPipe(t)
	require.ErrorAs(t, a.WriteMessage(context.Background(), &struct{ X int32 }{}), new(*netplay.ValueError))
	require.ErrorAs(t, a.WriteMessage(context.Background(), nil), new(*netplay.ValueError))
	require.ErrorAs(t, a.WriteMessage(context.Background(), (*chat)(nil)), new(*netplay.ValueError))
	require.ErrorAs(t, a.WriteMessage(context.Background(), &chat{Text: strings.Repeat("a", 65536)}), new(*netplay.ValueError))
	require.ErrorAs(t, a.WriteBatch(context.Background(), &empty{}, &blob{make([]byte, 65531)}), new(*netplay.MessageTooLargeError))
	require.Zero(t, a.Stats().BytesSent)

	_, err := netplay.NewConn(nil, newRegistry(), nil)
	require.ErrorAs(t, err, new(*netplay.ConfigError))
	x, y := net.Pipe()
	defer x.Close()
	defer y.Close()
	_, err = netplay.NewConn(x, nil, nil)
	require.ErrorAs(t, err, new(*netplay.ConfigError))
	for _, cfg := range []netplay.Config{
		{MaxFrame: 4}, {MaxFrame: 65538}, {MaxFrame: -1}, {MaxExpanded: 1}, {MaxDecoded: -1}, {MaxDepth: 1001}, {MaxDepth: -1},
	} {
		_, err = netplay.NewConn(x, newRegistry(), &cfg)
		require.ErrorAs(t, err, new(*netplay.ConfigError), "%+v", cfg)
	}
}
