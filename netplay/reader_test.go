package netplay

import (
	"bytes"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"volley/internal/testenv"
)

// A cutSource yields a frame again and again, cut at another byte each time.
type cutSource struct {
	frame    []byte
	cut, pos int
	rounds   int // 0: then the end
}

func (s *cutSource) read(b []byte, partial bool) (int, error) {
	if partial != (s.pos > 0) {
		panic("partial is wrong")
	}
	if s.rounds == 0 {
		return 0, io.EOF
	}
	end := len(s.frame)
	if s.pos < s.cut {
		end = s.cut
	}
	n := copy(b, s.frame[s.pos:end])
	if s.pos += n; s.pos == len(s.frame) {
		s.pos = 0
		s.cut++
		s.rounds--
	}
	return n, nil
}

// TestFramesCutAnywhere reads frames of lengths around every boundary that are
// cut at every byte. Compressed ones are no different here.
func TestFramesCutAnywhere(t *testing.T) {
	set, err := newSettings(nil)
	require.NoError(t, err)
	for _, n := range []int{5, 6, 7, 1022, 1023, 1024, 1025, 2047, 2048, 2049, 4096, 65535, 65536, 65537} {
		payload := make([]byte, n-minFrame)
		r := rand.New(rand.NewPCG(1, uint64(n)))
		for i := range payload {
			payload[i] = byte(r.Uint32())
		}
		frame, err := AppendFrame(nil, Frame{Type: 7, Options: Compressed, Payload: payload})
		require.NoError(t, err)
		src := &cutSource{frame: frame, cut: 1, rounds: len(frame)}
		step := 1
		if n > 5000 && (testenv.Race || testing.Short()) {
			step = 101
			src.rounds = len(frame) / step
		}
		fr := frameReader{maxFrame: set.maxFrame, read: src.read}
		for range src.rounds {
			f, err := fr.next()
			require.NoError(t, err)
			if !bytes.Equal(payload, f.Payload) || f.Type != 7 || f.Options != Compressed {
				t.Fatalf("frame of %d bytes cut at %d: another one", n, src.cut)
			}
			src.cut += step - 1
		}
		_, err = fr.next()
		require.Equal(t, io.EOF, err)
	}
}

// TestFrameReaderMemory checks that the buffer follows what arrived and not
// what was announced, and that it is given up again.
func TestFrameReaderMemory(t *testing.T) {
	announced := []byte{0xff, 0xff, 0, 0, 1}
	total := 0
	fr := frameReader{maxFrame: maxFrame}
	fr.read = func(b []byte, _ bool) (int, error) {
		if len(fr.buf) > max(readBuffer, 4*total) {
			t.Fatalf("a buffer of %d bytes after %d", len(fr.buf), total)
		}
		n := 1
		if total < len(announced) {
			b[0] = announced[total]
		}
		total += n
		return n, nil
	}
	f, err := fr.next()
	require.NoError(t, err)
	require.Len(t, f.Payload, MaxPayload)
	require.GreaterOrEqual(t, len(fr.buf), maxFrame)
	require.LessOrEqual(t, len(fr.buf), 2*maxFrame)

	small := []byte{0, 3, 0, 0, 1}
	fr.read = func(b []byte, _ bool) (int, error) { return copy(b, small), nil }
	for range calmFrames + 1 {
		_, err := fr.next()
		require.NoError(t, err)
	}
	require.LessOrEqual(t, len(fr.buf), readBuffer)
}

// TestFrameReaderMinRead checks that a source of messages always gets room for
// one.
func TestFrameReaderMinRead(t *testing.T) {
	sent := 0
	fr := frameReader{maxFrame: maxFrame, minRead: 3000}
	fr.read = func(b []byte, _ bool) (int, error) {
		require.GreaterOrEqual(t, len(b), 3000)
		sent++
		return copy(b, appendFrame(Frame{Payload: make([]byte, sent%2995)})), nil
	}
	for n := range 4000 {
		f, err := fr.next()
		require.NoError(t, err)
		require.Len(t, f.Payload, (n+1)%2995)
	}
}
