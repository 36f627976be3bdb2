package netplay

// Dialect V4 cuts every frame into chunks: a header of one byte and at most 1023 bytes of
// the frame. All chunks except the last are full. The header has no length, so a reader
// finds the chunks by the length of the frame.

const (
	chunkData = 1023          // bytes of a frame in a full chunk
	chunkSize = 1 + chunkData // with the header

	chunkWhole  = 0x00 // the frame is in this chunk
	chunkFirst  = 0x40 // others follow
	chunkMiddle = 0xc0
	chunkLast   = 0x80
	chunkMask   = 0xc0 // the low bits are ignored
)

// chunkedSize returns how long a frame is when it is cut.
func chunkedSize(frame int) int { return frame + chunks(frame) }

// chunks returns into how many chunks a frame is cut.
func chunks(frame int) int { return (frame + chunkData - 1) / chunkData }

// chunkHeader returns the header of the i-th of n chunks.
func chunkHeader(i, n int) byte {
	switch {
	case n == 1:
		return chunkWhole
	case i == 0:
		return chunkFirst
	case i == n-1:
		return chunkLast
	}
	return chunkMiddle
}

// cutFrame puts chunk headers into the frame that begins at start.
func cutFrame(dst []byte, start int) []byte {
	size := len(dst) - start
	n := chunks(size)
	dst = append(dst, make([]byte, n)...)
	b := dst[start:]
	for i := n - 1; i >= 0; i-- {
		copy(b[i*chunkSize+1:], b[i*chunkData:min(size, (i+1)*chunkData)])
		b[i*chunkSize] = chunkHeader(i, n)
	}
	return dst
}

// chunkedFrameSize returns the length of the chunks of the frame that begins with b, and
// checks the headers that are in b.
func chunkedFrameSize(b []byte, limit int) (int, error) {
	if len(b) == 0 {
		return 0, ErrShortFrame
	}
	if h := b[0] & chunkMask; h != chunkWhole && h != chunkFirst {
		return 0, protocolError("a chunk continues (header %#02x) what has not begun", b[0])
	}
	size, err := frameSize(b[1:], limit)
	if err != nil {
		return 0, err
	}
	n := chunks(size)
	for i := 0; i < n && i*chunkSize < len(b); i++ {
		if h := b[i*chunkSize]; h&chunkMask != chunkHeader(i, n) {
			return 0, protocolError("chunk %d of %d has the header %#02x", i+1, n, h)
		}
	}
	return chunkedSize(size), nil
}

// joinChunks takes the headers out of the chunks of one frame, in place.
func joinChunks(b []byte) []byte {
	n := 0
	for i := 0; i < len(b); i += chunkSize {
		n += copy(b[n:], b[i+1:min(len(b), i+chunkSize)])
	}
	return b[:n]
}
