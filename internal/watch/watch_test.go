package watch

import (
	"bytes"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"volley/internal/datagram"
	"volley/internal/socket"
)

// A buffer is a log that a test reads.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func newLogger() (*buffer, *slog.Logger) {
	b := new(buffer)
	return b, slog.New(slog.NewTextHandler(b, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))
}

// take returns what was written since the last call.
func take(b *buffer) string {
	synctest.Wait()
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.b.String()
	b.b.Reset()
	return s
}

func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, logger := newLogger()
		var one, two atomic.Uint64
		w := New(logger, Event{Level: slog.LevelWarn, Message: "one", Total: one.Load}, Event{Level: slog.LevelDebug, Message: "two", Total: two.Load})
		w.Start()
		one.Store(3)
		two.Store(1) // below the level of the log
		time.Sleep(interval)
		require.Equal(t, "level=WARN msg=one count=3\n", take(b))
		for range 100 {
			one.Add(1)
			time.Sleep(pause / 100)
		}
		require.Equal(t, "level=WARN msg=one count=100\n", take(b))
		time.Sleep(time.Hour)
		require.Empty(t, take(b))
		one.Store(1) // has begun anew
		time.Sleep(interval)
		require.Equal(t, "level=WARN msg=one count=1\n", take(b))
		w.Tell(slog.LevelError, "told", slog.Int("n", 1))
		w.Tell(slog.LevelError, "and more")
		require.Equal(t, "level=ERROR msg=told n=1\nlevel=ERROR msg=\"and more\"\n", take(b))
		one.Add(4)
		w.Tell(slog.LevelInfo, "the end")
		w.Stop()
		w.Stop()
		require.Equal(t, "level=WARN msg=one count=4\nlevel=INFO msg=\"the end\"\n", take(b))
		w.Tell(slog.LevelInfo, "too late")
		one.Add(1)
		time.Sleep(time.Hour)
		require.Empty(t, take(b))
	})
	synctest.Test(t, func(t *testing.T) {
		b, logger := newLogger()
		w := New(logger, Event{Message: "one", Total: func() uint64 { return 1 }})
		w.Tell(slog.LevelError, "ended before it began")
		w.Stop()
		w.Start()
		require.Equal(t, "level=INFO msg=one count=1\nlevel=ERROR msg=\"ended before it began\"\n", take(b))
		time.Sleep(time.Hour)
		require.Empty(t, take(b))
	})
	none := New(nil, Event{})
	none.Start()
	none.Tell(slog.LevelError, "nobody hears")
	none.Stop()
}

// A log that blocks keeps nobody but its own lines waiting.
func TestSlowLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		var total atomic.Uint64
		w := New(slog.New(slog.NewTextHandler(slow{gate}, nil)), Event{Message: "one", Total: total.Load})
		w.Start()
		total.Add(1)
		time.Sleep(time.Minute)
		total.Add(1)
		w.Tell(slog.LevelInfo, "told")
		w.Stop()
		close(gate) // no Wait before it: the handler has a mutex
	})
}

type slow struct{ gate chan struct{} }

func (s slow) Write(b []byte) (int, error) {
	<-s.gate
	return len(b), nil
}

func TestTransport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, logger := newLogger()
		var mu sync.Mutex // of stats
		stats := make([]datagram.Stats, 2)
		stats[0].Socket = socket.Stats{ReadBufferSize: 1000, WriteBufferSize: 500, GSO: true}
		w := New(logger, Transport("toy", func() []datagram.Stats {
			mu.Lock()
			defer mu.Unlock()
			return slices.Clone(stats)
		})...)
		w.Start()
		defer w.Stop()
		time.Sleep(time.Minute)
		require.Empty(t, take(b))
		mu.Lock()
		stats[0].Socket.Drops, stats[1].Socket.Drops = 3, 4
		stats[1].ReadErrors, stats[0].WriteErrors = 1, 2
		stats[0].Socket.Fallbacks, stats[0].Socket.GSO = 5, false
		mu.Unlock()
		time.Sleep(interval)
		lines := strings.Split(strings.TrimSpace(take(b)), "\n")
		require.Len(t, lines, 4)
		require.Contains(t, lines[0], `level=WARN msg="toy: the kernel has dropped datagrams, for the socket's receive buffer was full" count=7 buffer=1000 advice=`)
		require.Equal(t, `level=WARN msg="toy: reading the socket has failed" count=1`, lines[1])
		require.Equal(t, `level=WARN msg="toy: the system has refused to send" count=2`, lines[2])
		require.Equal(t, `level=INFO msg="toy: the system has refused runs of datagrams, which were sent one by one" count=5 offload=false`, lines[3])

		Buffers(logger, "toy", 501, stats[0])
		require.Contains(t, take(b), `wanted=501 receive=1000 send=500`)
		Buffers(logger, "toy", 500, stats[0])
		Buffers(logger, "toy", 501, stats[1]) // the platform does not tell
		Buffers(nil, "toy", 501, stats[0])
		require.Empty(t, take(b))
	})
}
