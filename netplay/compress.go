package netplay

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"errors"
	"io"
	"sync"
)

var errExpandedSize = errors.New("expanded size over the limit")

// A compressionError: the payload is no whole zlib or gzip stream, or too large.
type compressionError struct{ Err error }

func (e *compressionError) Error() string { return "netplay: compressed payload: " + e.Err.Error() }

func (e *compressionError) Unwrap() error { return e.Err }

// An expander expands streams. It is reused, since its tables take 40 KB.
type expander struct {
	src  bytes.Reader
	zlib io.ReadCloser
	gzip gzip.Reader
}

var expanders = sync.Pool{New: func() any {
	// A reader cannot be made without the header of a stream.
	z, err := zlib.NewReader(bytes.NewReader([]byte{0x78, 0xda}))
	if err != nil {
		panic("BUG: " + err.Error())
	}
	return &expander{zlib: z}
}}

// expand appends the body of a compressed payload to dst[:0], ignoring bytes behind it.
func expand(dst, payload []byte, limit int) ([]byte, error) {
	dst = dst[:0]
	if len(payload) == 0 {
		return dst, nil
	}
	e := expanders.Get().(*expander)
	defer expanders.Put(e)
	e.src.Reset(payload)
	r, err := e.open(payload)
	if err == nil {
		dst, err = readLimited(dst, r, limit, 2*len(payload))
	}
	e.src.Reset(nil)
	if err != nil {
		return dst[:0], &compressionError{err}
	}
	return dst, nil
}

// open returns a reader of the stream in e.src.
func (e *expander) open(payload []byte) (io.Reader, error) {
	if len(payload) >= 2 && payload[0] == 0x1f && payload[1] == 0x8b {
		if err := e.gzip.Reset(&e.src); err != nil {
			return nil, noEOF(err)
		}
		e.gzip.Multistream(false)
		return &e.gzip, nil
	}
	if err := e.zlib.(zlib.Resetter).Reset(&e.src, nil); err != nil {
		return nil, noEOF(err)
	}
	return e.zlib, nil
}

// readLimited reads r to its end. The buffer grows from about the size guessed.
func readLimited(dst []byte, r io.Reader, limit, guess int) ([]byte, error) {
	if cap(dst) == 0 {
		dst = make([]byte, 0, min(max(512, guess), limit+1))
	}
	for {
		if len(dst) == cap(dst) {
			bigger := make([]byte, len(dst), max(len(dst)+1, min(2*len(dst), limit+1)))
			copy(bigger, dst)
			dst = bigger
		}
		n, err := r.Read(dst[len(dst):min(cap(dst), limit+1)])
		dst = dst[:len(dst)+n]
		switch {
		case len(dst) > limit:
			return dst, errExpandedSize
		case err == io.EOF:
			return dst, nil
		case err != nil:
			return dst, noEOF(err)
		}
	}
}

// noEOF returns the error for a stream that ends too early.
func noEOF(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// A compressor is reused, since its tables take 800 KB.
type compressor struct {
	w interface {
		io.WriteCloser
		Reset(io.Writer)
	}
	out sliceWriter
}

// A sliceWriter appends to itself.
type sliceWriter []byte

func (w *sliceWriter) Write(b []byte) (int, error) {
	*w = append(*w, b...)
	return len(b), nil
}

// The level is that of the Java library. It is valid, so there is no error.
var (
	zlibCompressors = sync.Pool{New: func() any {
		w, _ := zlib.NewWriterLevel(nil, zlib.BestCompression)
		return &compressor{w: w}
	}}
	gzipCompressors = sync.Pool{New: func() any {
		w, _ := gzip.NewWriterLevel(nil, gzip.BestCompression)
		return &compressor{w: w}
	}}
)

// compressBody compresses the body at the end of dst, and reports whether that was shorter.
func compressBody(dst []byte, start int, asGzip bool) ([]byte, bool) {
	pool := &zlibCompressors
	if asGzip {
		pool = &gzipCompressors
	}
	c := pool.Get().(*compressor)
	defer pool.Put(c)
	c.out = c.out[:0]
	c.w.Reset(&c.out)
	// Writing to memory does not fail.
	c.w.Write(dst[start:])
	c.w.Close()
	if len(c.out) >= len(dst)-start {
		return dst, false
	}
	dst = append(dst[:start], c.out...)
	if cap(c.out) > maxFrame {
		c.out = nil
	}
	return dst, true
}
