package dissect

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"errors"
	"io"
)

// Sizes in bytes, as docs/netplay.md has them.
const (
	netplayHeader = 5
	maxExpanded   = 1 << 20
	chunkSize     = 1024
)

// netplay is one frame of the dialects Release and V3.
func (d *decoder) netplay() {
	n, why := netplaySize(d.b)
	if why != "" {
		if len(d.b) >= 2 {
			d.add("length", 0, 2, d.be16(0))
		}
		d.problem("%s", why)
		return
	}
	length, options, typ := d.be16(0), uint64(d.b[2]), d.be16(3)
	d.add("length", 0, 2, length)
	d.say("message of type %d, %s", typ, size(n-netplayHeader))
	d.add("options", 2, 1, options).Hex = true
	d.add("compressed", 2, 1, options&1 != 0)
	d.add("encrypted", 2, 1, options&2 != 0)
	d.add("message", 3, 2, typ)
	d.bytes("payload", netplayHeader, n-netplayHeader)
	switch {
	case n < len(d.b):
		d.problem("%s behind the frame", size(len(d.b)-n))
	case options&2 != 0:
		d.Note = "with the flag that says encrypted, which has no meaning"
	case options&0xfc != 0:
		d.Note = "with reserved options"
	}
	if options&1 == 0 || n == netplayHeader {
		return
	}
	body, err := expand(d.b[netplayHeader:n])
	if err != nil {
		d.problem("the payload is no compressed stream")
		return
	}
	d.also(", compressed from %s", size(len(body)))
	if len(body) > 0 {
		d.addIn("body", body)
	}
}

// netplaySize returns the length of the frame at the front of b, or why there is
// none.
func netplaySize(b []byte) (n int, why string) {
	if len(b) < 2 {
		return 0, "ends within the length"
	}
	n = 2 + int(b[0])<<8 + int(b[1])
	switch {
	case n < netplayHeader:
		return 0, "a length of " + text(uint64(n-2), false) + ", less than 3"
	case n > len(b):
		return 0, "the frame has " + size(n) + ", of which " + text(uint64(len(b)), false) + " are here"
	}
	return n, ""
}

// netplayChunks is one frame of the dialect V4.
func (d *decoder) netplayChunks() {
	n := chunks(d.b)
	if n == 0 {
		d.add("chunk", 0, 1, uint64(d.b[0])).Hex = true
		d.problem("ends within the length")
		return
	}
	if n == 1 { // the frame is in one piece
		d.add("chunk", 0, 1, uint64(d.b[0])).Hex = true
		if d.b[0]&0xc0 != chunkHeader(0, 1) {
			d.problem("chunk 1 of 1 begins with 0x%02x, not 0x00", d.b[0])
			return
		}
		d.b, d.base = d.b[1:], 1
		d.netplay()
		return
	}
	var frame []byte
	for i := 0; i*chunkSize < len(d.b); i++ {
		chunk := d.b[i*chunkSize : min((i+1)*chunkSize, len(d.b))]
		d.add("chunk", i*chunkSize, 1, uint64(chunk[0])).Hex = true
		if want := chunkHeader(i, n); chunk[0]&0xc0 != want {
			d.problem("chunk %d of %d begins with 0x%02x, not 0x%02x", i+1, n, chunk[0], want)
			return
		}
		frame = append(frame, chunk[1:]...)
	}
	d.b, d.in = frame, "frame"
	d.netplay()
	d.also(", in %d chunks", n)
}

// chunks returns of how many chunks the frame that begins with the chunk b is, 0
// if that cannot be told.
func chunks(b []byte) int {
	if len(b) < 3 {
		return 0
	}
	n := 2 + int(b[1])<<8 + int(b[2])
	return (n + chunkSize - 2) / (chunkSize - 1)
}

// chunkHeader returns the upper two bits of the header of the i-th of n chunks.
func chunkHeader(i, n int) byte {
	switch {
	case n == 1:
		return 0x00
	case i == 0:
		return 0x40
	case i == n-1:
		return 0x80
	}
	return 0xc0
}

var errExpanded = errors.New("more than 1 MiB")

// expand expands a payload.
func expand(payload []byte) ([]byte, error) {
	var r io.Reader
	var err error
	if bytes.HasPrefix(payload, []byte{0x1f, 0x8b}) {
		var g *gzip.Reader
		if g, err = gzip.NewReader(bytes.NewReader(payload)); err == nil {
			g.Multistream(false)
		}
		r = g
	} else {
		r, err = zlib.NewReader(bytes.NewReader(payload))
	}
	if err != nil {
		return nil, wholeStream(err)
	}
	body, err := io.ReadAll(io.LimitReader(r, maxExpanded+1))
	if err != nil {
		return nil, wholeStream(err)
	}
	if len(body) > maxExpanded {
		return nil, errExpanded
	}
	return body, nil
}

// wholeStream says the end of a stream that is cut off in words.
func wholeStream(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("it is cut off")
	}
	return err
}
