package netplay

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"volley/internal/tape"
)

// A body is sent compressed only if that is shorter; one that is as long stays as it
// is, and what stands before it in any case.
func TestCompressedIfShorter(t *testing.T) {
	var packed bytes.Buffer
	z, err := zlib.NewWriterLevel(&packed, zlib.BestCompression)
	require.NoError(t, err)
	g, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	require.NoError(t, err)
	rng := tape.Rand(1)
	for _, asGzip := range []bool{false, true} {
		seen := map[int]bool{}
		for i := range 60 {
			random := 20 + i%3
			body := make([]byte, random+8+i/2)
			for i := range random {
				body[i] = byte(rng.Uint64())
			}
			packed.Reset()
			var w io.WriteCloser = z
			if z.Reset(&packed); asGzip {
				g.Reset(&packed)
				w = g
			}
			w.Write(body)
			require.NoError(t, w.Close())
			want, shorter := packed.Bytes(), packed.Len() < len(body)
			if !shorter {
				want = body
			}
			got, done := compressBody(append([]byte("head"), body...), 4, asGzip)
			require.Equal(t, shorter, done, "%d bytes become %d", len(body), packed.Len())
			require.Equal(t, append([]byte("head"), want...), got)
			seen[max(-1, min(1, packed.Len()-len(body)))] = true
		}
		require.Len(t, seen, 3, "shorter, as long and longer")
	}
}

// A stream that is cut short ends too early, and one that is none is told as such.
func TestCutStreams(t *testing.T) {
	for _, asGzip := range []bool{false, true} {
		whole, done := compressBody(bytes.Repeat([]byte("abcd"), 50), 0, asGzip)
		require.True(t, done)
		for n := 1; n < len(whole); n++ {
			_, err := expand(nil, whole[:n], 1000)
			require.ErrorIs(t, err, io.ErrUnexpectedEOF, "%d of %d bytes", n, len(whole))
		}
		_, err := expand(nil, whole, 200)
		require.NoError(t, err)
	}
	_, err := expand(nil, []byte{1, 2, 3, 4}, 1000)
	require.ErrorIs(t, err, zlib.ErrHeader)
	_, err = expand(nil, append([]byte{0x1f, 0x8b, 9}, make([]byte, 20)...), 1000)
	require.ErrorIs(t, err, gzip.ErrHeader)
}

// An error of compression says where it was, and what was wrong.
func TestCompressionErrorText(t *testing.T) {
	_, err := expand(nil, []byte{1, 2, 3, 4}, 1000)
	require.EqualError(t, err, "netplay: compressed payload: zlib: invalid header")
	whole, _ := compressBody(bytes.Repeat([]byte("abcd"), 50), 0, false)
	_, err = expand(nil, whole, 100)
	require.EqualError(t, err, "netplay: compressed payload: expanded size over the limit")
}
