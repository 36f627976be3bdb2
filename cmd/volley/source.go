package main

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"time"
)

// A source yields the messages to send. Its error is io.EOF at the end.
type source interface {
	// next returns the next message, which is valid until the next call. It
	// may wait.
	next() ([]byte, error)
}

// A generator makes messages without end, each with content of its own.
type generator struct {
	seed             uint64
	minSize, maxSize int
	sizes            *rand.Rand
	number           uint64
	buf              []byte
}

func newGenerator(seed uint64, minSize, maxSize int) *generator {
	return &generator{seed: seed, minSize: minSize, maxSize: maxSize, sizes: rand.New(rand.NewPCG(seed, 0))}
}

func (g *generator) next() ([]byte, error) {
	size := g.size()
	g.buf = appendContent(g.buf[:0], g.seed, g.number, size)
	g.number++
	return g.buf, nil
}

// size returns the size of the next message: the extremes first, then as many
// of each order of magnitude.
func (g *generator) size() int {
	switch g.number {
	case 0:
		return g.minSize
	case 1:
		return g.maxSize
	}
	low, high := math.Log(float64(g.minSize)), math.Log(float64(g.maxSize)+1)
	return min(g.maxSize, int(math.Exp(low+g.sizes.Float64()*(high-low))))
}

// appendContent appends the content of a generated message: its number in 8
// bytes, and random bytes that follow from it; or as much of this as fits.
func appendContent(dst []byte, seed, number uint64, size int) []byte {
	end := len(dst) + size
	dst = binary.LittleEndian.AppendUint64(dst, number)
	random := rand.NewPCG(seed, number)
	for len(dst) < end {
		dst = binary.LittleEndian.AppendUint64(dst, random.Uint64())
	}
	return dst[:end]
}

// lines yields the lines of a text. Empty ones are skipped, and those longer
// than max are split.
type lines struct {
	r   *bufio.Reader
	max int
	buf []byte
}

func (l *lines) next() ([]byte, error) {
	for {
		b, err := l.read()
		if err != nil || len(b) > 0 {
			return b, err
		}
	}
}

// read returns a line or a part of one, without the line break and a carriage
// return before it.
func (l *lines) read() ([]byte, error) {
	l.buf = l.buf[:0]
	for len(l.buf) < l.max {
		c, err := l.r.ReadByte()
		if err != nil {
			if len(l.buf) > 0 && err == io.EOF {
				err = nil
			}
			return l.buf, err
		}
		if c == '\n' {
			return bytes.TrimSuffix(l.buf, []byte("\r")), nil
		}
		l.buf = append(l.buf, c)
	}
	return l.buf, nil
}

// blocks yields pieces of equal size; the last may be shorter.
type blocks struct {
	r   io.Reader
	buf []byte
}

func (b *blocks) next() ([]byte, error) {
	n, err := io.ReadFull(b.r, b.buf)
	if err == io.ErrUnexpectedEOF {
		err = nil
	}
	return b.buf[:n], err
}

const (
	// blockSize is the size of the pieces of input that isn't text.
	blockSize = 1 << 10
	// sniffLen is how much of the input decides whether it is text.
	sniffLen = 8 << 10
)

// openSource returns what is to be sent, and a word about it. Close closes the
// input, if there is any.
func openSource(o *options, stdin *os.File) (src source, about string, close func(), err error) {
	r, name, close, err := openInput(o, stdin)
	if err != nil {
		return nil, "", nil, err
	}
	if r == nil {
		about = fmt.Sprintf("messages of %s to %s", formatSize(o.minSize), formatSize(o.maxSize))
		return newGenerator(uint64(o.seed), o.minSize, o.maxSize), about, close, nil
	}
	size, err := recordSize(o, r)
	if err != nil {
		close()
		return nil, "", nil, err
	}
	if size == 0 {
		return &lines{r: r, max: o.maxSize}, "the lines of " + name, close, nil
	}
	about = fmt.Sprintf("%s in blocks of %s", name, formatSize(size))
	return &blocks{r: r, buf: make([]byte, size)}, about, close, nil
}

// recordSize returns the size of the records of the input, 0 for lines.
func recordSize(o *options, r *bufio.Reader) (int, error) {
	if o.records != "auto" {
		return o.recordSize()
	}
	head, _ := r.Peek(min(sniffLen, max(1, r.Buffered())))
	if bytes.IndexByte(head, 0) >= 0 {
		return min(blockSize, o.maxSize), nil
	}
	return 0, nil
}

// openInput opens the file that is to be sent. The reader is nil if messages
// are to be generated.
func openInput(o *options, stdin *os.File) (r *bufio.Reader, name string, close func(), err error) {
	switch o.input {
	case "none":
		return nil, "", func() {}, nil
	case "-":
		return bufio.NewReaderSize(stdin, 2*sniffLen), "standard input", func() {}, nil
	case "":
		return pipedInput(stdin), "standard input", func() {}, nil
	}
	f, err := os.Open(o.input)
	if err != nil {
		return nil, "", nil, err
	}
	return bufio.NewReaderSize(f, 2*sniffLen), o.input, func() { f.Close() }, nil
}

// stdinWait is how long standard input may take to say something before it is
// taken for one that nobody uses, as programs have that are started by others.
const stdinWait = time.Second

// pipedInput returns a reader of standard input if something is piped in: a
// file or a pipe that isn't empty. A terminal or /dev/null is no input.
func pipedInput(stdin *os.File) *bufio.Reader {
	info, err := stdin.Stat()
	if err != nil || info.Mode()&os.ModeCharDevice != 0 || info.IsDir() {
		return nil
	}
	r := bufio.NewReaderSize(stdin, 2*sniffLen)
	some := make(chan bool, 1)
	go func() {
		_, err := r.Peek(1)
		some <- err == nil
	}()
	select {
	case ok := <-some:
		if ok {
			return r
		}
	case <-time.After(stdinWait):
	}
	return nil
}
