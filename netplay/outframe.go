package netplay

import (
	"math/bits"
	"sync"
	"sync/atomic"
)

// An outFrame is an encoded message. A broadcast shares one; the last release frees it.
type outFrame struct {
	b    []byte
	refs atomic.Int32
}

// frameOverhead is what a waiting frame counts beside its bytes.
const frameOverhead = 64

// outFrames holds frames for reuse: class i has room for 1<<i bytes or more, less than twice
// that. So a queue takes about as much memory as it counts.
var outFrames [outClasses]sync.Pool

const outClasses = 18 // the last one has room for the longest frame

// newOutFrame returns an empty frame with room for size bytes, held once.
func newOutFrame(size int) *outFrame {
	class := bits.Len(uint(max(size, 64) - 1))
	f, _ := outFrames[class].Get().(*outFrame)
	if f == nil {
		f = &outFrame{b: make([]byte, 0, 1<<class)}
	}
	f.b = f.b[:0]
	f.refs.Store(1)
	return f
}

// scratches holds buffers to encode in, before the size of a frame is known.
var scratches = sync.Pool{New: func() any { return new([]byte) }}

// encode returns the frame of v, held once.
func (c *Codec) encode(v any) (*outFrame, error) {
	scratch := scratches.Get().(*[]byte)
	b, err := c.Append((*scratch)[:0], v)
	var f *outFrame
	if err == nil {
		f = newOutFrame(len(b))
		f.b = append(f.b, b...)
	}
	*scratch = b
	putScratch(scratch)
	return f, err
}

// putScratch keeps a buffer for reuse, unless it has become too large.
func putScratch(b *[]byte) {
	if cap(*b) <= maxFrame*2 {
		scratches.Put(b)
	}
}

func (f *outFrame) release() {
	if f.refs.Add(-1) > 0 {
		return
	}
	if class := bits.Len(uint(cap(f.b))) - 1; class < outClasses {
		outFrames[class].Put(f)
	}
}

// cost is what the frame counts while it waits.
func (f *outFrame) cost() int { return len(f.b) + frameOverhead }
