package netplay

import "io"

const (
	readBuffer = 2048 // bytes that a connection begins to read with
	// calmFrames is how many frames in a row that fit a quarter of a larger buffer make
	// it shrink.
	calmFrames = 64
)

// A frameReader finds the frames in a stream. Its buffer grows with the received bytes of a
// frame, not with the length that the frame claims.
type frameReader struct {
	// read reads more bytes. partial says that a frame has begun.
	read     func(b []byte, partial bool) (int, error)
	maxFrame int
	minRead  int // the room that read must have, for sources of messages

	buf  []byte
	r, w int // the unread bytes in buf
	last int // the bytes from r that next has returned
	calm int // small frames in a row
}

// next returns the next frame, valid until the next call, or an error of read or format.
func (fr *frameReader) next() (Frame, error) {
	fr.take()
	for {
		size, err := frameSize(fr.buf[fr.r:fr.w], fr.maxFrame)
		if err != nil && err != errShortFrame {
			return Frame{}, err
		}
		if err == nil && fr.w-fr.r >= size {
			fr.last = size
			return frameAt(fr.buf[fr.r : fr.r+size]), nil
		}
		if err := fr.fill(); err != nil {
			return Frame{}, err
		}
	}
}

// take forgets the frame that was returned last.
func (fr *frameReader) take() {
	fr.r += fr.last
	if fr.last > len(fr.buf)/4 {
		fr.calm = 0
	} else if fr.last > 0 {
		fr.calm++
	}
	fr.last = 0
	if fr.r < fr.w {
		return
	}
	fr.r, fr.w = 0, 0
	if fr.calm >= calmFrames && len(fr.buf) > max(readBuffer, fr.minRead) {
		fr.buf, fr.calm = nil, 0
	}
}

func (fr *frameReader) fill() error {
	fr.makeRoom()
	partial := fr.w > fr.r
	n, err := fr.read(fr.buf[fr.w:], partial)
	fr.w += n
	if n > 0 {
		return nil // an error comes again
	}
	if err == io.EOF && partial {
		return io.ErrUnexpectedEOF
	}
	return err
}

// makeRoom leaves room behind fr.w.
func (fr *frameReader) makeRoom() {
	need := max(1, fr.minRead)
	if len(fr.buf)-fr.w >= need {
		return
	}
	have := fr.w - fr.r
	buf := fr.buf
	if len(buf) < have+need {
		buf = make([]byte, max(readBuffer, have+need, 2*len(fr.buf)))
	}
	copy(buf, fr.buf[fr.r:fr.w])
	fr.buf, fr.r, fr.w = buf, 0, have
}
