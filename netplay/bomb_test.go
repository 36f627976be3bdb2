package netplay

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"io"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"volley/internal/testenv"
)

// bomb returns a stream of so many zeros, which is about a thousandth as large.
func bomb(tb testing.TB, size int, asGzip bool) []byte {
	var b bytes.Buffer
	var w io.WriteCloser
	var err error
	if w, err = zlib.NewWriterLevel(&b, zlib.BestCompression); asGzip {
		w, err = gzip.NewWriterLevel(&b, gzip.BestCompression)
	}
	require.NoError(tb, err)
	zeros := make([]byte, 1<<16)
	for left := size; left > 0; left -= len(zeros) {
		_, err = w.Write(zeros[:min(left, len(zeros))])
		require.NoError(tb, err)
	}
	require.NoError(tb, w.Close())
	return b.Bytes()
}

// Of a stream that expands to a thousand times its size, no more than the limit and a byte is
// expanded, whatever size it has, and nothing of it is left in memory.
func TestBombs(t *testing.T) {
	const limit = 1 << 16
	large := testenv.Raced(64<<20, 8<<20)
	for _, asGzip := range []bool{false, true} {
		whole := bomb(t, large, asGzip)
		require.Greater(t, large/len(whole), 900)
		for _, size := range []int{0, 1, limit - 1, limit, limit + 1, 2 * limit, 1 << 20, large} {
			b := whole
			if size < large {
				b = bomb(t, size, asGzip)
			}
			got, err := expand(nil, b, limit)
			require.LessOrEqual(t, cap(got), limit+1)
			if size <= limit {
				require.NoError(t, err)
				require.Len(t, got, size)
				continue
			}
			require.ErrorIs(t, err, errExpandedSize)
		}
		before := testenv.Heap()
		for range 200 {
			_, err := expand(nil, whole, limit)
			require.ErrorIs(t, err, errExpandedSize)
		}
		require.Less(t, testenv.Heap()-before, int64(64<<10))
	}
}

// A body of the default limit does not need a new buffer each time.
func TestLargeBodiesShareBuffers(t *testing.T) {
	if testenv.Race {
		t.Skip("the race detector has pools forget")
	}
	c, err := NewCodec(new(Registry), nil)
	require.NoError(t, err)
	b := bomb(t, 2*defaultExpanded, false)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range 40 {
		require.Error(t, c.decodeBody(Frame{Payload: b, Options: compressed}, addr(nil), nil))
	}
	runtime.ReadMemStats(&after)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(20*defaultExpanded), "some may be collected")
}

// BenchmarkBomb is the cost of a stream of 64 MiB in 64 KiB with the least and the default limit.
func BenchmarkBomb(b *testing.B) {
	whole := bomb(b, 64<<20, false)
	for _, limit := range []int{1 << 16, 1 << 20} {
		b.Run(byteSize(limit), func(b *testing.B) {
			b.ReportAllocs()
			c, err := NewCodec(new(Registry), &Config{MaxExpanded: limit})
			require.NoError(b, err)
			for b.Loop() {
				if err := c.decodeBody(Frame{Payload: whole, Options: compressed}, addr(nil), nil); err == nil {
					b.Fatal("no error")
				}
			}
		})
	}
}

func byteSize(n int) string {
	if n < 1<<20 {
		return "64KiB"
	}
	return "1MiB"
}
